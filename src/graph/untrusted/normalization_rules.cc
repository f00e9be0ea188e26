// Normalizations.
#include <algorithm>

#include "core/checked_size.h"
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// Parameters and statistics at the arguments `first` to `last`: one number a channel each, all of the
/// input's dtype, or float with an input of 16 bits. Some may be absent.
bool are_of_channels(const CallView& call, const Value& input, size_t first, size_t last) {
  const bool narrow = is_one_of(input.dtype, {at::kBFloat16, at::kHalf});
  std::optional<at::ScalarType> dtype;
  for (size_t i = first; i <= last; ++i) {
    const Value* const value = call.tensor(i);
    if (value == nullptr) continue;
    const bool known = value->dtype == input.dtype || (narrow && value->dtype == at::kFloat);
    if (!known || value->dtype != dtype.value_or(value->dtype)) return false;
    if (!has_one_each(value, input.sizes[1])) return false;
    dtype = value->dtype;
  }
  return true;
}

// native_batch_norm(input, weight?, bias?, mean?, variance?, training, momentum, eps)
Results batch_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  if (input.sizes.size() < 2 || !is_real(input)) return refused(why, "an input without channels");
  if (!are_of_channels(call, input, 1, 4)) {
    return refused(why, "a parameter or a statistic that is not one number a channel");
  }
  if (!call.flag(5) && (call.tensor(3) == nullptr || call.tensor(4) == nullptr)) {
    return refused(why, "no statistics");
  }
  const ExpectedResult statistic{input.dtype == at::kDouble ? at::kDouble : at::kFloat,
                                 {input.sizes[1]}};
  return {{like(input), statistic, statistic}};
}

// _native_batch_norm_legit_no_training(input, weight?, bias?, mean, variance, momentum, eps)
Results batch_norm_of_inference(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  if (input.sizes.size() < 2 || !is_real(input)) return refused(why, "an input without channels");
  if (!are_of_channels(call, input, 1, 4)) {
    return refused(why, "a parameter or a statistic that is not one number a channel");
  }
  const ExpectedResult statistic{input.dtype == at::kDouble ? at::kDouble : at::kFloat, {0}};
  return {{like(input), statistic, statistic}};
}

// native_batch_norm_backward(gradient, input, weight?, mean?, variance?, save_mean?, save_invstd?,
//                            train, eps, output_mask)
Results batch_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  if (input.sizes.size() < 2 || gradient.sizes != input.sizes || gradient.dtype != input.dtype ||
      !is_real(input)) {
    return refused(why, "a gradient that does not fit");
  }
  const int64_t channels = input.sizes[1];
  const bool train = call.flag(7);
  for (size_t i = 2; i <= 6; ++i) {
    const Value* const value = call.tensor(i);
    const bool saved = i >= 5;
    if (value == nullptr) {
      if (i > 2 && saved == train) return refused(why, "no statistics");
      continue;
    }
    if (saved && !train) continue;  // not read
    if (!has_one_each(value, channels) || value->dtype != input.dtype) {
      return refused(why, "a parameter or a statistic that is not one number a channel");
    }
  }
  const c10::List<bool> mask = call.given(9).toBoolList();
  if (mask.size() != 3) return refused(why, "a mask of another length");
  std::vector<std::optional<ExpectedResult>> results(3);
  const ExpectedResult parameter{input.dtype, {channels}};
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = parameter;
  if (mask.get(2)) results[2] = parameter;
  return results;
}

/// The sizes of a layer normalization's statistics; nothing: `normalized` is no end of the input's.
std::optional<std::vector<int64_t>> layer_statistics(const Value& input,
                                                     const std::vector<int64_t>& normalized) {
  if (normalized.empty() || normalized.size() > input.sizes.size()) return std::nullopt;
  const size_t outer = input.sizes.size() - normalized.size();
  std::vector<int64_t> sizes = input.sizes;
  for (size_t d = 0; d < normalized.size(); ++d) {
    if (input.sizes[outer + d] != normalized[d]) return std::nullopt;
    sizes[outer + d] = 1;
  }
  return sizes;
}

