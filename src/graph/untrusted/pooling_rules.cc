// Pooling.
#include <algorithm>

#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"
#include "strata/core/str_cat.h"

namespace strata::graph::untrusted {
namespace {

/// The last dimensions of a tensor, which are pooled; the ones before are examples and channels.
struct Pooled {
  std::vector<int64_t> outer;
  std::vector<int64_t> sizes;
};
std::optional<Pooled> pooled(const Value& input, size_t dimensions) {
  const size_t count = input.sizes.size();
  if (!is_real(input) || (count != dimensions + 1 && count != dimensions + 2)) return std::nullopt;
  const auto first = input.sizes.end() - static_cast<std::ptrdiff_t>(dimensions);
  return Pooled{{input.sizes.begin(), first}, {first, input.sizes.end()}};
}
std::vector<int64_t> joined(std::vector<int64_t> outer, const std::vector<int64_t>& sizes) {
  outer.insert(outer.end(), sizes.begin(), sizes.end());
  return outer;
}

// max_pool3d_with_indices(self, kernel, stride, padding, dilation, ceil)
Results max_pool3d(const CallView& call, std::string& why) {
  constexpr int64_t kMost = 1 << 20;
  const Value& input = *call.tensor(0);
  const auto of = pooled(input, 3);
  if (!of) return refused(why, "an input of another number of dimensions");
  const auto list = [&](size_t argument) { return call.integers(argument, 3); };
  const std::vector<int64_t> kernel = list(1), padding = list(3), dilation = list(4);
  const std::vector<int64_t> stride = call.integers(2).empty() ? kernel : list(2);
  std::vector<int64_t> sizes;
  for (const auto* each : {&kernel, &stride, &padding, &dilation}) {
    if (each->size() != 3) return refused(why, "another number of sizes than three");
    for (const int64_t number : *each) {
      if (number < 0 || number > kMost) return refused(why, "sizes out of range");
    }
  }
  for (size_t d = 0; d < 3; ++d) {
    const int64_t size = of->sizes[d];
    if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1 || 2 * padding[d] > kernel[d] ||
        size < 1 || size > kMost) {
      return refused(why, "sizes out of range");
    }
    const int64_t room = size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    if (room < 0) return refused(why, "an input that is smaller than the kernel");
    int64_t count = (room + (call.flag(5) ? stride[d] - 1 : 0)) / stride[d] + 1;
    if (call.flag(5) && (count - 1) * stride[d] >= size + padding[d]) --count;
    sizes.push_back(count);
  }
  sizes = joined(of->outer, sizes);
  return {{ExpectedResult{input.dtype, sizes}, ExpectedResult{at::kLong, sizes}}};
}

/// A backward that trusts positions: they come from `forward` of an input of the same sizes.
/// @param settings  The arguments behind the input, which are the same in both.
Results positions_backward(const CallView& call, std::string_view forward, size_t settings,
                           std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const size_t positions = 2 + settings;
  if (gradient.sizes != call.tensor(positions)->sizes || gradient.dtype != input.dtype ||
      !is_real(input)) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked = is_never_written(call.graph(), call.id(positions)) &&
                       comes_after(call, forward, [&](const Node& node) {
                         const ValueId of = node.arguments[0].values[0];
                         bool same =
                             node.results[1].values[0] == call.id(positions) &&
                             call.graph().values[static_cast<size_t>(of)].sizes == input.sizes;
                         for (size_t i = 1; i <= settings; ++i) {
                           same = same && node.arguments[i].number == call.given(i + 1);
                         }
                         return same;
                       });
  if (!checked)
    return refused(why, str_cat("positions that no ", forward.substr(6), " before it has made"));
  return {{like(input)}};
}

// max_pool2d_with_indices_backward(gradient, self, kernel, stride, padding, dilation, ceil, indices)
Results max_pool2d_backward(const CallView& call, std::string& why) {
  return positions_backward(call, "aten::max_pool2d_with_indices", 5, why);
}
Results max_pool3d_backward(const CallView& call, std::string& why) {
  return positions_backward(call, "aten::max_pool3d_with_indices", 5, why);
}
// adaptive_max_pool2d_backward(gradient, self, indices)
Results adaptive_max_pool2d_backward(const CallView& call, std::string& why) {
  return positions_backward(call, "aten::adaptive_max_pool2d", 0, why);
}
Results adaptive_max_pool3d_backward(const CallView& call, std::string& why) {
  return positions_backward(call, "aten::adaptive_max_pool3d", 0, why);
}

// _adaptive_avg_pool2d(self, output_size)
template <size_t kDimensions>
Results adaptive_average(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const auto of = pooled(input, kDimensions);
  const std::vector<int64_t> sizes = call.integers(1, kDimensions);
  const auto is_empty = [](int64_t size) { return size < 1; };
  if (!of || sizes.size() != kDimensions || std::ranges::any_of(sizes, is_empty) ||
      std::ranges::any_of(of->sizes, is_empty)) {
    return refused(why, "sizes that cannot be pooled");
  }
  return {{ExpectedResult{input.dtype, joined(of->outer, sizes)}}};
}

// _adaptive_avg_pool2d_backward(gradient, self)
template <size_t kDimensions>
Results adaptive_average_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const auto of = pooled(input, kDimensions), to = pooled(gradient, kDimensions);
  const auto is_empty = [](int64_t size) { return size < 1; };
  if (!of || !to || of->outer != to->outer || gradient.dtype != input.dtype ||
      std::ranges::any_of(of->sizes, is_empty) || std::ranges::any_of(to->sizes, is_empty)) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(input)}};
}

}  // namespace

const RuleTable& pooling_rules() {
  static const RuleTable rules = {
      {"aten::_adaptive_avg_pool2d", adaptive_average<2>},
      {"aten::_adaptive_avg_pool2d_backward", adaptive_average_backward<2>},
      {"aten::_adaptive_avg_pool3d", adaptive_average<3>},
      {"aten::_adaptive_avg_pool3d_backward", adaptive_average_backward<3>},
      {"aten::adaptive_max_pool2d_backward", adaptive_max_pool2d_backward},
      {"aten::adaptive_max_pool3d_backward", adaptive_max_pool3d_backward},
      {"aten::max_pool2d_with_indices_backward", max_pool2d_backward},
      {"aten::max_pool3d_with_indices", max_pool3d},
      {"aten::max_pool3d_with_indices_backward", max_pool3d_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
