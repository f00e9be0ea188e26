#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

/// Layers one behind the other.
///
///     keras::Sequential model({layers::Flatten(), layers::Dense(128, "relu"), layers::Dense(10)});
///
/// With keras::Input(shape) in front (`Sequential(Input({784}), {...})`) weights are made at once,
/// else by the first data it sees. Source: keras.Sequential.
class STRATA_API Sequential : public Model {
 public:
  explicit Sequential(std::vector<Layer> layers = {}, const std::string& name = {});
  Sequential(const SymbolicTensor& input, std::vector<Layer> layers, const std::string& name = {});

  /// Appends a layer. @throws Error kInvalidArgument: a shape that does not fit.
  void add(const Layer& layer) const;
  /// Takes the last layer off.
  void pop() const;
};

}  // namespace strata::keras
