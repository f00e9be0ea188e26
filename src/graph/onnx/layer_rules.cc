// Products, convolutions, pooling and normalization.
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx/rules.h"

namespace strata::graph::onnx {
namespace {

// --- Products of matrices

void matmul(NodeExport& node) { node.give(node.add("MatMul", {node.tensor(0), node.tensor(1)})); }

/// beta * x + alpha * (a b), where both numbers are behind the tensors.
void added_matmul(NodeExport& node) {
  const at::ScalarType dtype = node.dtype();
  const auto times = [&](const std::string& x, size_t i) {
    return node.number(i) == 1 ? x : node.add("Mul", {x, node.scalar(node.number(i), dtype)});
  };
  const std::string product = times(node.add("MatMul", {node.tensor(1), node.tensor(2)}), 4);
  if (node.number(3) == 0) return node.give(product);
  node.give(node.add("Add", {product, times(node.tensor(0), 3)}));
}

void gemm(NodeExport& node) {
  if (!c10::isFloatingType(node.dtype())) return added_matmul(node);
  node.give(node.add("Gemm", {node.tensor(1), node.tensor(2), node.tensor(0)},
                     {attribute("beta", node.number(3)), attribute("alpha", node.number(4))}));
}

void linear(NodeExport& node) {
  const std::string weight =
      node.rank(1) == 2 ? node.transpose(node.tensor(1), {1, 0}) : node.tensor(1);
  const std::string y = node.add("MatMul", {node.tensor(0), weight});
  node.give(node.is_tensor(2) ? node.add("Add", {y, node.tensor(2)}) : y);
}

// --- Attention

struct AttentionPlaces {
  size_t mask, causal, scale;
};

void attention(NodeExport& node, const AttentionPlaces& places) {
  const Value& query = node.value(0);
  const auto rank = static_cast<int64_t>(query.sizes.size());
  const double scale = node.is_none(places.scale)
                           ? 1 / std::sqrt(static_cast<double>(query.sizes.back()))
                           : node.number(places.scale);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  std::string scores = node.add("MatMul", {node.tensor(0), node.transpose(node.tensor(1), order)});
  scores = node.add("Mul", {scores, node.scalar(scale, query.dtype)});
  const std::string hidden = node.scalar(-INFINITY, query.dtype);
  if (node.is_tensor(places.mask)) {
    const bool boolean = node.value(places.mask).dtype == at::kBool;
    const std::string mask = node.tensor(places.mask);
    scores = boolean ? node.add("Where", {mask, scores, hidden}) : node.add("Add", {scores, mask});
  }
  if (node.flag(places.causal)) {
    const auto last = order.size() - 2;
    const int64_t queries = node.fixed(node.sizes(0)[last]);
    const int64_t keys = node.fixed(node.sizes(1)[last]);
    const at::Tensor seen = at::full({queries, keys}, true, at::dtype(at::kBool)).tril();
    scores = node.add("Where", {node.model().constant(seen, "causal"), scores, hidden});
  }
  const std::string weights = node.add("Softmax", {scores}, {attribute("axis", int64_t{-1})});
  node.give(node.add("MatMul", {weights, node.tensor(2)}));
}

/// (query, key, value, dropout, causal, mask, scale)
void flash_attention(NodeExport& node) {
  node.require(node.number(3) == 0, "dropout");
  attention(node, {.mask = 5, .causal = 4, .scale = 6});
}

// --- Convolutions and pooling

/// One number for each of `n` dimensions; libtorch takes one for all, too.
std::vector<int64_t> of_each(std::vector<int64_t> numbers, size_t n) {
  if (numbers.size() == 1) numbers.resize(n, numbers[0]);
  return numbers;
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

void convolution(NodeExport& node) {
  const std::vector<int64_t>& kernel = node.value(1).sizes;
  const size_t n = kernel.size() - 2;
  node.require(node.value(0).sizes.size() == kernel.size(), "an input without a batch");
  Attributes attributes = {
      attribute("kernel_shape", std::vector<int64_t>(kernel.begin() + 2, kernel.end())),
      attribute("strides", of_each(node.integers(3), n)),
      attribute("pads", both_sides(of_each(node.integers(4), n))),
      attribute("dilations", of_each(node.integers(5), n)), attribute("group", node.integer(8))};
  const bool transposed = node.flag(6);
  if (transposed) {
    attributes.push_back(attribute("output_padding", of_each(node.integers(7), n)));
  }
  node.give(node.add(transposed ? "ConvTranspose" : "Conv",
                     {node.tensor(0), node.tensor(1), node.tensor_or_none(2)}, attributes));
}

/// Calls `pool(x)`; an x without a batch becomes one of one example meanwhile.
template <typename Pool>
void with_batch(NodeExport& node, size_t n, const Pool& pool) {
  const bool single = node.value(0).sizes.size() == n + 1;
  std::string x = node.tensor(0);
  if (single) x = node.add("Unsqueeze", {x, node.ints({0})});
  const std::string y = pool(x);
  node.give(single ? node.add("Squeeze", {y, node.ints({0})}) : y);
}

template <size_t n>
void max_pool(NodeExport& node) {
  const std::vector<int64_t> kernel = of_each(node.integers(1), n);
  const std::vector<int64_t> strides = of_each(node.integers(2), n);
  with_batch(node, n, [&](const std::string& x) {
    return node.add("MaxPool", {x},
                    {attribute("kernel_shape", kernel),
                     attribute("strides", strides.empty() ? kernel : strides),
                     attribute("pads", both_sides(of_each(node.integers(3), n))),
                     attribute("dilations", of_each(node.integers(4), n)),
                     attribute("ceil_mode", int64_t{node.flag(5)})});
  });
}

template <size_t n>
void average_pool(NodeExport& node) {
  const std::vector<int64_t> kernel = of_each(node.integers(1), n);
  const std::vector<int64_t> strides = of_each(node.integers(2), n);
  const bool divides = node.node().arguments.size() > 6 && !node.is_none(6);
  node.require(!divides, "a divisor of its own");
  const std::vector<int64_t> padding = of_each(node.integers(3), n);
  const bool pads = std::ranges::any_of(padding, [](int64_t each) { return each != 0; });
  // onnxruntime and libtorch count the elements behind the end differently.
  node.require(!(node.flag(4) && pads), "ceil_mode with padding");
  with_batch(node, n, [&](const std::string& x) {
    return node.add(
        "AveragePool", {x},
        {attribute("kernel_shape", kernel),
         attribute("strides", strides.empty() ? kernel : strides),
         attribute("pads", both_sides(padding)), attribute("ceil_mode", int64_t{node.flag(4)}),
         attribute("count_include_pad", int64_t{pads && node.flag(5)})});
  });
}

/// To sizes that divide those of the input.
void adaptive_pool(NodeExport& node, size_t n, const char* op, const char* global) {
  const std::vector<int64_t> to = node.integers(1);
  const Dims from = node.sizes(0);
  std::vector<int64_t> window;
  for (size_t i = 0; i < n; ++i) {
    const int64_t size = node.fixed(from[from.size() - n + i]);
    node.require(to[i] > 0 && size % to[i] == 0, "windows of different sizes");
    window.push_back(size / to[i]);
  }
  const bool one = std::ranges::all_of(to, [](int64_t each) { return each == 1; });
  with_batch(node, n, [&](const std::string& x) {
    if (one) return node.add(global, {x});
    return node.add(op, {x}, {attribute("kernel_shape", window), attribute("strides", window)});
  });
}
template <size_t n>
void adaptive_average(NodeExport& node) {
  adaptive_pool(node, n, "AveragePool", "GlobalAveragePool");
}
template <size_t n>
void adaptive_max(NodeExport& node) {
  adaptive_pool(node, n, "MaxPool", "GlobalMaxPool");
}

// --- Normalization

std::string all_of_channels(NodeExport& node, int64_t channels, double value) {
  return node.model().constant(at::full({channels}, value, at::dtype(node.dtype())), "channels");
}

std::string normalized(NodeExport& node, size_t mean, size_t variance, double epsilon) {
  const int64_t channels = node.value(0).sizes.at(1);
  const auto or_all = [&](size_t i, double value) {
    return node.is_tensor(i) ? node.tensor(i, node.dtype())
                             : all_of_channels(node, channels, value);
  };
  return node.add(
      "BatchNormalization",
      {node.tensor(0), or_all(1, 1), or_all(2, 0), or_all(mean, 0), or_all(variance, 1)},
      {attribute("epsilon", epsilon)});
}

void batch_norm(NodeExport& node) {
  node.require(!node.flag(5), "training=True");
  node.give(normalized(node, 3, 4, node.number(7)));
}
void batch_norm_of_inference(NodeExport& node) {
  node.give(normalized(node, 3, 4, node.number(6)));
}

void layer_norm(NodeExport& node) {
  const auto dims = static_cast<int64_t>(node.integers(1).size());
  const std::vector<int64_t> shape = node.integers(1);
  const std::string weight =
      node.is_tensor(2)
          ? node.tensor(2)
          : node.model().constant(at::full(shape, 1, at::dtype(node.dtype())), "ones");
  node.give(node.add("LayerNormalization", {node.tensor(0), weight, node.tensor_or_none(3)},
                     {attribute("axis", -dims), attribute("epsilon", node.number(4))}));
}

/// Groups as the channels of an instance normalization; channels have their factors behind it.
void group_norm(NodeExport& node) {
  const int64_t channels = node.integer(4), groups = node.integer(6);
  const Dims sizes = node.sizes(0);
  Dims grouped = {sizes[0], {.fixed = groups}};
  int64_t rest = channels / groups;
  Dims of_channels = {{.fixed = channels}};
  for (size_t i = 2; i < sizes.size(); ++i) {
    rest *= node.fixed(sizes[i]);
    of_channels.push_back({.fixed = 1});
  }
  grouped.push_back({.fixed = rest});
  std::string y = node.add("InstanceNormalization",
                           {node.reshape(node.tensor(0), grouped), all_of_channels(node, groups, 1),
                            all_of_channels(node, groups, 0)},
                           {attribute("epsilon", node.number(7))});
  y = node.reshape(y, sizes);
  if (node.is_tensor(1)) y = node.add("Mul", {y, node.reshape(node.tensor(1), of_channels)});
  if (node.is_tensor(2)) y = node.add("Add", {y, node.reshape(node.tensor(2), of_channels)});
  node.give(y);
}

}  // namespace

const Rules& layer_rules() {
  static const Rules rules = {
      {"aten::_adaptive_avg_pool2d", adaptive_average<2>},
      {"aten::_adaptive_avg_pool3d", adaptive_average<3>},
      {"aten::_native_batch_norm_legit_no_training", batch_norm_of_inference},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
      {"aten::adaptive_max_pool2d", adaptive_max<2>},
      {"aten::adaptive_max_pool3d", adaptive_max<3>},
      {"aten::addmm", gemm},
      {"aten::addmv", added_matmul},
      {"aten::avg_pool1d", average_pool<1>},
      {"aten::avg_pool2d", average_pool<2>},
      {"aten::avg_pool3d", average_pool<3>},
      {"aten::baddbmm", added_matmul},
      {"aten::bmm", matmul},
      {"aten::convolution", convolution},
      {"aten::dot", matmul},
      {"aten::linear", linear},
      {"aten::max_pool1d", max_pool<1>},
      {"aten::max_pool2d_with_indices", max_pool<2>},
      {"aten::max_pool3d_with_indices", max_pool<3>},
      {"aten::mm", matmul},
      {"aten::mv", matmul},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_group_norm", group_norm},
      {"aten::native_layer_norm", layer_norm}};
  return rules;
}

}  // namespace strata::graph::onnx
