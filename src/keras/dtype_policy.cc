#include "strata/keras/dtype_policy.h"

#include <tuple>

#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/keras/config.h"

namespace strata::keras {
namespace {

using Dtypes = std::pair<at::ScalarType, at::ScalarType>;

Dtypes dtypes_of(const std::string& name) {
  if (name == "float32") return {at::kFloat, at::kFloat};
  if (name == "float64") return {at::kDouble, at::kDouble};
  if (name == "bfloat16") return {at::kBFloat16, at::kBFloat16};
  if (name == "float16") return {at::kHalf, at::kHalf};
  if (name == "int32") return {at::kInt, at::kInt};
  if (name == "int64") return {at::kLong, at::kLong};
  if (name == "mixed_bfloat16") return {at::kFloat, at::kBFloat16};
  if (name == "mixed_float16") return {at::kFloat, at::kHalf};
  STRATA_CHECK(
      false, kInvalidArgument, "[keras] dtype policy: got '", name,
      "'; expected float32, float64, bfloat16, float16, mixed_bfloat16, mixed_float16, or int32 "
      "or int64 for layers that give ids");
}

// The default of layers: a setting of the process, as Keras's.
struct Default {
  Mutex mutex;
  std::string name STRATA_GUARDED_BY(mutex) = "float32";
};

Default& default_policy() {
  static Default policy;
  return policy;
}

}  // namespace

DTypePolicy::DTypePolicy() : DTypePolicy(dtype_policy()) {}
DTypePolicy::DTypePolicy(const char* name) : DTypePolicy(std::string(name)) {}
DTypePolicy::DTypePolicy(const std::string& name) : name_(name) {
  std::tie(variable_, compute_) = dtypes_of(name);
}

DTypePolicy dtype_policy() {
  Default& policy = default_policy();
  const MutexLock lock(policy.mutex);
  return DTypePolicy(policy.name);
}

void set_dtype_policy(const DTypePolicy& policy) {
  Default& present = default_policy();
  const MutexLock lock(present.mutex);
  present.name = policy.name();
}

Json to_config(const DTypePolicy& policy) {
  Json config = Json::object();
  config.set("name", policy.name());
  return make_object("keras", "DTypePolicy", std::move(config));
}

void from_config(const Json& json, DTypePolicy& policy) {
  if (json.is_null()) return;
  const ObjectJson object = parse_object(json, "a dtype");
  if (json.is_string()) {
    policy = DTypePolicy(object.class_name);
    return;
  }
  STRATA_CHECK(object.class_name == "DTypePolicy", kUnimplemented,
               "[keras] config: got dtype policy ", object.class_name,
               "; expected DTypePolicy (quantized ones cannot be read)");
  policy = DTypePolicy(object.config.at("name").as_string());
}

}  // namespace strata::keras
