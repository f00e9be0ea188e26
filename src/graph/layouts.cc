#include "graph/layouts.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "graph/fake.h"
#include "graph/trace_key.h"

namespace strata::graph {
namespace {

using torch::jit::Stack;

/// Operators whose results lie as the device's library wants them.
bool lies_as_device_wants(std::string_view name) {
  static const std::set<std::string_view> names = {"aten::convolution",
                                                   "aten::convolution_backward",
                                                   "aten::native_batch_norm",
                                                   "aten::native_batch_norm_backward",
                                                   "aten::_native_batch_norm_legit",
                                                   "aten::native_group_norm",
                                                   "aten::native_group_norm_backward"};
  return !name.starts_with("aten::") || names.contains(name);
}

/// Operators without a kernel for the meta device, and another one whose result lies the same way.
std::optional<c10::OperatorHandle> stand_in(std::string_view name) {
  static const std::map<std::string_view, const char*> names = {{"aten::relu", "aten::neg"}};
  const auto found = names.find(name);
  if (found == names.end()) return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow(found->second, "");
}

std::vector<at::Tensor> tensors_of(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    map_tensors(value, [&](const at::Tensor& tensor) {
      tensors.push_back(tensor);
      return tensor;
    });
  }
  return tensors;
}

/// A number that was made a tensor counts less when dtypes are chosen.
bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

template <typename Make>
Stack replaced(const Stack& arguments, const Make& make) {
  Stack result;
  result.reserve(arguments.size());
  for (const c10::IValue& argument : arguments) {
    result.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      const at::Tensor made = make(tensor);
      if (is_number(tensor)) made.unsafeGetTensorImpl()->set_wrapped_number(true);
      return made;
    }));
  }
  return result;
}

/// Whether the kernel for the meta device, or what is made of others that have one, knows. A GPU's own
/// kernel may lie otherwise than a composition: its layer_norm keeps float moments of halves.
bool has_trusted_meta(const c10::OperatorHandle& op, c10::Device device) {
  const std::string& name = op.schema().name();
  const bool composed =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  const bool of_gpu = !device.is_cpu() && op.hasKernelForDispatchKey(c10::computeDispatchKey(
                                              at::kFloat, at::kStrided, device));
  const bool has_meta = op.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
                        stand_in(name).has_value() || (composed && !of_gpu);
  return has_meta && !lies_as_device_wants(name);
}

/// All of them are dense.
bool are_dense(const Stack& values) {
  return std::ranges::all_of(tensors_of(values), [](const at::Tensor& tensor) {
    return !tensor.defined() || (tensor.layout() == at::kStrided && tensor.has_storage());
  });
}

std::string question(const c10::OperatorHandle& op, const Stack& arguments) {
  std::ostringstream out;
  out << op.operator_name();
  for (const c10::IValue& argument : arguments) {
    out << '|';
    if (!argument.isTensor() && !argument.isTensorList() && !argument.isOptionalTensorList()) {
      out << argument;
      continue;
    }
    if (argument.isOptionalTensorList()) {  // x[i] is not x[:, i]
      for (const std::optional<at::Tensor>& each : argument.toOptionalTensorVector()) {
        out << (each && each->defined() ? '+' : '-');
      }
    }
    map_tensors(argument, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      out << tensor.scalar_type() << tensor.sizes() << tensor.strides() << is_number(tensor);
      if (!tensor.is_cpu()) out << tensor.device();
      return tensor;
    });
  }
  return out.str();
}

/// The device of an operator's results: its `device` argument if it is given, else the device of its tensor
/// arguments, where a scalar tensor on the CPU may stand beside tensors on a GPU.
c10::Device device_of_results(const c10::OperatorHandle& op, const Stack& arguments) {
  if (const auto device = device_argument(op.schema(), arguments)) return *device;
  for (const at::Tensor& tensor : tensors_of(arguments)) {
    if (tensor.defined() && !tensor.is_cpu()) return tensor.device();
  }
  return c10::kCPU;
}

/// libtorch's own generator of a device is afterwards as it was before.
class SavedGenerator {
 public:
  explicit SavedGenerator(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~SavedGenerator() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SavedGenerator(const SavedGenerator&) = delete;
  SavedGenerator& operator=(const SavedGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

std::optional<c10::Device> device_argument(const c10::FunctionSchema& schema,
                                           const Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].name() != "device" || !arguments[i].isDevice()) continue;
    const c10::Device device = arguments[i].toDevice();
    if (device.is_cpu() || device.has_index()) return device;
    return c10::impl::VirtualGuardImpl(device.type()).getDevice();
  }
  return std::nullopt;
}