// native_layer_norm(input, normalized, weight?, bias?, eps)
Results layer_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const std::vector<int64_t> normalized = call.integers(1);
  const auto statistics = layer_statistics(input, normalized);
  if (!statistics || !is_real(input)) return refused(why, "sizes that do not fit each other");
  at::ScalarType dtype = input.dtype;
  for (const Value* const value : {call.tensor(2), call.tensor(3)}) {
    if (value == nullptr) continue;
    const bool wider = value->dtype == at::kFloat && !is_single_or_double(input);
    if (value->sizes != normalized || (value->dtype != input.dtype && !wider)) {
      return refused(why, "a parameter that does not fit");
    }
    dtype = value->dtype;
  }
  const ExpectedResult statistic{dtype, *statistics};
  return {{like(input), statistic, statistic}};
}

// native_layer_norm_backward(gradient, input, normalized, mean, rstd, weight?, bias?, output_mask)
Results layer_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const std::vector<int64_t> normalized = call.integers(2);
  const auto statistics = layer_statistics(input, normalized);
  const c10::List<bool> mask = call.given(7).toBoolList();
  if (!statistics || !is_single_or_double(input) || gradient.sizes != input.sizes ||
      gradient.dtype != input.dtype || mask.size() != 3) {
    return refused(why, "a gradient that does not fit");
  }
  for (const Value* const value : {call.tensor(3), call.tensor(4)}) {
    if (value->sizes != *statistics || value->dtype != input.dtype || !is_contiguous(*value)) {
      return refused(why, "statistics that do not fit");
    }
  }
  for (size_t i = 5; i <= 6; ++i) {
    const Value* const value = call.tensor(i);
    if (value != nullptr && (value->sizes != normalized || value->dtype != input.dtype)) {
      return refused(why, "a parameter that does not fit");
    }
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = ExpectedResult{input.dtype, normalized};
  if (mask.get(2)) results[2] = ExpectedResult{input.dtype, normalized};
  return results;
}

/// The groups of a call that has N, C, HxW and the groups from the argument `first` on, if they are those of
/// `input`.
std::optional<int64_t> groups_of(const CallView& call, const Value& input, size_t first) {
  const int64_t groups = call.given(first + 3).toInt();
  if (input.sizes.size() < 2 || !is_real(input) || groups < 1) return std::nullopt;
  const auto elements =
      detail::checked_product<int64_t>(std::vector(input.sizes.begin() + 2, input.sizes.end()));
  const bool fits = input.sizes[0] == call.given(first).toInt() &&
                    input.sizes[1] == call.given(first + 1).toInt() &&
                    elements == call.given(first + 2).toInt() && input.sizes[1] % groups == 0;
  return fits ? std::optional(groups) : std::nullopt;
}

// native_group_norm(input, weight?, bias?, N, C, HxW, groups, eps)
Results group_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const auto groups = groups_of(call, input, 3);
  if (!groups) return refused(why, "sizes that do not fit each other");
  if (!are_of_channels(call, input, 1, 2)) {
    return refused(why, "a parameter that is not one number a channel");
  }
  const bool narrow = call.tensor(1) != nullptr && call.tensor(1)->dtype != input.dtype;
  const ExpectedResult statistic{narrow ? at::kFloat : input.dtype, {input.sizes[0], *groups}};
  return {{like(input), statistic, statistic}};
}

// native_group_norm_backward(gradient, input, mean, rstd, weight?, N, C, HxW, groups, output_mask)
Results group_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const auto groups = groups_of(call, input, 5);
  const c10::List<bool> mask = call.given(9).toBoolList();
  if (!groups || !is_single_or_double(input) || mask.size() != 3 || gradient.sizes != input.sizes ||
      gradient.dtype != input.dtype) {
    return refused(why, "a gradient that does not fit");
  }
  for (const Value* const value : {call.tensor(2), call.tensor(3)}) {
    if (!is_dense(*value, input.dtype, {input.sizes[0], *groups})) {
      return refused(why, "statistics that do not fit");
    }
  }
  if (!are_of_channels(call, input, 4, 4)) return refused(why, "a weight that does not fit");
  std::vector<std::optional<ExpectedResult>> results(3);
  const ExpectedResult parameter{input.dtype, {input.sizes[1]}};
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = parameter;
  if (mask.get(2)) results[2] = parameter;
  return results;
}

