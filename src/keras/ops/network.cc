#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

constexpr double kKerasEpsilon = 1e-7;

at::Tensor logits_of(C call) { return floating(call.tensor(0, "x")); }

at::Tensor sparsemax(C call) {
  const at::Tensor x = logits_of(call);
  const int64_t axis = positive_axis(call.integer("axis", -1), x.dim());
  const at::Tensor sorted = std::get<0>(x.sort(axis, /*descending=*/true));
  const at::Tensor sums = sorted.cumsum(axis);
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis)] = -1;
  const at::Tensor rank = at::arange(1, x.size(axis) + 1, x.options()).reshape(shape);
  const at::Tensor support = sorted - (sums - 1) / rank > 0;
  const at::Tensor count = support.sum(axis, true);
  const at::Tensor tau = (at::where(support, sums, 0.0).sum(axis, true) - 1) / count;
  return (x - tau).clamp_min(0);
}

/// -log of a probability is of what lies this far inside of 0 and 1.
at::Tensor inside(const at::Tensor& p) { return p.clamp(kKerasEpsilon, 1 - kKerasEpsilon); }

at::Tensor log_probabilities(C call, const at::Tensor& output, int64_t axis) {
  if (call.flag("from_logits")) return output.log_softmax(axis);
  return inside(output / output.sum(axis, true)).log();
}

at::Tensor binary_crossentropy(C call) {
  const at::Tensor output = floating(call.tensor(1, "output"));
  const at::Tensor target = call.tensor(0, "target").to(output.scalar_type());
  if (call.flag("from_logits")) {
    return -target * at::log_sigmoid(output) - (1 - target) * at::log_sigmoid(-output);
  }
  const at::Tensor p = inside(output);
  return -(target * p.log() + (1 - target) * (1 - p).log());
}

at::Tensor categorical_crossentropy(C call) {
  const at::Tensor output = floating(call.tensor(1, "output"));
  const int64_t axis = call.integer("axis", -1);
  return -(call.tensor(0, "target") * log_probabilities(call, output, axis)).sum(axis);
}

at::Tensor sparse_categorical_crossentropy(C call) {
  const at::Tensor output = floating(call.tensor(1, "output"));
  const int64_t axis = call.integer("axis", -1);
  at::Tensor target = call.tensor(0, "target").to(at::kLong);
  if (target.dim() == output.dim() && target.size(-1) == 1) target = target.squeeze(-1);
  return -log_probabilities(call, output, axis).gather(axis, target.unsqueeze(axis)).squeeze(axis);
}

at::Tensor batch_normalization(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const int64_t axis = positive_axis(call.integer("axis", -1), x.dim());
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis)] = x.size(axis);
  at::Tensor by =
      (call.tensor(2, "variance").reshape(shape) + call.number("epsilon", 1e-3)).rsqrt();
  if (call.has(4, "scale")) by = by * call.tensor(4, "scale").reshape(shape);
  at::Tensor plus = -call.tensor(1, "mean").reshape(shape) * by;
  if (call.has(3, "offset")) plus = plus + call.tensor(3, "offset").reshape(shape);
  return (x * by + plus).to(x.scalar_type());
}

at::Tensor layer_normalization(C call) {
  const at::Tensor given = logits_of(call),
                   x = given.element_size() < 4 ? given.to(at::kFloat) : given;
  std::vector<int64_t> axes = call.axes();
  if (axes.empty()) axes = {-1};
  for (int64_t& axis : axes) axis = positive_axis(axis, x.dim());
  std::ranges::sort(axes);
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  for (const int64_t axis : axes) shape[static_cast<size_t>(axis)] = x.size(axis);
  const auto weight = [&](size_t i, const char* name) {
    const at::Tensor w = call.tensor(i, name).to(x.scalar_type());
    return w.dim() == x.dim() ? w : w.reshape(shape);
  };
  at::Tensor by =
      (x.var(axes, /*unbiased=*/false, true) + call.number("epsilon", kKerasEpsilon)).rsqrt();
  if (call.has(1, "gamma")) by = by * weight(1, "gamma");
  at::Tensor y = x * by;
  if (!call.flag("rms_scaling")) {
    y = y - x.mean(axes, true) * by;
    if (call.has(2, "beta")) y = y + weight(2, "beta");
  }
  return y.to(given.scalar_type());
}

at::Tensor rms_normalization(C call) {
  const at::Tensor given = logits_of(call),
                   x = given.element_size() < 4 ? given.to(at::kFloat) : given;
  std::vector<int64_t> axes = call.axes();
  if (axes.empty()) axes = {-1};
  at::Tensor y = x * (x.square().mean(axes, true) + call.number("epsilon", kKerasEpsilon)).rsqrt();
  if (call.has(1, "scale")) y = y * call.tensor(1, "scale");
  return y.to(given.scalar_type());
}

at::Tensor normalize(C call) {
  at::Tensor x = logits_of(call);
  if (x.dim() == 0) x = x.unsqueeze(0);
  std::vector<int64_t> axes = call.axes();
  if (axes.empty()) axes = {-1};
  const double epsilon = call.number("epsilon", kKerasEpsilon);
  const int64_t order = call.integer("order", 2);
  if (order == 2) return x * x.square().sum(axes, true).rsqrt().clamp_max(1 / epsilon);
  return x / at::linalg_vector_norm(x, order, axes, true).clamp_min(epsilon);
}

