#pragma once

#include "strata/keras/ops/call.h"

/// Activations, normalizations, losses and attention.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

inline Value auto hard_sigmoid(const Value auto& x) { return call("HardSigmoid", {}, x); }
inline Value auto hard_silu(const Value auto& x) { return call("HardSilu", {}, x); }
inline Value auto hard_tanh(const Value auto& x) { return call("HardTanh", {}, x); }
inline Value auto log_sigmoid(const Value auto& x) { return call("LogSigmoid", {}, x); }
inline Value auto relu(const Value auto& x) { return call("Relu", {}, x); }
inline Value auto relu6(const Value auto& x) { return call("Relu6", {}, x); }
inline Value auto selu(const Value auto& x) { return call("Selu", {}, x); }
inline Value auto sigmoid(const Value auto& x) { return call("Sigmoid", {}, x); }
inline Value auto silu(const Value auto& x) { return call("Silu", {}, x); }
inline Value auto softplus(const Value auto& x) { return call("Softplus", {}, x); }
inline Value auto softsign(const Value auto& x) { return call("Softsign", {}, x); }
inline Value auto sparse_plus(const Value auto& x) { return call("SparsePlus", {}, x); }
inline Value auto sparse_sigmoid(const Value auto& x) { return call("SparseSigmoid", {}, x); }
inline Value auto tanh_shrink(const Value auto& x) { return call("TanhShrink", {}, x); }
inline Value auto swish(const Value auto& x) { return call("Silu", {}, x); }
inline Value auto hard_swish(const Value auto& x) { return call("HardSilu", {}, x); }
inline Value auto celu(const Value auto& x, double alpha = 1) {
  return call("Celu", {{"alpha", alpha}}, x);
}
inline Value auto elu(const Value auto& x, double alpha = 1) {
  return call("Elu", {{"alpha", alpha}}, x);
}
inline Value auto leaky_relu(const Value auto& x, double negative_slope = 0.2) {
  return call("LeakyRelu", {{"negative_slope", negative_slope}}, x);
}
inline Value auto hard_shrink(const Value auto& x, double threshold = 0.5) {
  return call("HardShrink", {{"threshold", threshold}}, x);
}
inline Value auto soft_shrink(const Value auto& x, double threshold = 0.5) {
  return call("SoftShrink", {{"threshold", threshold}}, x);
}
inline Value auto squareplus(const Value auto& x, double b = 4) {
  return call("Squareplus", {{"b", b}}, x);
}
inline Value auto gelu(const Value auto& x, bool approximate = true) {
  return call("Gelu", {{"approximate", approximate}}, x);
}
inline Value auto threshold(const Value auto& x, double threshold, double default_value) {
  return call("Threshold", {{"threshold", threshold}, {"default_value", default_value}}, x);
}
inline Value auto glu(const Value auto& x, int64_t axis = -1) {
  return call("Glu", {{"axis", axis}}, x);
}
inline Value auto softmax(const Value auto& x, const Axis& axis = -1) {
  return call("Softmax", {{"axis", axis}}, x);
}
inline Value auto log_softmax(const Value auto& x, int64_t axis = -1) {
  return call("LogSoftmax", {{"axis", axis}}, x);
}
inline Value auto sparsemax(const Value auto& x, int64_t axis = -1) {
  return call("Sparsemax", {{"axis", axis}}, x);
}
inline Value auto normalize(const Value auto& x, const Axis& axis = -1, int64_t order = 2,
                            std::optional<double> epsilon = {}) {
  return call("Normalize",
              {{"axis", axis}, {"order", order}, {"epsilon", detail::json_or_null(epsilon)}}, x);
}
template <Value T>
T layer_normalization(const T& x, const std::type_identity_t<std::optional<T>>& gamma = {},
                      const std::type_identity_t<std::optional<T>>& beta = {},
                      const Axis& axis = -1, std::optional<double> epsilon = {}) {
  return call("LayerNorm",
              {{"axis", axis}, {"epsilon", detail::json_or_null(epsilon)}, {"rms_scaling", false}},
              x, gamma, beta);
}
template <Value T>
T rms_normalization(const T& x, const std::type_identity_t<std::optional<T>>& scale = {},
                    const Axis& axis = -1, std::optional<double> epsilon = {}) {
  return call("RMSNorm", {{"axis", axis}, {"epsilon", detail::json_or_null(epsilon)}}, x, scale);
}
template <Value T>
T batch_normalization(const T& x, const T& mean, const T& variance, int64_t axis,
                      const std::type_identity_t<std::optional<T>>& offset = {},
                      const std::type_identity_t<std::optional<T>>& scale = {},
                      double epsilon = 1e-3) {
  return call("BatchNorm", {{"axis", axis}, {"epsilon", epsilon}}, x, mean, variance, offset,
              scale);
}

