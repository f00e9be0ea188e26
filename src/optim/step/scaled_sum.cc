#include "optim/step/scaled_sum.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "graph/direct_kernels.h"
#include "kernels/autograd_node.h"
#include "kernels/find_operator.h"

namespace strata::losses {
namespace {

using torch::autograd::variable_list;

/// Longer ones gain nothing, and libtorch adds them in a tree.
constexpr int64_t kMaxValues = 4096;

template <typename T>
void divided_sum(const at::Tensor& values, double divisor, at::Tensor& out) {
  const T* const data = values.const_data_ptr<T>();
  double lanes[8] = {};
  const int64_t size = values.numel();
  for (int64_t i = 0; i < size; ++i) lanes[i % 8] += static_cast<double>(data[i]);
  const double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                     ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  *out.mutable_data_ptr<T>() = static_cast<T>(sum / divisor);
}

at::Tensor scaled_sum_cpu(const at::Tensor& values, double divisor) {
  const auto dense = values.expect_contiguous();
  at::Tensor out = at::detail::empty_cpu({}, values.scalar_type());
  if (values.scalar_type() == at::kFloat) {
    divided_sum<float>(*dense, divisor, out);
  } else {
    divided_sum<double>(*dense, divisor, out);
  }
  return out;
}

/// gradient / divisor for each value: one number in memory.
at::Tensor scaled_sum_backward_cpu(const at::Tensor& gradient, at::IntArrayRef sizes,
                                   double divisor) {
  at::Tensor out = at::detail::empty_cpu({}, gradient.scalar_type());
  if (gradient.scalar_type() == at::kFloat) {
    divided_sum<float>(gradient, divisor, out);
  } else {
    divided_sum<double>(gradient, divisor, out);
  }
  const c10::SmallVector<int64_t, 4> strides(sizes.size(), 0);
  out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return out;
}

// In a replay, whose results have memory.

bool scaled_sum_into(const graph::DirectCall& call) {
  const at::Tensor& values = call.tensor(0);
  at::Tensor out = call.result(0);
  if (!values.is_contiguous() || !out.defined()) return false;
  const double divisor = call.number(1).toDouble();
  if (values.scalar_type() == at::kFloat) {
    divided_sum<float>(values, divisor, out);
  } else {
    divided_sum<double>(values, divisor, out);
  }
  return true;
}

bool scaled_sum_backward_into(const graph::DirectCall& call) {
  const at::Tensor& gradient = call.tensor(0);
  at::Tensor out = call.result(0);
  const auto is_zero = [](int64_t stride) { return stride == 0; };
  if (!out.defined() || !std::ranges::all_of(out.strides(), is_zero)) return false;
  const double divisor = call.number(2).toDouble();
  if (gradient.scalar_type() == at::kFloat) {
    divided_sum<float>(gradient, divisor, out);
  } else {
    divided_sum<double>(gradient, divisor, out);
  }
  return true;
}

const graph::DirectKernelRegistration of_scaled_sum("strata::scaled_sum",
                                                    {.kernel = scaled_sum_into});
const graph::DirectKernelRegistration of_scaled_sum_backward("strata::scaled_sum_backward",
                                                             {.kernel = scaled_sum_backward_into});

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def("scaled_sum(Tensor values, float divisor) -> Tensor");
  library.def("scaled_sum_backward(Tensor gradient, int[] sizes, float divisor) -> Tensor");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("scaled_sum", scaled_sum_cpu);
  library.impl("scaled_sum_backward", scaled_sum_backward_cpu);
}

at::Tensor scaled_sum_by_libtorch(const at::Tensor& values, double divisor) {
  return (values.sum(at::kDouble) / divisor).to(values.scalar_type());
}

at::Tensor scaled_sum_backward_by_libtorch(const at::Tensor& gradient, at::IntArrayRef sizes,
                                           double divisor) {
  return scaled_sum_by_libtorch(gradient, divisor).expand(sizes);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("scaled_sum", scaled_sum_by_libtorch);
  library.impl("scaled_sum_backward", scaled_sum_backward_by_libtorch);
}

struct ScaledSumBackward final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients[0];
    if (!gradient.defined()) return {at::Tensor()};
    if (at::GradMode::is_enabled()) return {gradient.div(divisor).expand(sizes)};
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward =
        kernels::find_operator<decltype(scaled_sum_backward_cpu)>("strata::scaled_sum_backward");
    return {backward.call(gradient, sizes, divisor)};
  }
  std::string name() const override { return "ScaledSumBackward"; }

  c10::SmallVector<int64_t, 4> sizes;
  double divisor = 1;
};

}  // namespace

bool has_scaled_sum(const at::Tensor& values) {
  return values.is_cpu() && values.layout() == at::kStrided && values.numel() <= kMaxValues &&
         (values.scalar_type() == at::kFloat || values.scalar_type() == at::kDouble) &&
         !values._fw_grad(0).defined();
}

at::Tensor scaled_sum(const at::Tensor& values, double divisor) {
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto forward =
        kernels::find_operator<decltype(scaled_sum_cpu)>("strata::scaled_sum");
    result = forward.call(values, divisor);
  }
  if (at::GradMode::is_enabled() && values.requires_grad()) {
    const auto node = kernels::make_node<ScaledSumBackward>();
    node->sizes = values.sizes();
    node->divisor = divisor;
    node->set_next_edges(torch::autograd::collect_next_edges(values));
    torch::autograd::set_history(result, node);
  }
  return result;
}

}  // namespace strata::losses
