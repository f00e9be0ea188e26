// relu: the passes of libtorch's iterator as plain loops, and a node of the graph of our own, whose
// backward writes into its gradient where it has no other owner: of the large activations of
// convolutions, memory is what a relu costs.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include "kernels/autograd_node.h"
#include "kernels/bf16_tensor.h"
#include "kernels/dispatch_key.h"
#include "kernels/into.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_kernels.h"
#include "kernels/products.h"
#include "kernels/registration.h"

namespace strata::kernels {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Of float or bfloat16, and any order of dimensions: the elements are one piece of memory.
bool in_one_piece(const at::Tensor& x) {
  return runs_here(KernelClass::kRelu) && (is_cpu_float(x) || takes_bfloat16(x)) &&
         x.is_non_overlapping_and_dense() && !x.is_neg();
}

bool alike(const at::Tensor& x, const at::Tensor& y) {
  return x.scalar_type() == y.scalar_type() && in_one_piece(x) && in_one_piece(y) &&
         x.sizes() == y.sizes() && x.strides() == y.strides();
}

at::Tensor empty_alike(const at::Tensor& x) {
  return at::detail::empty_strided_cpu(x.sizes(), x.strides(), x.scalar_type());
}

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

/// Calls part(first element, elements).
template <typename Part>
void for_parts(int64_t size, const Part& part) {
  if (size <= kPartElements) {
    part(0, size);
    return;
  }
  parallel_for(0, size, kPartElements,
               [&](int64_t begin, int64_t end) { part(begin, end - begin); });
}

void relu_of_halves(const at::Tensor& x, const at::Tensor& result) {
  const uint16_t* const from = bf16_data(x);
  uint16_t* const to = mutable_bf16_data(result);
  for_parts(x.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().relu_bf16(from + first, size, to + first);
  });
}

/// With a threshold of 0. @param result  May be `gradient`.
void threshold_of_halves(const at::Tensor& gradient, const at::Tensor& value,
                         const at::Tensor& result) {
  const uint16_t* const g = bf16_data(gradient);
  const uint16_t* const v = bf16_data(value);
  uint16_t* const to = mutable_bf16_data(result);
  for_parts(value.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().threshold_bf16(g + first, v + first, size, to + first);
  });
}

/// Whether these kernels have the threshold.
bool has_threshold(const at::Tensor& value, const at::Scalar& threshold) {
  return !is_half(value) || threshold.equal(0);
}

void write_relu(const at::Tensor& x, const at::Tensor& result) {
  if (is_half(x)) return relu_of_halves(x, result);
  const float* const from = x.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  for_parts(x.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().relu(from + first, size, to + first);
  });
}

at::Tensor relu(c10::DispatchKeySet keys, const at::Tensor& x) {
  if (!in_one_piece(x)) return at::_ops::relu::redispatch(keys & kBelowReplicaKey, x);
  at::Tensor result = empty_alike(x);
  write_relu(x, result);
  return result;
}

at::Tensor& relu_(c10::DispatchKeySet keys, at::Tensor& x) {
  if (!in_one_piece(x)) return at::_ops::relu_::redispatch(keys & kBelowReplicaKey, x);
  if (is_half(x)) {
    relu_of_halves(x, x);
    return x;
  }
  float* const data = x.mutable_data_ptr<float>();
  for_parts(x.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().relu_in_place(data + first, size);
  });
  return x;
}

void write_threshold(const at::Tensor& gradient, const at::Tensor& value,
                     const at::Scalar& threshold, const at::Tensor& result) {
  if (is_half(value)) return threshold_of_halves(gradient, value, result);
  const float* const g = gradient.const_data_ptr<float>();
  const float* const v = value.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  for_parts(value.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().threshold_backward(g + first, v + first, threshold.toFloat(), size, to + first);
  });
}

/// The same with `gradient` as the result.
void write_threshold_in_place(const at::Tensor& gradient, const at::Tensor& value,
                              const at::Scalar& threshold) {
  if (is_half(value)) return threshold_of_halves(gradient, value, gradient);
  const float* const v = value.const_data_ptr<float>();
  float* const data = gradient.mutable_data_ptr<float>();
  for_parts(value.numel(), [&](int64_t first, int64_t size) {
    layer_kernels().threshold_in_place(data + first, v + first, threshold.toFloat(), size);
  });
}

at::Tensor threshold_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                              const at::Tensor& value, const at::Scalar& threshold) {
  if (!alike(gradient, value) || !has_threshold(value, threshold)) {
    return at::_ops::threshold_backward::redispatch(keys & kBelowReplicaKey, gradient, value,
                                                    threshold);
  }
  at::Tensor result = empty_alike(value);
  write_threshold(gradient, value, threshold, result);
  return result;
}

