#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strata/keras/model.h"

/// What a compiled model adds to its file, and takes from one.
namespace strata::keras::detail {

struct TrainingState {
  Json compile_config = {};                ///< Null: not compiled.
  std::vector<at::Tensor> optimizer = {};  ///< `optimizer/vars/0`, `1`, ...
};

TrainingState training_state(const Model& model);

/// Compiles the model as a file says, with its optimizer's state.
/// @throws Error kUnimplemented: a loss, metric or optimizer that strata does not have.
void restore_training(const Model& model, const Json& compile_config,
                      const std::vector<at::Tensor>& optimizer);

/// The optimizer's state into a model that is compiled; else nothing happens.
void restore_optimizer(const Model& model, const std::vector<at::Tensor>& state);

struct OptimizerSize {
  int64_t params;
  int64_t bytes;
};
/// Of the variables of the model's optimizer, once they are there.
std::optional<OptimizerSize> optimizer_size(const Model& model);

}  // namespace strata::keras::detail
