// Every operator on an emulated GPU: the CPU's, on the same bytes.
#include "gpu/emulated/operators.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/memory.h"

namespace strata::test::emulated_gpu {

namespace {

void add_bytes(const at::Tensor& tensor, std::vector<Bytes>& all) {
  if (!tensor.defined()) return;
  if (tensor.is_sparse()) {
    add_bytes(tensor._indices(), all);
    add_bytes(tensor._values(), all);
    return;
  }
  if (tensor.numel() == 0) return;
  if (!tensor.is_cuda() && !PinnedMemory::instance().is_pinned(tensor.const_data_ptr())) return;
  size_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    last += static_cast<size_t>((tensor.size(d) - 1) * tensor.stride(d));
  }
  const void* address = tensor.const_data_ptr();
  if (tensor.is_cuda()) address = Memory::instance().host_address(address);
  all.push_back({static_cast<const char*>(address), (last + 1) * tensor.element_size()});
}

std::vector<Bytes> bytes_of_all(const std::vector<at::Tensor>& tensors) {
  std::vector<Bytes> all;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cuda()) add_bytes(tensor, all);
  }
  return all;
}

at::Tensor copy_to_device(const at::Tensor& host, c10::Device device) {
  if (host.is_sparse()) {
    return at::_sparse_coo_tensor_unsafe(copy_to_device(host._indices(), device),
                                         copy_to_device(host._values(), device), host.sizes(), {},
                                         {}, {}, {}, host.is_coalesced());
  }
  at::Tensor result =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(device));
  if (host.numel() > 0) {
    std::memcpy(Memory::instance().host_address(result.mutable_data_ptr()), host.const_data_ptr(),
                result.storage().nbytes());
  }
  return result;
}

}  // namespace

Launch::Launch(std::string_view name, c10::Device device, const std::vector<at::Tensor>& reads,
               const std::vector<at::Tensor>& writes)
    : plain_(c10::DispatchKeySet(c10::DispatchKey::CustomRNGKeyId)),
      device_(device),
      work_(enqueue(current_stream(device.index()), name, bytes_of_all(reads),
                    bytes_of_all(writes))) {
  detail::count_launch();
}

at::Tensor Launch::on_device(const at::Tensor& host) const {
  at::Tensor result = copy_to_device(host, device_);
  writes(result);
  return result;
}

void Launch::writes(const at::Tensor& made) const {
  for (const Bytes& bytes : bytes_of(made)) also_writes(work_, bytes);
}

std::vector<Bytes> bytes_of(const at::Tensor& tensor) {
  std::vector<Bytes> all;
  add_bytes(tensor, all);
  return all;
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_sparse()) {
    return at::_sparse_coo_tensor_unsafe(on_host(tensor._indices()), on_host(tensor._values()),
                                         tensor.sizes(), {}, {}, {}, {}, tensor.is_coalesced());
  }
  const auto options = at::TensorOptions().dtype(tensor.dtype());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::from_blob(Memory::instance().host_address(tensor.mutable_data_ptr()), tensor.sizes(),
                       tensor.strides(), options);
}

