// Padding by what is there, and resizing.
#include <algorithm>

#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// The sizes of `input` behind padding, of which there are numbers before and behind each of the last
/// dimensions, from the last one on.
std::optional<std::vector<int64_t>> padded(const Value& input,
                                           const std::vector<int64_t>& padding) {
  constexpr int64_t kMost = int64_t{1} << 30;
  std::vector<int64_t> sizes = input.sizes;
  if (padding.size() % 2 != 0 || padding.size() / 2 > sizes.size() || !is_real(input)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < padding.size(); ++i) {
    int64_t& size = sizes[sizes.size() - 1 - i / 2];
    if (padding[i] < -kMost || padding[i] > kMost || size > kMost) return std::nullopt;
    size += padding[i];
  }
  const bool empty = std::ranges::any_of(sizes, [](int64_t size) { return size < 1; });
  return empty ? std::nullopt : std::optional(std::move(sizes));
}

// reflection_pad2d(self, padding): checks that there is enough to reflect.
Results padding(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const auto sizes = padded(self, call.integers(1));
  if (!sizes) return refused(why, "a padding that does not fit");
  return {{ExpectedResult{self.dtype, *sizes}}};
}

// reflection_pad2d_backward(gradient, self, padding) and the like.
Results padding_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& self = *call.tensor(1);
  const auto sizes = padded(self, call.integers(2));
  if (!sizes || gradient.sizes != *sizes || gradient.dtype != self.dtype) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(self)}};
}

/// `[..., channels, rows, columns]` with `factor` times the rows and columns.
Results pixel_shuffle(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const int64_t factor = call.given(1).toInt();
  const size_t count = self.sizes.size();
  if (count < 3 || factor < 1 || factor > 1024 || self.sizes[count - 3] % (factor * factor) != 0) {
    return refused(why, "channels that cannot be made rows and columns");
  }
  std::vector<int64_t> sizes = self.sizes;
  sizes[count - 3] /= factor * factor;
  for (const size_t d : {count - 2, count - 1}) {
    if (__builtin_mul_overflow(sizes[d], factor, &sizes[d]))
      return refused(why, "too large a size");
  }
  return {{ExpectedResult{self.dtype, std::move(sizes)}}};
}

Results pixel_unshuffle(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const int64_t factor = call.given(1).toInt();
  const size_t count = self.sizes.size();
  if (count < 3 || factor < 1 || factor > 1024 || self.sizes[count - 2] % factor != 0 ||
      self.sizes[count - 1] % factor != 0) {
    return refused(why, "rows and columns that cannot be made channels");
  }
  std::vector<int64_t> sizes = self.sizes;
  for (const size_t d : {count - 2, count - 1}) sizes[d] /= factor;
  if (__builtin_mul_overflow(sizes[count - 3], factor * factor, &sizes[count - 3])) {
    return refused(why, "too large a size");
  }
  return {{ExpectedResult{self.dtype, std::move(sizes)}}};
}

/// Factors from the argument `first` on: absent, or such that places computed by them are numbers.
bool are_factors(const CallView& call, size_t first) {
  for (size_t i = first; i < call.num_arguments(); ++i) {
    const c10::IValue& factor = call.given(i);
    if (factor.isDouble() && !(factor.toDouble() > 1e-4 && factor.toDouble() < 1e4)) return false;
  }
  return true;
}

bool is_image(const std::vector<int64_t>& sizes, size_t dimensions) {
  constexpr int64_t kMost = 1 << 20;
  return sizes.size() == dimensions + 2 &&
         std::ranges::all_of(sizes, [](int64_t size) { return size >= 1 && size <= kMost; });
}

// upsample_nearest2d(self, output_size, ...) and the like
template <size_t kDimensions>
Results resizing(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const std::vector<int64_t> size = call.integers(1);
  if (!is_image(self.sizes, kDimensions) || size.size() != kDimensions || !is_real(self) ||
      !are_factors(call, 2)) {
    return refused(why, "sizes or factors that do not fit");
  }
  std::vector<int64_t> sizes(self.sizes.begin(), self.sizes.begin() + 2);
  sizes.insert(sizes.end(), size.begin(), size.end());
  if (!is_image(sizes, kDimensions)) return refused(why, "a size out of range");
  return {{ExpectedResult{self.dtype, std::move(sizes)}}};
}

// upsample_nearest2d_backward(gradient, output_size, input_size, ...) and the like
template <size_t kDimensions>
Results resizing_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const std::vector<int64_t> size = call.integers(1), input = call.integers(2);
  if (!is_image(input, kDimensions) || size.size() != kDimensions || !is_real(gradient) ||
      !are_factors(call, 3)) {
    return refused(why, "sizes or factors that do not fit");
  }
  std::vector<int64_t> sizes(input.begin(), input.begin() + 2);
  sizes.insert(sizes.end(), size.begin(), size.end());
  if (gradient.sizes != sizes || !is_image(sizes, kDimensions)) {
    return refused(why, "a gradient that does not fit");
  }
  return {{ExpectedResult{gradient.dtype, input}}};
}

}  // namespace

const RuleTable& image_rules() {
  static const RuleTable rules = {
      {"aten::_upsample_nearest_exact1d", resizing<1>},
      {"aten::_upsample_nearest_exact1d_backward", resizing_backward<1>},
      {"aten::_upsample_nearest_exact2d", resizing<2>},
      {"aten::_upsample_nearest_exact2d_backward", resizing_backward<2>},
      {"aten::_upsample_nearest_exact3d", resizing<3>},
      {"aten::_upsample_nearest_exact3d_backward", resizing_backward<3>},
      {"aten::pixel_shuffle", pixel_shuffle},
      {"aten::pixel_unshuffle", pixel_unshuffle},
      {"aten::reflection_pad1d_backward", padding_backward},
      {"aten::reflection_pad2d", padding},
      {"aten::reflection_pad2d_backward", padding_backward},
      {"aten::reflection_pad3d_backward", padding_backward},
      {"aten::replication_pad1d_backward", padding_backward},
      {"aten::replication_pad2d_backward", padding_backward},
      {"aten::replication_pad3d_backward", padding_backward},
      {"aten::upsample_bicubic2d", resizing<2>},
      {"aten::upsample_bicubic2d_backward", resizing_backward<2>},
      {"aten::upsample_bilinear2d", resizing<2>},
      {"aten::upsample_bilinear2d_backward", resizing_backward<2>},
      {"aten::upsample_linear1d", resizing<1>},
      {"aten::upsample_linear1d_backward", resizing_backward<1>},
      {"aten::upsample_nearest1d", resizing<1>},
      {"aten::upsample_nearest1d_backward", resizing_backward<1>},
      {"aten::upsample_nearest2d", resizing<2>},
      {"aten::upsample_nearest2d_backward", resizing_backward<2>},
      {"aten::upsample_nearest3d", resizing<3>},
      {"aten::upsample_nearest3d_backward", resizing_backward<3>},
      {"aten::upsample_trilinear3d", resizing<3>},
      {"aten::upsample_trilinear3d_backward", resizing_backward<3>},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
