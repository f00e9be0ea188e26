#include <ATen/TensorOperators.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>

#include "keras/ops/operation.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

constexpr OperationRow row(std::string_view name, at::Tensor (*compute)(C),
                           std::string_view options = {}) {
  return {.name = name,
          .module = "nn",
          .dtype = OutputDtype::kFloating,
          .compute = compute,
          .elementwise = true,
          .options = options};
}

at::Tensor x_of(C call) {
  const at::Tensor x = call.tensor(0, "x");
  return x.is_floating_point() ? x : x.to(at::kFloat);
}

/// Those of `axis`; null: all of them.
std::vector<int64_t> softmax_axes(C call, const at::Tensor& x) {
  std::vector<int64_t> axes = call.axes();
  for (int64_t axis = 0; call.option("axis").is_null() && axis < x.dim(); ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

/// Keras's meaning of an axis list: they are taken as one.
at::Tensor softmax(C call) {
  const at::Tensor x = x_of(call);
  const std::vector<int64_t> axes = softmax_axes(call, x);
  if (axes.size() == 1) return at::softmax(x, axes[0]);
  const at::Tensor exp = (x - x.amax(axes, true)).exp();
  return exp / exp.sum(axes, true);
}

const OperationRow kActivationRows[] = {
    row("Relu", [](C call) { return at::relu(call.tensor(0, "x")); }),
    row("Relu6", [](C call) { return at::clamp(call.tensor(0, "x"), 0, 6); }),
    row("Sigmoid", [](C call) { return at::sigmoid(call.tensor(0, "x")); }),
    row("Softplus", [](C call) { return at::softplus(x_of(call)); }),
    row("Softsign",
        [](C call) {
          const at::Tensor x = x_of(call);
          return x / (x.abs() + 1);
        }),
    row("Silu", [](C call) { return at::silu(x_of(call)); }),
    row("LogSigmoid", [](C call) { return at::log_sigmoid(x_of(call)); }),
    row(
        "LeakyRelu",
        [](C call) { return at::leaky_relu(x_of(call), call.number("negative_slope", 0.2)); },
        "negative_slope"),
    row("HardSigmoid", [](C call) { return at::hardsigmoid(x_of(call)); }),
    row("HardSilu", [](C call) { return at::hardswish(x_of(call)); }),
    row(
        "Elu", [](C call) { return at::elu(x_of(call), call.number("alpha", 1)); }, "alpha"),
    row("Selu", [](C call) { return at::selu(x_of(call)); }),
    row(
        "Celu", [](C call) { return at::celu(x_of(call), call.number("alpha", 1)); }, "alpha"),
    row(
        "Gelu",
        [](C call) {
          const bool exact = !call.option("approximate").is_null() && !call.flag("approximate");
          return at::gelu(x_of(call), exact ? "none" : "tanh");
        },
        "approximate"),
    row("Softmax", softmax, "axis"),
    row(
        "LogSoftmax",
        [](C call) {
          const at::Tensor x = x_of(call);
          const std::vector<int64_t> axes = softmax_axes(call, x);
          return axes.size() == 1 ? at::log_softmax(x, axes[0]) : x - x.logsumexp(axes, true);
        },
        "axis"),
};

}  // namespace

std::span<const OperationRow> activation_operations() { return kActivationRows; }

}  // namespace strata::keras::detail