namespace {

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef sizes,
                          std::optional<at::MemoryFormat> format) {
  if (self.sizes() == sizes && !format) return self;
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, self.element_size(), 0) +
                       static_cast<size_t>(self.storage_offset()) * self.element_size();
  if (self.storage().nbytes() < bytes) {
    const c10::DeviceGuard guard(self.device());
    c10::DataPtr fresh = Memory::instance().allocate(bytes);
    std::optional<Launch> launch;
    if (self.storage().nbytes() > 0) {
      launch.emplace("aten::resize_", self.device(), std::vector<at::Tensor>{self});
      Memory::instance().copy_data(fresh.get(), self.storage().data(), self.storage().nbytes());
    }
    self.storage().set_data_ptr_noswap(std::move(fresh));
    self.storage().set_nbytes(bytes);
    if (launch) launch->writes(self);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

/// Operators whose arguments may lie on different devices.
bool mixes_devices(const std::string& name) {
  static const std::set<std::string> names = {"aten::index.Tensor", "aten::index_put_",
                                              "aten::_index_put_impl_", "aten::index_put"};
  return names.contains(name);
}

/// One call: its arguments as the host sees them, then its results as the device does.
class Call {
 public:
  explicit Call(const c10::OperatorHandle& op) : op_(op), name_(op.schema().name()) {
    if (!op.schema().overload_name().empty()) name_ += "." + op.schema().overload_name();
  }

  c10::IValue to_host(const c10::IValue& value, bool writes) {
    if (value.isTensor()) return to_host(value.toTensor(), writes);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(to_host(each, writes));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
        list.push_back(each ? std::optional(to_host(*each, writes)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice()) {
      if (!value.toDevice().is_cuda()) return value;
      device_ = value.toDevice();
      return c10::Device(c10::kCPU);
    }
    if (value.isGenerator() && value.toGenerator().device().is_cuda()) {
      return draws_of(value.toGenerator());
    }
    return value;
  }

  c10::IValue to_device(const c10::IValue& value, const Launch& launch) const {
    if (value.isTensor()) return to_device(value.toTensor(), launch);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(to_device(each, launch));
      return list;
    }
    return value;
  }

  const std::string& name() const { return name_; }
  const std::vector<at::Tensor>& reads() const { return reads_; }
  const std::vector<at::Tensor>& written() const { return writes_; }

  c10::Device device() const { return device_.value_or(c10::Device(c10::kCUDA, current_device())); }

 private:
  at::Tensor to_host(const at::Tensor& tensor, bool writes) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_cuda()) {
      TORCH_CHECK(tensor.dim() == 0 || mixes_devices(name_),
                  "Expected all tensors to be on the same device, but found at least two devices, ",
                  device(), " and ", tensor.device(), "! (", name_, ")");
      return tensor;
    }
    TORCH_CHECK(!device_ || *device_ == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device(), " and ", tensor.device(), "! (", name_, ")");
    device_ = tensor.device();
    (writes ? writes_ : reads_).push_back(tensor);
    arguments_.push_back({tensor, on_host(tensor)});
    return arguments_.back().host;
  }

  at::Tensor to_device(const at::Tensor& host, const Launch& launch) const {
    if (!host.defined()) return host;
    for (const Argument& argument : arguments_) {
      if (!argument.host.is_same(host)) continue;
      if (host.sizes() != argument.device.sizes()) {  // an `out` that was empty
        resize_(argument.device, host.sizes(), std::nullopt);
        on_host(argument.device).copy_(host);
        launch.writes(argument.device);
      }
      return argument.device;
    }
    // A view of an argument.
    if (host.is_sparse()) return launch.on_device(host);
    if (void* address = Memory::instance().device_address(host.storage().data())) {
      for (const Argument& argument : arguments_) {
        if (argument.host.is_sparse()) continue;
        if (argument.host.storage().data() != host.storage().data()) continue;
        return at::native::as_strided_tensorimpl(
            argument.device, host.sizes(), host.strides(),
            argument.device.storage_offset() + host.storage_offset());
      }
      TORCH_CHECK(false, "[emulated_gpu] ", name_, ": nobody's memory at ", address);
    }
    return launch.on_device(host);
  }

  struct Argument {
    at::Tensor device;
    at::Tensor host;
  };

  const c10::OperatorHandle& op_;
  std::string name_;
  std::optional<c10::Device> device_;
  std::vector<Argument> arguments_;
  std::vector<at::Tensor> reads_;
  std::vector<at::Tensor> writes_;
};

/// Draws nobody has given a generator for come from the device's default one.
bool is_missing_generator(const c10::Argument& argument, const c10::IValue& value) {
  if (!value.isNone() || argument.type()->kind() != c10::TypeKind::OptionalType) return false;
  return argument.type()->castRaw<c10::OptionalType>()->getElementType()->kind() ==
         c10::TypeKind::GeneratorType;
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  Call call(op);
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    (*stack)[first + i] = call.to_host((*stack)[first + i], alias != nullptr && alias->isWrite());
  }
  const Launch launch(call.name(), call.device(), call.reads(), call.written());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_missing_generator(arguments[i], (*stack)[first + i])) {
      (*stack)[first + i] = draws_of(default_generator(call.device().index()));
    }
  }
  const bool sparse = keys.has(c10::DispatchKey::SparseCUDA);
  op.redispatchBoxed(
      c10::DispatchKeySet(sparse ? c10::DispatchKey::SparseCPU : c10::DispatchKey::CPU), stack);
  const size_t results = op.schema().returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    (*stack)[i] = call.to_device((*stack)[i], launch);
  }
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout>, std::optional<at::Device> device,
                               std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, &Memory::instance(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &Memory::instance(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           c10::dtype_or_default(dtype));
}

/// Between the host and a device. From and to pinned memory it may be asynchronous.
void copy_across(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::Tensor& on_card = self.is_cuda() ? self : source;
  const at::Tensor& of_host = self.is_cuda() ? source : self;
  const c10::Device device = on_card.device();
  const std::vector<Bytes> pinned = bytes_of(of_host);  // none: it is pageable
  const bool is_asynchronous = non_blocking && !pinned.empty();
  const bool to_card = self.is_cuda();
  const Launch launch(to_card ? "copy to the device" : "copy to the host", device,
                      {to_card ? at::Tensor() : source}, {to_card ? self : at::Tensor()});
  if (to_card) {
    on_host(self).copy_(source);
    if (is_asynchronous) reads_pinned(launch.work(), pinned[0]);
  } else if (is_asynchronous) {
    // The host sees nothing of it before it has waited.
    std::memset(const_cast<char*>(pinned[0].begin), 0xff, pinned[0].size);
    // It keeps the memory's address alone: that its owner frees it meanwhile is to be seen.
    const at::Tensor target = at::from_blob(self.mutable_data_ptr(), self.sizes(), self.strides(),
                                            at::TensorOptions().dtype(self.dtype()));
    writes_pinned(launch.work(), pinned[0], [target, value = on_host(source).clone()] {
      at::Tensor to = target;
      to.copy_(value);
    });
  } else {
    self.copy_(on_host(source));
  }
  if (is_asynchronous) return;
  detail::count_synchronous_copy();
  host_waits_for(current_stream(device.index()));
}

