#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

/// A model of layers in sequence.
///
///     keras::Sequential model({layers::Flatten(), layers::Dense(128, "relu"), layers::Dense(10)});
///
/// With keras::Input(shape) first (`Sequential(Input({784}), {...})`) weights are made at once,
/// else by the first data. Source: keras.Sequential.
class STRATA_API Sequential : public Model {
 public:
  explicit Sequential(std::vector<Layer> layers = {}, const std::string& name = {});
  Sequential(const SymbolicTensor& input, std::vector<Layer> layers, const std::string& name = {});

  /// Appends a layer. @throws Error kInvalidArgument: a shape that does not match.
  void add(const Layer& layer) const;
  /// Removes the last layer.
  void pop() const;
};

}  // namespace strata::keras
