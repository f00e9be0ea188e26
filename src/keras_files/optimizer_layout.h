#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/core/json.h"

namespace strata::keras_files {

/// One dataset of `optimizer/vars`.
struct OptimizerSlot {
  std::string kind;  ///< "iteration", "learning_rate", "momentum", "velocity" ...: Keras's name.
  int64_t variable = -1;  ///< Index into the model's trainable variables; -1: of the optimizer.
  std::vector<int64_t> shape = {};

  friend bool operator==(const OptimizerSlot&, const OptimizerSlot&) = default;
};

/// What is in `optimizer/vars/0`, `1`, ... after training. The order is the optimizer's own:
/// Adam keeps momentum and velocity of one variable side by side, RMSprop one kind after the other.
/// A learning rate that is a schedule is not kept; everything then moves up by one. The first of
/// them, up to and with `learning_rate`, is all that a model has that was compiled and not trained.
///
/// @param optimizer  `class_name` and `config`, or a name such as "adam" for Keras's defaults.
/// @param shapes     Of the trainable variables, in the order of `trainable_variables`.
/// @param names      Of these variables: Muon's state depends on them. None: it depends on shapes alone.
/// @throws Error  kUnimplemented: an optimizer that we do not know. kDataLoss: no optimizer's JSON. kInvalidArgument: exclude_layers of Muon
///                that are no regular expressions.
std::vector<OptimizerSlot> optimizer_slots(const Json& optimizer,
                                           std::span<const std::vector<int64_t>> shapes,
                                           std::span<const std::string> names = {});

/// The way back: which dataset has the slot `kind` of `variable` (-1: the optimizer's own).
/// @return -1 if the optimizer keeps none.
int64_t find_slot(std::span<const OptimizerSlot> slots, const std::string& kind, int64_t variable);

}  // namespace strata::keras_files
