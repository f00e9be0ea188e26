#include <map>

#include "core/mutex.h"
#include "keras/ops/operation.h"

namespace strata::keras {
namespace {

struct OperationRegistry {
  Mutex mutex;
  // By class, or "package>Class".
  std::map<std::string, OperationFunction> functions STRATA_GUARDED_BY(mutex);
};

OperationRegistry& operation_registry() {
  static OperationRegistry operation_registry;
  return operation_registry;
}

/// Computed by a function of the program.
class RegisteredOperationImpl final : public detail::OperationImpl {
 public:
  RegisteredOperationImpl(OperationFunction function, Entry entry, Json config,
                          const std::string& name)
      : OperationImpl(std::move(entry), std::move(config), name), function_(std::move(function)) {}

 private:
  Tensors call(const Tensors& inputs, const Call& call) override {
    Tensors outputs = detail::call_registered_operation(function_, inputs, call.options, options());
    STRATA_CHECK(!outputs.empty(), kInvalidArgument, "[keras] operation '", name(), "' (",
                 class_name(), "): its function gave no tensor; expected one or more");
    return outputs;
  }

  OperationFunction function_;
};

}  // namespace

void register_operation(const std::string& name, OperationFunction function) {
  STRATA_CHECK(!name.empty() && function != nullptr, kInvalidArgument,
               "[keras] register_operation: got '", name,
               "'; expected a name, and a function that computes the operation");
  const bool built_in = detail::find_operation(name) != nullptr;
  const MutexLock lock(operation_registry().mutex);
  STRATA_CHECK(
      !built_in && operation_registry().functions.emplace(name, std::move(function)).second,
      kAlreadyExists, "[keras] register_operation: there is an operation '", name, "' already");
}

namespace detail {

Tensors call_registered_operation(const OperationFunction& function, const Tensors& inputs,
                                  const Json& call_options, const Json& config) {
  static const Json kNoArgs = Json::array(), kNoKwargs = Json::object();
  const Json* args = call_options.is_object() ? call_options.find("args") : nullptr;
  const Json* kwargs = call_options.is_object() ? call_options.find("kwargs") : nullptr;
  return function(inputs, {.args = args == nullptr ? kNoArgs : *args,
                           .kwargs = kwargs == nullptr ? kNoKwargs : *kwargs,
                           .config = config});
}

OperationFunction find_registered_operation(const Json& object) {
  const MutexLock lock(operation_registry().mutex);
  for (const char* key : {"registered_name", "class_name"}) {
    const Json* name = object.find(key);
    if (name == nullptr || !name->is_string()) continue;
    const auto found = operation_registry().functions.find(name->as_string());
    if (found != operation_registry().functions.end()) return found->second;
  }
  return {};
}

std::shared_ptr<OperationImpl> make_registered_operation(OperationFunction function,
                                                         OperationImpl::Entry entry, Json config,
                                                         const std::string& name) {
  return std::make_shared<RegisteredOperationImpl>(std::move(function), std::move(entry),
                                                   std::move(config), name);
}

}  // namespace detail
}  // namespace strata::keras