// --- strata's, whose kernels take dense tensors

/// Rows of the last dimensions of a tensor of floats or, if `narrow`, of bfloat16.
struct Rows {
  std::vector<int64_t> sizes;  // of a row
  int64_t rows;
  int64_t columns;
};

std::optional<Rows> rows_of(const Value& x, int64_t normalized, bool narrow) {
  const auto dimensions = static_cast<int64_t>(x.sizes.size());
  const bool known = x.dtype == at::kFloat || (narrow && x.dtype == at::kBFloat16);
  if (!known || !is_contiguous(x) || normalized < 1 || normalized > dimensions) return std::nullopt;
  const auto first = x.sizes.end() - normalized;
  const auto rows = detail::checked_product<int64_t>(std::vector(x.sizes.begin(), first));
  const auto columns = detail::checked_product<int64_t>(std::vector(first, x.sizes.end()));
  if (!rows || !columns || *rows == 0 || *columns == 0) return std::nullopt;
  return Rows{{first, x.sizes.end()}, *rows, *columns};
}

bool is_absent_or_float(const Value* value, const std::vector<int64_t>& sizes) {
  return value == nullptr || is_dense(*value, at::kFloat, sizes);
}
bool is_absent_or_like(const Value* value, const Value& x) {
  return value == nullptr || is_dense(*value, x.dtype, x.sizes);
}

// strata::layer_norm_of_sum(x, beside, weight?, bias?, normalized, epsilon)
Results layer_norm_of_sum(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  const auto rows = rows_of(x, call.given(4).toInt(), /*narrow=*/true);
  if (!rows || !is_absent_or_like(call.tensor(1), x) ||
      !is_absent_or_float(call.tensor(2), rows->sizes) ||
      !is_absent_or_float(call.tensor(3), rows->sizes)) {
    return refused(why, "tensors that do not fit each other");
  }
  const ExpectedResult statistic{at::kFloat, {rows->rows}};
  return {{like(x), like(x), statistic, statistic}};
}

// strata::layer_norm_of_sum_backward(gradient, of_sum?, sum, weight?, mean, inverse, normalized)
Results layer_norm_of_sum_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& sum = *call.tensor(2);
  const auto rows = rows_of(sum, call.given(6).toInt(), /*narrow=*/true);
  const Value* const beside = call.tensor(1);
  const auto is_as_sum = [&](const Value& value) {
    return value.sizes == sum.sizes && value.dtype == sum.dtype;
  };
  if (!rows || !is_as_sum(gradient) || (beside != nullptr && !is_as_sum(*beside)) ||
      !is_absent_or_float(call.tensor(3), rows->sizes) ||
      !is_dense(*call.tensor(4), at::kFloat, {rows->rows}) ||
      !is_dense(*call.tensor(5), at::kFloat, {rows->rows})) {
    return refused(why, "a gradient that does not fit");
  }
  const ExpectedResult parameter{at::kFloat, {rows->columns}};
  return {{like(sum), parameter, parameter}};
}

// strata::rms_norm(x, weight, epsilon)
Results rms_norm(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  const Value& weight = *call.tensor(1);
  const auto rows = rows_of(x, static_cast<int64_t>(weight.sizes.size()), /*narrow=*/false);
  if (!rows || !is_dense(weight, at::kFloat, rows->sizes)) {
    return refused(why, "a weight that does not fit");
  }
  return {{like(x), ExpectedResult{at::kFloat, {rows->rows}}}};
}

// strata::rms_norm_backward(gradient, x, weight, inverse)
Results rms_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& x = *call.tensor(1);
  const Value& weight = *call.tensor(2);
  const auto rows = rows_of(x, static_cast<int64_t>(weight.sizes.size()), /*narrow=*/false);
  if (!rows || !is_dense(weight, at::kFloat, rows->sizes) || gradient.sizes != x.sizes ||
      gradient.dtype != x.dtype || !is_dense(*call.tensor(3), at::kFloat, {rows->rows})) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(x), like(weight)}};
}

/// `[images, channels, ...]` of floats.
bool is_of_planes(const Value& x) {
  return x.sizes.size() >= 2 && is_dense(x, at::kFloat, x.sizes) &&
         std::ranges::find(x.sizes, 0) == x.sizes.end();
}

