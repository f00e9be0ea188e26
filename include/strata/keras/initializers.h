#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/shape.h"

/// First values of weights. Shapes are Keras's: (in, out), (kh, kw, in, out).
/// Source: keras.initializers 3.15, distributions and defaults (not its random numbers).
namespace strata::initializers {

/// An initializer as layers take it: by name ("he_normal"), one of the classes below, or a function
/// of yours. A value.
class STRATA_API Initializer {
 public:
  using Function = std::function<at::Tensor(at::IntArrayRef shape, at::ScalarType dtype)>;

  /// @throws Error kInvalidArgument: no such initializer; lists those there are.
  Initializer(const char* name);         // NOLINT(google-explicit-constructor)
  Initializer(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved as a file of Keras's.
  explicit Initializer(Function function);

  /// New values, on the CPU. Without a seed they come from libtorch's global generator
  /// (torch::manual_seed); with one, every call gives the same.
  at::Tensor operator()(at::IntArrayRef shape, at::ScalarType dtype) const;

  /// Keras's class: "GlorotUniform"; "" for a function of yours.
  const std::string& class_name() const;

  /// How the classes below are made. `config` are Keras's options.
  Initializer(std::string class_name, Json config, Function function);
  friend STRATA_API Json to_config(const Initializer& initializer);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

STRATA_API Json to_config(const Initializer& initializer);
STRATA_API void from_config(const Json& json, Initializer& initializer);

}  // namespace strata::initializers
