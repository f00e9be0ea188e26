#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

namespace strata::optimizers {

/// Makes an optimizer with Keras's defaults by its name, in any case: "adam", "sgd", "RMSprop".
/// @throws Error kInvalidArgument: no such optimizer; lists the known ones.
STRATA_API std::unique_ptr<Optimizer> make_optimizer(std::string_view name);

/// An optimizer as options take it: `Adam({.learning_rate = 0.01})`, a shared_ptr, or a name. A
/// handle: copies are the same optimizer. The default is no optimizer.
class AnyOptimizer {
 public:
  AnyOptimizer() = default;

  // Takes rvalues of a derived class only: an lvalue's O is a reference.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-*forwarding-reference*)
  template <typename O>
  requires std::derived_from<O, Optimizer> &&(!std::is_const_v<O>)AnyOptimizer(O&& optimizer)
      : optimizer_(std::make_shared<O>(std::move(optimizer))) {}
  // NOLINTEND(google-explicit-constructor,bugprone-*forwarding-reference*)
  AnyOptimizer(std::shared_ptr<Optimizer> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  template <typename O>
  requires std::derived_from<O, Optimizer> AnyOptimizer(
      std::shared_ptr<O> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  template <typename O>
  requires std::derived_from<O, Optimizer> AnyOptimizer(
      std::unique_ptr<O> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  /// @throws Error as make_optimizer.
  AnyOptimizer(const char* name)  // NOLINT(google-explicit-constructor)
      : optimizer_(make_optimizer(name)) {}
  AnyOptimizer(const std::string& name)  // NOLINT(google-explicit-constructor)
      : optimizer_(make_optimizer(name)) {}

  explicit operator bool() const { return optimizer_ != nullptr; }
  Optimizer& operator*() const { return *optimizer_; }
  Optimizer* operator->() const { return optimizer_.get(); }
  const std::shared_ptr<Optimizer>& shared() const { return optimizer_; }

 private:
  std::shared_ptr<Optimizer> optimizer_;
};

}  // namespace strata::optimizers