// strata::batch_norm_of_planes(x, weight, bias, beside?, epsilon, relu)
Results batch_norm_of_planes(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  if (!is_of_planes(x)) return refused(why, "an input without channels");
  const std::vector<int64_t> channels = {x.sizes[1]};
  if (!is_dense(*call.tensor(1), at::kFloat, channels) ||
      !is_dense(*call.tensor(2), at::kFloat, channels) || !is_absent_or_like(call.tensor(3), x)) {
    return refused(why, "tensors that do not fit each other");
  }
  const ExpectedResult of_channels{at::kFloat, channels};
  return {{like(x), of_channels, of_channels, of_channels}};
}

// strata::batch_norm_of_planes_backward(gradient, x, y?, weight, mean, inverse, dx?, wants_beside)
Results batch_norm_of_planes_backward(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(1);
  if (!is_of_planes(x)) return refused(why, "an input without channels");
  const std::vector<int64_t> channels = {x.sizes[1]};
  for (const size_t argument : {0, 2, 6}) {
    if (!is_absent_or_like(call.tensor(argument), x)) {
      return refused(why, "a gradient that does not fit");
    }
  }
  for (const size_t argument : {3, 4, 5}) {
    if (!is_dense(*call.tensor(argument), at::kFloat, channels)) {
      return refused(why, "a parameter or a statistic that is not one number a channel");
    }
  }
  const ExpectedResult parameter{at::kFloat, channels};
  std::vector<std::optional<ExpectedResult>> results = {parameter, parameter, std::nullopt};
  if (call.flag(7)) results[2] = like(x);
  return results;
}

// --- Batch normalization over all replicas

/// `arguments`: one double a channel each.
bool are_of_channels_of(const Value& x, const CallView& call,
                        std::initializer_list<size_t> arguments) {
  return x.sizes.size() >= 2 && is_real(x) && std::ranges::all_of(arguments, [&](size_t argument) {
           return is_dense(*call.tensor(argument), at::kDouble, {x.sizes[1]});
         });
}

// strata::batch_moments(x)
Results batch_moments(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  if (!are_of_channels_of(x, call, {})) return refused(why, "an input without channels");
  const ExpectedResult of_channels{at::kDouble, {x.sizes[1]}};
  return {{of_channels, of_channels}};
}

// strata::normalize_channels(x, mean, scale, shift)
Results normalize_channels(const CallView& call, std::string& why) {
  const Value& x = *call.tensor(0);
  if (!are_of_channels_of(x, call, {1, 2, 3}))
    return refused(why, "what is not one number a channel");
  return {{like(x)}};
}

// strata::channel_gradient_sums(gradient, x, mean)
Results channel_gradient_sums(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& x = *call.tensor(1);
  if (!are_of_channels_of(x, call, {2}) || gradient.sizes != x.sizes || !is_real(gradient)) {
    return refused(why, "a gradient that does not fit");
  }
  return {{ExpectedResult{at::kDouble, {2, x.sizes[1]}}}};
}

// strata::channel_input_gradient(gradient, x, mean, a, b, scale)
Results channel_input_gradient(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& x = *call.tensor(1);
  if (!are_of_channels_of(x, call, {2, 3, 4, 5}) || gradient.sizes != x.sizes ||
      !is_real(gradient)) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(x)}};
}

}  // namespace

const RuleTable& normalization_rules() {
  static const RuleTable rules = {
      {"aten::_native_batch_norm_legit_no_training", batch_norm_of_inference},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::native_group_norm", group_norm},
      {"aten::native_group_norm_backward", group_norm_backward},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"strata::batch_moments", batch_moments},
      {"strata::batch_norm_of_planes", batch_norm_of_planes},
      {"strata::batch_norm_of_planes_backward", batch_norm_of_planes_backward},
      {"strata::channel_gradient_sums", channel_gradient_sums},
      {"strata::channel_input_gradient", channel_input_gradient},
      {"strata::layer_norm_of_sum", layer_norm_of_sum},
      {"strata::layer_norm_of_sum_backward", layer_norm_of_sum_backward},
      {"strata::normalize_channels", normalize_channels},
      {"strata::rms_norm", rms_norm},
      {"strata::rms_norm_backward", rms_norm_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
