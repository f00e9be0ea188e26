// Convolutions, transposed ones too.
#include <algorithm>

#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// A convolution, in one direction or the other, whose arguments fit each other.
struct Convolution {
  std::vector<int64_t> result;  // its sizes
  int64_t channels;             // of the result
};

/// @param first  The argument that is the stride.
std::optional<Convolution> convolution_of(const CallView& call, const Value& input,
                                          const Value& weight, size_t first, std::string& why) {
  constexpr int64_t kLargest = 1 << 20;
  why = "sizes that do not fit each other";
  const size_t dimensions = input.sizes.size();
  if (dimensions < 3 || dimensions > 5 || weight.sizes.size() != dimensions ||
      input.dtype != weight.dtype || !is_real(input)) {
    return std::nullopt;
  }
  const size_t spatial = dimensions - 2;
  const auto list = [&](size_t argument) { return call.integers(argument, spatial); };
  const std::vector<int64_t> stride = list(first), padding = list(first + 1),
                             dilation = list(first + 2), more = list(first + 4);
  const bool transposed = call.flag(first + 3);
  const int64_t groups = call.given(first + 5).toInt();
  for (const auto* each : {&stride, &padding, &dilation, &more}) {
    if (each->size() != spatial) return std::nullopt;
  }
  for (const auto* each : {&stride, &padding, &dilation, &more, &input.sizes, &weight.sizes}) {
    const auto is_large = [](int64_t number) { return number < 0 || number > kLargest; };
    if (std::ranges::any_of(*each, is_large)) return std::nullopt;
  }
  if (groups < 1 || groups > kLargest || weight.sizes[0] < 1 || weight.sizes[0] % groups != 0 ||
      weight.sizes[1] < 1) {
    return std::nullopt;
  }
  // A transposed one has the weights of the convolution that it undoes.
  const int64_t of_groups = weight.sizes[1] * groups;
  const int64_t channels = transposed ? of_groups : weight.sizes[0];
  if (input.sizes[1] != (transposed ? weight.sizes[0] : of_groups)) return std::nullopt;
  Convolution convolution{.result = {input.sizes[0], channels}, .channels = channels};
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t size = input.sizes[d + 2], kernel = weight.sizes[d + 2];
    if (stride[d] < 1 || dilation[d] < 1 || kernel < 1) return std::nullopt;
    const int64_t reach = dilation[d] * (kernel - 1) + 1;
    if (transposed) {
      const int64_t result = (size - 1) * stride[d] - 2 * padding[d] + reach + more[d];
      if (size < 1 || more[d] >= std::max(stride[d], dilation[d]) || result < 1) {
        return std::nullopt;
      }
      convolution.result.push_back(result);
    } else {
      const int64_t room = size + 2 * padding[d] - reach;
      if (more[d] != 0 || room < 0) return std::nullopt;
      convolution.result.push_back(room / stride[d] + 1);
    }
  }
  return convolution;
}

// convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
Results convolution(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const Value* const bias = call.tensor(2);
  auto made = convolution_of(call, input, *call.tensor(1), 3, why);
  if (!made) return std::nullopt;
  if (!has_one_each(bias, made->channels) || (bias != nullptr && bias->dtype != input.dtype)) {
    return refused(why, "a bias that does not fit");
  }
  return {{ExpectedResult{input.dtype, std::move(made->result)}}};
}

// convolution_backward(gradient, input, weight, bias_sizes?, stride, padding, dilation, transposed,
//                      output_padding, groups, output_mask)
Results convolution_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value& weight = *call.tensor(2);
  const auto made = convolution_of(call, input, weight, 4, why);
  if (!made) return std::nullopt;
  const std::vector<int64_t> bias = {made->channels};
  const c10::List<bool> mask = call.given(10).toBoolList();
  const bool fits = gradient.sizes == made->result && gradient.dtype == input.dtype &&
                    mask.size() == 3 &&
                    (!mask.get(2) || (!call.given(3).isNone() && call.integers(3) == bias));
  if (!fits) {
    return refused(why, "a gradient that does not fit");
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = like(weight);
  if (mask.get(2)) results[2] = ExpectedResult{input.dtype, bias};
  return results;
}

}  // namespace

const RuleTable& convolution_rules() {
  static const RuleTable rules = {
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