Layouts::Results Layouts::describe(const Stack& results, const std::vector<at::Tensor>& arguments) {
  std::vector<c10::StorageImpl*> memories;
  for (const at::Tensor& argument : arguments) {
    memories.push_back(argument.defined() ? argument.storage().unsafeGetStorageImpl() : nullptr);
  }
  Results found;
  for (const c10::IValue& value : results) {
    Result& result = found.emplace_back();
    result.list = !value.isTensor();
    map_tensors(value, [&](const at::Tensor& tensor) {
      Layout& layout = result.tensors.emplace_back();
      if (!tensor.defined()) return tensor;
      c10::StorageImpl* const memory = tensor.storage().unsafeGetStorageImpl();
      auto place = std::ranges::find(memories, memory);
      if (place == memories.end()) place = memories.insert(memories.end(), memory);
      layout = {.defined = true,
                .sizes = tensor.sizes().vec(),
                .strides = tensor.strides().vec(),
                .offset = tensor.storage_offset(),
                .dtype = tensor.scalar_type(),
                .device = tensor.device(),
                .memory = static_cast<size_t>(place - memories.begin()),
                .bytes = static_cast<int64_t>(memory->nbytes())};
      return tensor;
    });
  }
  return found;
}

Layouts::Results Layouts::on_meta(const c10::OperatorHandle& op, const Stack& arguments) {
  const NoTraceGuard no_trace(/*replica_kernels=*/false);
  Stack stack = replaced(arguments, [](const at::Tensor& tensor) {
    return at::Tensor(
        at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  });
  const std::vector<at::Tensor> tensors = tensors_of(stack);
  const auto& parameters = op.schema().arguments();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name() != "device") continue;
    stack[i] = c10::Device(c10::kMeta);
  }
  stand_in(op.schema().name()).value_or(op).callBoxed(&stack);
  Results found = describe(stack, tensors);
  const c10::Device device = device_of_results(op, arguments);
  for (Result& result : found) {
    for (Layout& layout : result.tensors) layout.device = device;
  }
  return found;
}

Layouts::Results Layouts::on_zeros(const c10::OperatorHandle& op, const Stack& arguments) {
  const bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  const NoTraceGuard no_trace(/*replica_kernels=*/!draws);
  std::optional<SavedGenerator> saved;
  if (draws) saved.emplace(device_of_results(op, arguments));
  Stack stack = replaced(arguments, [](const at::Tensor& tensor) {
    const at::Tensor memory =
        at::zeros({extent(tensor.sizes(), tensor.strides())}, tensor.options());
    return tensor_in(memory.storage(), tensor.sizes(), tensor.strides(), 0, tensor.scalar_type());
  });
  const std::vector<at::Tensor> tensors = tensors_of(stack);
  op.callBoxed(&stack);
  return describe(stack, tensors);
}

Layouts::Results Layouts::find(const c10::OperatorHandle& op, const Stack& arguments) const {
  if (has_trusted_meta(op, device_of_results(op, arguments))) {
    try {
      return on_meta(op, arguments);
    } catch (const c10::Error&) {
      // A composition of operators that have no such kernel; or a mistake, which the next says, too.
    }
  }
  return on_zeros(op, arguments);
}

void Layouts::results_of(const c10::OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::string key = question(op, stack);
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, find(op, stack)).first;
  std::vector<c10::Storage> memories;
  for (const at::Tensor& tensor : tensors_of(stack)) {
    memories.push_back(tensor.defined() ? tensor.storage() : c10::Storage());
  }
  const size_t given = memories.size();
  stack.clear();
  for (const Result& result : found->second) {
    c10::List<at::Tensor> list;
    for (const Layout& layout : result.tensors) {
      if (!layout.defined) {
        list.push_back(at::Tensor());
        continue;
      }
      while (memories.size() <= layout.memory) memories.emplace_back();
      c10::Storage& memory = memories[layout.memory];
      if (layout.memory >= given && !memory) memory = make_fake_memory(layout.bytes, layout.device);
      list.push_back(tensor_in(memory, layout.sizes, layout.strides, layout.offset, layout.dtype));
    }
    if (result.list) {
      stack.emplace_back(std::move(list));
    } else {
      stack.emplace_back(list.get(0));
    }
  }
}

void Layouts::observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
  const NoTraceGuard no_trace;
  const c10::DispatchKeySet below =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTraceKey);
  const auto given = static_cast<int64_t>(op.schema().arguments().size());
  const Stack arguments(stack.end() - given, stack.end());
  if (has_trusted_meta(op, device_of_results(op, arguments))) {
    return op.redispatchBoxed(below, &stack);
  }
  const bool dense = are_dense(arguments);
  const std::string key = dense ? question(op, arguments) : "";
  op.redispatchBoxed(below, &stack);
  const auto count = static_cast<int64_t>(op.schema().returns().size());
  const Stack results(stack.end() - count, stack.end());
  if (dense && are_dense(results))
    known_.try_emplace(key, describe(results, tensors_of(arguments)));
}

}  // namespace strata::graph
