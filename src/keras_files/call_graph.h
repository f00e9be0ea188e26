#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keras_files/mask_rules.h"

namespace strata::keras_files {

/// The calls that a functional model is made of, and the orders that follow from them: of its layers
/// (model_layout.h, canonical_order), and in which Keras runs the calls. Layers and calls have numbers, counted as added.
class CallGraph {
 public:
  /// One output of a call.
  struct Value {
    size_t call;
    size_t output = 0;
  };

  struct Call {
    size_t layer;
    std::vector<Value> inputs = {};  ///< All tensors, in the order of Keras's arguments.
    std::vector<Value> first = {};   ///< Those of the first argument.
    std::vector<Value> masks = {};   ///< Those of the argument `mask`.
    bool is_plain = false;  ///< One tensor, no other argument, of the dtype that the layer wants.
    bool is_cast = false;   ///< The first argument has another floating dtype than the layer wants.
  };

  size_t add_layer(std::string name, const MaskRule& rule);
  /// Calls may name calls that come later.
  size_t add_call(Call call);

  struct Order {
    std::vector<size_t> layers = {};
    std::vector<size_t> calls = {};  ///< Those that outputs need.
  };
  /// Of what is between `inputs` (calls) and `outputs`.
  /// @throws Error kDataLoss: a cycle; names a layer on it.
  Order in_order(const std::vector<Value>& outputs, const std::vector<size_t>& inputs);

 private:
  struct Visit {
    std::vector<size_t> finished = {};  ///< Calls, each after what it takes.
    std::vector<int64_t> index = {};    ///< By layer, in the order of their first visits; -1: none.
  };

  Visit visit(const std::vector<Value>& outputs) const;
  void add_masks(const std::vector<size_t>& calls);
  int64_t mask_for(size_t call, const std::vector<int64_t>& given);
  int64_t operation(const std::vector<int64_t>& calls);

  std::vector<std::string> names_;  // of layers; then, without names, operations that make masks
  std::vector<MaskRule> rules_;
  std::vector<Call> calls_;
  std::vector<std::vector<size_t>> parents_;  // of each call
};

}  // namespace strata::keras_files