/// Softmax(query key^T scale + bias, where the mask allows) value, for `[batch, time, heads, size]`.
at::Tensor attention(C call) {
  const Tensors all =
      promoted({call.tensor(0, "query"), call.tensor(1, "key"), call.tensor(2, "value")});
  const int64_t heads = all[0].size(2), groups = heads / std::max<int64_t>(all[1].size(2), 1);
  const auto grown = [&](const at::Tensor& x) {
    return groups == 1 ? x : x.repeat_interleave(groups, 2);
  };
  const at::Tensor key = grown(all[1]), value = grown(all[2]);
  at::Tensor logits = at::einsum("btnh,bsnh->bnts", {all[0], key});
  const double scale = call.has(5, "scale") ? call.argument(5, "scale").as_double()
                                            : 1 / std::sqrt(static_cast<double>(all[0].size(-1)));
  logits = logits * scale;
  if (call.has(3, "bias")) logits = logits + call.tensor(3, "bias").to(logits.scalar_type());
  if (const double cap = call.number("attn_logits_soft_cap", 0); cap != 0) {
    logits = (logits / cap).tanh() * cap;
  }
  at::Tensor mask;
  if (call.has(4, "mask")) mask = call.tensor(4, "mask").to(at::kBool);
  if (call.flag("is_causal")) {
    const at::Tensor causal =
        at::ones({logits.size(2), logits.size(3)}, logits.options().dtype(at::kBool)).tril();
    mask = mask.defined() ? mask.logical_and(causal) : causal;
  }
  if (mask.defined()) {
    const double least =
        -0.7 * (logits.scalar_type() == at::kDouble ? std::numeric_limits<double>::max()
                : logits.scalar_type() == at::kHalf ? 65504
                                                    : std::numeric_limits<float>::max());
    logits = at::where(mask, logits, least);
  }
  return at::einsum("bnts,bsnh->btnh", {logits.softmax(-1), value});
}

at::Tensor ctc_loss(C call) {
  const at::Tensor output = floating(call.tensor(1, "output"));
  return at::ctc_loss(output.log_softmax(-1).transpose(0, 1),
                      call.tensor(0, "target").to(at::kLong),
                      call.tensor(3, "output_length").to(at::kLong),
                      call.tensor(2, "target_length").to(at::kLong), call.integer("mask_index", 0),
                      /*reduction=*/0);
}

at::Tensor psnr(C call) {
  const at::Tensor mse = (call.tensor(0, "x1") - call.tensor(1, "x2")).square().mean();
  return 20 * std::log10(call.number("max_val", 1)) - 10 * mse.log10();
}

const OperationRow kNetworkRows[] = {
    one(
        "nn", "Glu", [](C call) { return at::glu(logits_of(call), call.integer("axis", -1)); },
        "axis"),
    one(
        "nn", "HardShrink",
        [](C call) { return at::hardshrink(logits_of(call), call.number("threshold", 0.5)); },
        "threshold"),
    one("nn", "HardTanh", [](C call) { return at::hardtanh(logits_of(call)); }),
    one(
        "nn", "SoftShrink",
        [](C call) { return at::softshrink(logits_of(call), call.number("threshold", 0.5)); },
        "threshold"),
    one("nn", "SparsePlus",
        [](C call) {
          const at::Tensor x = logits_of(call);
          const at::Tensor between = (x + 1).square() / 4;
          return at::where(x <= -1, 0.0, at::where(x >= 1, x, between)).to(x.scalar_type());
        }),
    one("nn", "SparseSigmoid", [](C call) { return 0.5 * (logits_of(call) + 1).clamp(0, 2); }),
    one("nn", "Sparsemax", sparsemax, "axis"),
    one(
        "nn", "Squareplus",
        [](C call) {
          const at::Tensor x = logits_of(call);
          return 0.5 * (x + (x.square() + call.number("b", 4)).sqrt());
        },
        "b"),
    one("nn", "TanhShrink",
        [](C call) {
          const at::Tensor x = logits_of(call);
          return x - x.tanh();
        }),
    one(
        "nn", "Threshold",
        [](C call) {
          const at::Tensor x = logits_of(call);
          return at::where(x > call.number("threshold", 0), x, call.number("default_value", 0))
              .to(x.scalar_type());
        },
        "threshold default_value"),
    one("nn", "BinaryCrossentropy", binary_crossentropy, "from_logits"),
    one("nn", "CategoricalCrossentropy", categorical_crossentropy, "from_logits axis"),
    one("nn", "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, "from_logits axis"),
    one("nn", "BatchNorm", batch_normalization, "axis epsilon"),
    one("nn", "LayerNorm", layer_normalization, "axis epsilon rms_scaling"),
    one("nn", "RMSNorm", rms_normalization, "axis epsilon"),
    one("nn", "Normalize", normalize, "axis order epsilon"),
    one("nn", "DotProductAttention", attention, "is_causal flash_attention attn_logits_soft_cap"),
    one("nn", "CTCLoss", ctc_loss, "mask_index"),
    one("nn", "PSNR", psnr, "max_val"),
};

}  // namespace

std::span<const OperationRow> network_operations() { return kNetworkRows; }

}  // namespace strata::keras::detail
