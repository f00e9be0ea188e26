#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/core/one_of.h"

/// Penalties on weights or on a layer's output, added to the loss.
/// Source: keras.regularizers 3.15.
namespace strata::regularizers {

/// A regularizer as layers take it: a name ("l2"), one of the classes below, or a user-defined
/// function. The default is none. A value.
class STRATA_API Regularizer {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Regularizer() = default;  ///< none
  /// @throws Error kInvalidArgument: no such regularizer; lists the known ones.
  Regularizer(const char* name);         // NOLINT(google-explicit-constructor)
  Regularizer(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved in Keras's files.
  explicit Regularizer(Function function);

  explicit operator bool() const { return rule_ != nullptr; }
  /// Returns a scalar of `x`'s dtype, differentiable in `x`.
  /// @throws Error kFailedPrecondition: no regularizer is set.
  at::Tensor operator()(const at::Tensor& x) const;

  friend STRATA_API Json to_config(const Regularizer& regularizer);

 protected:
  Regularizer(std::string class_name, Json config, Function function);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

// Factors must be finite and not negative, else kInvalidArgument.

/// The penalty l1 * sum(|x|).
struct STRATA_API L1 : Regularizer {
  explicit L1(double l1 = 0.01);
};

/// The penalty l2 * sum(x^2).
struct STRATA_API L2 : Regularizer {
  explicit L2(double l2 = 0.01);
};

struct L1L2Options {
  double l1 = 0;
  double l2 = 0;
};
struct STRATA_API L1L2 : Regularizer {
  explicit L1L2(const L1L2Options& options = {});
};

struct OrthogonalModeWords {
  enum Word { kRows, kColumns };
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"rows", "columns"};
};
using OrthogonalMode = OneOf<OrthogonalModeWords>;

struct OrthogonalOptions {
  double factor = 0.01;
  OrthogonalMode mode = "rows";  ///< "rows" or "columns": which of them should be orthogonal
};
/// Computes `factor` times the mean of |cosine| over all pairs of rows (columns) of a matrix; 0 for
/// one row. A call @throws Error kInvalidArgument: not a matrix.
struct STRATA_API OrthogonalRegularizer : Regularizer {
  explicit OrthogonalRegularizer(const OrthogonalOptions& options = {});
};

/// Returns null for no regularizer. @throws Error kUnimplemented: a user-defined function.
STRATA_API Json to_config(const Regularizer& regularizer);
/// Reads null, a name, or Keras's object.
/// @throws Error kUnimplemented: an unknown class or option; names it.
STRATA_API void from_config(const Json& json, Regularizer& regularizer);

}  // namespace strata::regularizers
