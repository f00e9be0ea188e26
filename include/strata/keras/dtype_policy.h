#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"

namespace strata::keras {

/// The dtype of a layer's weights and that of its arithmetic. By name: "float32", "float64",
/// "bfloat16", "float16"; "mixed_bfloat16", "mixed_float16": float32 weights; "int32", "int64".
/// Source: keras.DTypePolicy.
class STRATA_API DTypePolicy {
 public:
  /// Copies the current dtype_policy().
  DTypePolicy();
  /// @throws Error kInvalidArgument: no such policy.
  DTypePolicy(const char* name);         // NOLINT(google-explicit-constructor)
  DTypePolicy(const std::string& name);  // NOLINT(google-explicit-constructor)

  const std::string& name() const { return name_; }
  at::ScalarType variable_dtype() const { return variable_; }
  at::ScalarType compute_dtype() const { return compute_; }
  friend bool operator==(const DTypePolicy&, const DTypePolicy&) = default;

 private:
  std::string name_;
  at::ScalarType variable_;
  at::ScalarType compute_;
};

/// The policy of layers that are made from now on, on every thread; "float32" at first.
STRATA_API DTypePolicy dtype_policy();
STRATA_API void set_dtype_policy(const DTypePolicy& policy);

/// Returns Keras's object, {"module": "keras", "class_name": "DTypePolicy", "config": {"name":
/// ...}}.
STRATA_API Json to_config(const DTypePolicy& policy);
/// Reads Keras's object, or a plain name.
STRATA_API void from_config(const Json& json, DTypePolicy& policy);

}  // namespace strata::keras