/// As libtorch does it: on the source's stream, and both streams wait for one another.
void copy_between(at::Tensor& self, const at::Tensor& source) {
  const c10::Stream from = current_stream(source.device().index());
  const c10::Stream to = current_stream(self.device().index());
  if (from != to) wait_event(from, record_event(to));
  {
    const Launch launch("copy between devices", source.device(), {source}, {self});
    on_host(self).copy_(on_host(source));
  }
  if (from != to) wait_event(to, record_event(from));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.numel() == 0) return self;
  if (!self.is_cuda() || !source.is_cuda()) {
    copy_across(self, source, non_blocking);
  } else if (self.device() != source.device()) {
    copy_between(self, source);
  } else {
    const Launch launch("aten::copy_", self.device(), {source}, {self});
    on_host(self).copy_(on_host(source));
  }
  return self;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const Launch launch("aten::item", self.device(), {self});
  detail::count_host_wait();
  host_waits_for(current_stream(self.device().index()));
  return on_host(self).item();
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  Memory::instance().record_stream(self.storage().data(), stream);
}

/// Operators on the host draw from the replica's stream again, which a kernel has left behind.
struct WithRandomStreams {
  static c10::impl::LocalDispatchKeySet keys() {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_.remove(c10::DispatchKey::CustomRNGKeyId);
    return keys;
  }
  c10::impl::ForceDispatchKeyGuard guard{keys()};
};

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  const Launch launch("aten::native_dropout", input.device(), {input});
  const at::Tensor from = on_host(input);
  at::Tensor mask = at::empty_like(from, from.options().dtype(at::kBool)).fill_(true);
  at::Tensor result = from.clone();
  static const bool draw_as_cpus = std::getenv("STRATA_EMULATED_GPU_DROPOUT") != nullptr;
  if (train.value_or(true) && p > 0) {
    if (draw_as_cpus) {
      const WithRandomStreams streams;
      mask.bernoulli_(1 - p);
    } else {
      mask.bernoulli_(1 - p, draws_of(default_generator(input.device().index())));
    }
    result.mul_(mask).mul_(p < 1 ? 1 / (1 - p) : 0);
  }
  return {launch.on_device(result), launch.on_device(mask)};
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset,
                        c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, sizes, strides);
}

/// What the CPU has kernels of its own for, a GPU has, too. Not what has one at `key` already.
void run_the_rest_on_host(torch::Library& library, c10::DispatchKey like, c10::DispatchKey key) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(like) || op->hasKernelForDispatchKey(key)) continue;
    std::string full = name.name;
    if (!name.overload_name.empty()) full += "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty_memory_format);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy_);
  library.impl("record_stream", record_stream);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("native_dropout", native_dropout);
  library.impl("resize_", resize_);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  // Views are metadata alone.
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view",
               static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(at::native::view));
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  // As one, or libtorch looks for a GPU's convolutions below.
  for (const char* name : {"convolution", "convolution_backward"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
  run_the_rest_on_host(library, c10::DispatchKey::CPU, c10::DispatchKey::CUDA);
}

/// On the device of what it holds, as libtorch's own dispatch has it.
at::Tensor make_sparse(int64_t sparse_dim, int64_t dense_dim, c10::SymIntArrayRef size,
                       const at::Tensor& indices, const at::Tensor& values,
                       std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> pin_memory,
                       std::optional<bool> is_coalesced) {
  const c10::DeviceGuard guard(values.device());
  return at::native::new_with_dims_and_tensor_sparse_symint(sparse_dim, dense_dim, size, indices,
                                                            values, dtype, layout, device,
                                                            pin_memory, is_coalesced);
}

// A sparse tensor holds two dense ones.
TORCH_LIBRARY_IMPL(aten, SparseCUDA, library) {
  library.impl("_sparse_coo_tensor_with_dims_and_tensors", make_sparse);
  library.impl("_indices", at::native::_indices_sparse);
  library.impl("_values", at::native::_values_sparse);
  library.impl("_nnz", at::native::_nnz_sparse);
  library.impl("sparse_dim", at::native::sparse_dim_sparse);
  library.impl("dense_dim", at::native::dense_dim_sparse);
  library.impl("is_coalesced", at::native::is_coalesced_sparse);
  library.impl("_coalesced_", at::native::_coalesced_sparse_);
  run_the_rest_on_host(library, c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCUDA);
}

}  // namespace strata::test::emulated_gpu