at::Tensor& threshold_backward_out(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                   const at::Tensor& value, const at::Scalar& threshold,
                                   at::Tensor& out) {
  if (!out.is_same(gradient) || !alike(gradient, value) || !has_threshold(value, threshold)) {
    return at::_ops::threshold_backward_grad_input::redispatch(keys & kBelowReplicaKey, gradient,
                                                               value, threshold, out);
  }
  write_threshold_in_place(out, value, threshold);
  return out;
}

/// Whether what happens to `gradient` from now on has no other observer.
bool is_ours_alone(const at::Tensor& gradient) {
  if (gradient.use_count() != 1) return false;
  const auto holders = gradient.storage().use_count();
  if (holders == 1) return true;
  if (holders != 2 || !gradient.is_view()) return false;
  // The other is what it is a view of, if only the view still holds that.
  const at::TensorBase base = gradient._base();
  return base.use_count() == 2 &&
         base.storage().unsafeGetStorageImpl() == gradient.storage().unsafeGetStorageImpl();
}

struct ReluBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    at::Tensor gradient = std::move(gradients[0]);
    if (!gradient.defined() || !task_should_compute_output(0)) return variable_list(1);
    const at::Tensor value = result.unpack(pointer_to(*this));
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !alike(gradient, value) || !is_ours_alone(gradient)) {
      return {at::threshold_backward(gradient, value, 0)};
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    at::threshold_backward_out(gradient, gradient, value, 0);
    return {std::move(gradient)};
  }
  void release_variables() override { result.reset_data(); }
  std::string name() const override { return "ReluBackward"; }

  SavedVariable result;
};

c10::DispatchKeySet libtorchs(c10::DispatchKeySet keys) {
  // Its kernel is one for all devices, and is at this key too.
  return keys.remove(c10::DispatchKey::AutogradCPU).add(c10::DispatchKey::AutogradOther);
}

bool takes(c10::DispatchKeySet keys, const at::Tensor& x) {
  return keys.has(kReplicaKey) && in_one_piece(x) && !x._fw_grad(0).defined();
}

// At autograd's key, outside replica functions too: there libtorch's.
at::Tensor relu_with_node(c10::DispatchKeySet keys, const at::Tensor& x) {
  if (!takes(keys, x)) return at::_ops::relu::redispatch(libtorchs(keys), x);
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    result = at::_ops::relu::redispatch(keys & c10::after_autograd_keyset, x);
  }
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return result;
  const auto node = make_node<ReluBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(result, node);
  node->result = SavedVariable(result, /*is_output=*/true);
  return result;
}

at::Tensor& relu_with_node_(c10::DispatchKeySet keys, at::Tensor& x) {
  const bool wanted = at::GradMode::is_enabled() && x.requires_grad();
  // What libtorch refuses or has to look after more closely.
  if (!takes(keys, x) || x.is_view() || (wanted && x.is_leaf())) {
    return at::_ops::relu_::redispatch(libtorchs(keys), x);
  }
  const auto node = wanted ? make_node<ReluBackward>() : nullptr;
  if (node) node->set_next_edges(torch::autograd::collect_next_edges(x));
  {
    const at::AutoDispatchBelowAutograd below;  // not below what counts the changes
    at::_ops::relu_::redispatch(keys & c10::after_autograd_keyset, x);
  }
  if (node) {
    const auto output_nr = node->add_input_metadata(x);
    torch::autograd::impl::rebase_history(x, {node, output_nr});
    node->result = SavedVariable(x, /*is_output=*/true);
  }
  return x;
}

}  // namespace

bool relu_into(const at::Tensor& x, const at::Tensor& result) {
  if (!in_one_piece(x) || !alike(x, result)) return false;
  write_relu(x, result);
  return true;
}

bool threshold_backward_into(const at::Tensor& gradient, const at::Tensor& value,
                             const at::Scalar& threshold, const at::Tensor& result) {
  if (!alike(gradient, value) || !alike(result, value) || !has_threshold(value, threshold)) {
    return false;
  }
  if (result.is_same(gradient)) {
    write_threshold_in_place(gradient, value, threshold);
  } else {
    write_threshold(gradient, value, threshold, result);
  }
  return true;
}

void register_relu(torch::Library& library) {
  library.impl("relu", TORCH_FN(relu));
  library.impl("relu_", TORCH_FN(relu_));
  library.impl("threshold_backward", TORCH_FN(threshold_backward));
  library.impl("threshold_backward.grad_input", TORCH_FN(threshold_backward_out));
}

void register_relu_node(torch::Library& library) {
  library.impl("relu", TORCH_FN(relu_with_node));
  library.impl("relu_", TORCH_FN(relu_with_node_));
}

}  // namespace strata::kernels
