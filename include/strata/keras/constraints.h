#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"

/// Constraints on weights, applied after each step.
/// Source: keras.constraints 3.15.
namespace strata::constraints {

/// A constraint as layers take it: a name ("non_neg"), one of the classes below, or a user-defined
/// function. The default is none. A value.
class STRATA_API Constraint {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Constraint() = default;  ///< none
  /// @throws Error kInvalidArgument: no such constraint; lists the known ones.
  Constraint(const char* name);         // NOLINT(google-explicit-constructor)
  Constraint(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved in Keras's files.
  explicit Constraint(Function function);

  explicit operator bool() const { return rule_ != nullptr; }
  /// Returns the constrained `x`, with its shape and dtype; outside of autograd.
  /// @throws Error kFailedPrecondition: no constraint is set.
  at::Tensor operator()(const at::Tensor& x) const;

  friend STRATA_API Json to_config(const Constraint& constraint);

 protected:
  Constraint(std::string class_name, Json config, Function function);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

// Norms are taken along `axis`: {0} for the weights of each unit of a Dense kernel (in, out),
// {0, 1, 2} for each filter of a Conv2D kernel (kh, kw, in, out), {} for all.

struct MaxNormOptions {
  double max_value = 2;
  std::vector<int64_t> axis = {0};
};
struct STRATA_API MaxNorm : Constraint {
  explicit MaxNorm(const MaxNormOptions& options = {});
};

struct MinMaxNormOptions {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;  ///< 1: norms are in the range after each step; less: they move towards it
  std::vector<int64_t> axis = {0};
};
struct STRATA_API MinMaxNorm : Constraint {
  explicit MinMaxNorm(const MinMaxNormOptions& options = {});
};

struct UnitNormOptions {
  std::vector<int64_t> axis = {0};
};
struct STRATA_API UnitNorm : Constraint {
  explicit UnitNorm(const UnitNormOptions& options = {});
};

struct STRATA_API NonNeg : Constraint {
  NonNeg();
};

/// Returns null for no constraint. @throws Error kUnimplemented: a user-defined function.
STRATA_API Json to_config(const Constraint& constraint);
/// Reads null, a name, or Keras's object.
/// @throws Error kUnimplemented: an unknown class or option; names it.
STRATA_API void from_config(const Json& json, Constraint& constraint);

}  // namespace strata::constraints