inline Value auto binary_crossentropy(const Value auto& target, const Value auto& output,
                                      bool from_logits = false) {
  return call("BinaryCrossentropy", {{"from_logits", from_logits}}, target, output);
}
inline Value auto categorical_crossentropy(const Value auto& target, const Value auto& output,
                                           bool from_logits = false, int64_t axis = -1) {
  return call("CategoricalCrossentropy", {{"from_logits", from_logits}, {"axis", axis}}, target,
              output);
}
inline Value auto sparse_categorical_crossentropy(const Value auto& target,
                                                  const Value auto& output,
                                                  bool from_logits = false, int64_t axis = -1) {
  return call("SparseCategoricalCrossentropy", {{"from_logits", from_logits}, {"axis", axis}},
              target, output);
}
/// Of sequences of labels without their alignment. @param output  `[batch, time, classes]`, logits.
inline Value auto ctc_loss(const Value auto& target, const Value auto& output,
                           const Value auto& target_length, const Value auto& output_length,
                           int64_t mask_index = 0) {
  return call("CTCLoss", {{"mask_index", mask_index}}, target, output, target_length,
              output_length);
}
struct CtcDecodeOptions {
  std::string strategy = "greedy";  ///< Or "beam_search".
  int64_t beam_width = 100;
  int64_t top_paths = 1;
  bool merge_repeated = true;
  int64_t mask_index = 0;
};
/// Labels `[paths, batch, time]`, -1 behind the end, and scores.
inline auto ctc_decode(const Value auto& inputs, const Value auto& sequence_lengths,
                       const CtcDecodeOptions& options = {}) {
  return call_all("CTCDecode",
                  {{"strategy", options.strategy},
                   {"beam_width", options.beam_width},
                   {"top_paths", options.top_paths},
                   {"merge_repeated", options.merge_repeated},
                   {"mask_index", options.mask_index}},
                  inputs, sequence_lengths);
}
/// Peak signal-to-noise ratio.
inline Value auto psnr(const Value auto& x1, const Value auto& x2, double max_val) {
  return call("PSNR", {{"max_val", max_val}}, x1, x2);
}
template <typename T>
struct AttentionOptions {
  std::optional<T> bias = {};
  std::optional<T> mask = {};        ///< True: is looked at.
  std::optional<double> scale = {};  ///< Unset: 1 / sqrt(size of a head).
  bool is_causal = false;
};
/// For `[batch, time, heads, size]`.
template <Value T>
T dot_product_attention(const T& query, const T& key, const T& value,
                        const AttentionOptions<std::type_identity_t<T>>& options = {}) {
  return call("DotProductAttention",
              {{"is_causal", options.is_causal},
               {"flash_attention", Json()},
               {"attn_logits_soft_cap", Json()}},
              query, key, value, options.bias, options.mask, detail::json_or_null(options.scale));
}
inline Value auto polar(const Value auto& abs_, const Value auto& angle) {
  return call("Polar", {}, abs_, angle);
}

}  // namespace strata::keras::ops
