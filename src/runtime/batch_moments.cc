#include "runtime/batch_moments.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "kernels/kernel_threads.h"
#include "strata/core/error.h"
#include "tensor/tree_sum.h"

namespace strata::detail {
namespace {

/// How a dense tensor lies in memory: `outer` blocks of `channels` runs of `inner` elements.
/// Channels-last and `[N, C]` have runs of one element.
struct Layout {
  int64_t outer;
  int64_t channels;
  int64_t inner;

  int64_t count() const { return outer * inner; }
};

at::MemoryFormat format_of(const at::Tensor& x) {
  if (x.is_contiguous()) return at::MemoryFormat::Contiguous;
  if (x.dim() == 4 && x.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return at::MemoryFormat::ChannelsLast;
  }
  if (x.dim() == 5 && x.is_contiguous(at::MemoryFormat::ChannelsLast3d)) {
    return at::MemoryFormat::ChannelsLast3d;
  }
  return at::MemoryFormat::Contiguous;
}

Layout layout_of(const at::Tensor& x, at::MemoryFormat format) {
  const int64_t channels = x.size(1);
  const int64_t count = channels == 0 ? 0 : x.numel() / channels;
  if (format != at::MemoryFormat::Contiguous) return {count, channels, 1};
  return {x.size(0), channels, x.size(0) == 0 ? 1 : count / x.size(0)};
}

/// Calls fn(begin, end) for ranges of channels. A channel is one thread's, so its bits do not
/// depend on how many threads there are.
template <typename Fn>
void over_channels(const Layout& layout, const Fn& fn) {
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, layout.count()));
  // Eight channels or more of a channels-last row: neighbours share a cache line.
  kernels::parallel_for(0, layout.channels, layout.inner == 1 ? std::max<int64_t>(grain, 8) : grain,
                        fn);
}

/// out[c] = the sum of term(i, c) over channel c's elements, for channels [begin, end).
template <typename Term>
void sum_channels(const Layout& l, int64_t begin, int64_t end, double* out, const Term& term) {
  if (l.inner == 1) {
    std::fill(out + begin, out + end, 0.0);
    for (int64_t row = 0; row < l.outer; ++row) {
      for (int64_t c = begin; c < end; ++c) out[c] += term(row * l.channels + c, c);
    }
    return;
  }
  for (int64_t c = begin; c < end; ++c) {
    std::array<double, 8> lanes{};
    for (int64_t n = 0; n < l.outer; ++n) {
      const int64_t first = (n * l.channels + c) * l.inner;
      int64_t i = 0;
      for (; i + 8 <= l.inner; i += 8) {
        for (int64_t k = 0; k < 8; ++k) lanes[static_cast<size_t>(k)] += term(first + i + k, c);
      }
      for (; i < l.inner; ++i) lanes[0] += term(first + i, c);
    }
    out[c] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
             ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
}

/// Calls fn(i, c) for every element; parallel over blocks.
template <typename Fn>
void over_elements(const Layout& l, const Fn& fn) {
  if (l.inner == 1) {
    kernels::parallel_for(0, l.outer,
                          std::max<int64_t>(1, 32768 / std::max<int64_t>(1, l.channels)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t row = begin; row < end; ++row) {
                              for (int64_t c = 0; c < l.channels; ++c) fn(row * l.channels + c, c);
                            }
                          });
    return;
  }
  kernels::parallel_for(0, l.outer * l.channels,
                        std::max<int64_t>(1, 32768 / std::max<int64_t>(1, l.inner)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t run = begin; run < end; ++run) {
                            const int64_t c = run % l.channels;
                            for (int64_t i = 0; i < l.inner; ++i) fn(run * l.inner + i, c);
                          }
                        });
}

template <typename T>
double as_double(T value) {
  return static_cast<double>(static_cast<at::opmath_type<T>>(value));
}

/// A channel's number as two of type T, so that x - mean loses nothing although T is float.
template <typename T>
struct Split {
  std::vector<T> high;
  std::vector<T> low;

  explicit Split(const at::Tensor& values) {
    const double* data = values.const_data_ptr<double>();
    for (int64_t c = 0; c < values.numel(); ++c) {
      high.push_back(static_cast<T>(data[c]));
      low.push_back(static_cast<T>(data[c] - static_cast<double>(high.back())));
    }
  }
};

template <typename T>
std::vector<T> rounded(const at::Tensor& values) {
  const double* data = values.const_data_ptr<double>();
  std::vector<T> result;
  for (int64_t c = 0; c < values.numel(); ++c) result.push_back(static_cast<T>(data[c]));
  return result;
}

at::Tensor channel_zeros(int64_t channels) { return at::zeros({channels}, at::kDouble); }

/// Chan's rule for two parts.
Moments join_moments(const Moments& left, const Moments& right) {
  if (left.count == 0) return right;
  if (right.count == 0) return left;
  const int64_t channels = left.mean.numel();
  Moments both{left.count + right.count, channel_zeros(channels), channel_zeros(channels)};
  const double* left_mean = left.mean.const_data_ptr<double>();
  const double* right_mean = right.mean.const_data_ptr<double>();
  const double* left_m2 = left.m2.const_data_ptr<double>();
  const double* right_m2 = right.m2.const_data_ptr<double>();
  double* mean = both.mean.mutable_data_ptr<double>();
  double* m2 = both.m2.mutable_data_ptr<double>();
  const double share = right.count / both.count;
  for (int64_t c = 0; c < channels; ++c) {
    const double apart = right_mean[c] - left_mean[c];
    mean[c] = left_mean[c] + apart * share;
    m2[c] = (left_m2[c] + right_m2[c]) + apart * apart * left.count * share;
  }
  return both;
}

Moments merge_range(const std::vector<const Moments*>& parts, size_t first, size_t count) {
  if (count == 1) return *parts[first];
  const auto left = static_cast<size_t>(tensor::tree_left_count(static_cast<int64_t>(count)));
  return join_moments(merge_range(parts, first, left),
                      merge_range(parts, first + left, count - left));
}

}  // namespace

Moments batch_moments(const at::Tensor& input) {
  const at::MemoryFormat format = format_of(input);
  const at::Tensor x = input.contiguous(format);
  const Layout layout = layout_of(x, format);
  Moments moments{static_cast<double>(layout.count()), channel_zeros(layout.channels),
                  channel_zeros(layout.channels)};
  if (layout.count() == 0) return moments;
  double* mean = moments.mean.mutable_data_ptr<double>();
  double* m2 = moments.m2.mutable_data_ptr<double>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "batch_moments", [&] {
    const scalar_t* values = x.const_data_ptr<scalar_t>();
    over_channels(layout, [&](int64_t begin, int64_t end) {
      sum_channels(layout, begin, end, mean,
                   [&](int64_t i, int64_t) { return as_double(values[i]); });
      for (int64_t c = begin; c < end; ++c) mean[c] /= moments.count;
      sum_channels(layout, begin, end, m2, [&](int64_t i, int64_t c) {
        const double apart = as_double(values[i]) - mean[c];
        return apart * apart;
      });
    });
  });
  return moments;
}

Moments merge_in_tree_order(const std::vector<const Moments*>& parts) {
  STRATA_DCHECK(!parts.empty());
  return merge_range(parts, 0, parts.size());
}

at::Tensor normalize(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& scale,
                     const at::Tensor& shift) {
  const at::MemoryFormat format = format_of(input);
  const at::Tensor x = input.contiguous(format);
  const Layout layout = layout_of(x, format);
  at::Tensor out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "normalize", [&] {
    using math_t = at::opmath_type<scalar_t>;
    const Split<math_t> center(mean);
    const std::vector<math_t> scales = rounded<math_t>(scale);
    const std::vector<math_t> shifts = rounded<math_t>(shift);
    const math_t* high = center.high.data();
    const math_t* low = center.low.data();
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    over_elements(layout, [=, s = scales.data(), b = shifts.data()](int64_t i, int64_t c) {
      const auto apart = (static_cast<math_t>(from[i]) - high[c]) - low[c];
      to[i] = static_cast<scalar_t>(apart * s[c] + b[c]);
    });
  });
  return out;
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                         const at::Tensor& mean) {
  const at::MemoryFormat format = format_of(input);
  const at::Tensor x = input.contiguous(format);
  const at::Tensor dy = gradient.to(x.scalar_type()).contiguous(format);
  const Layout layout = layout_of(x, format);
  at::Tensor sums = at::zeros({2, layout.channels}, at::kDouble);
  if (layout.count() == 0) return sums;
  double* sum = sums.mutable_data_ptr<double>();
  double* product = sum + layout.channels;
  const double* center = mean.const_data_ptr<double>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gradient_sums", [&] {
    const scalar_t* values = x.const_data_ptr<scalar_t>();
    const scalar_t* gradients = dy.const_data_ptr<scalar_t>();
    over_channels(layout, [&](int64_t begin, int64_t end) {
      sum_channels(layout, begin, end, sum,
                   [&](int64_t i, int64_t) { return as_double(gradients[i]); });
      sum_channels(layout, begin, end, product, [&](int64_t i, int64_t c) {
        return as_double(gradients[i]) * (as_double(values[i]) - center[c]);
      });
    });
  });
  return sums;
}

at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input,
                          const at::Tensor& mean, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& scale) {
  const at::MemoryFormat format = format_of(input);
  const at::Tensor x = input.contiguous(format);
  const at::Tensor dy = gradient.to(x.scalar_type()).contiguous(format);
  const Layout layout = layout_of(x, format);
  at::Tensor out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "input_gradient", [&] {
    using math_t = at::opmath_type<scalar_t>;
    const Split<math_t> center(mean);
    const std::vector<math_t> offsets = rounded<math_t>(a);
    const std::vector<math_t> slopes = rounded<math_t>(b);
    const std::vector<math_t> scales = rounded<math_t>(scale);
    const math_t* high = center.high.data();
    const math_t* low = center.low.data();
    const scalar_t* values = x.const_data_ptr<scalar_t>();
    const scalar_t* from = dy.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    over_elements(layout, [=, o = offsets.data(), k = slopes.data(), s = scales.data()](int64_t i,
                                                                                        int64_t c) {
      const auto apart = (static_cast<math_t>(values[i]) - high[c]) - low[c];
      to[i] = static_cast<scalar_t>((static_cast<math_t>(from[i]) - o[c] - apart * k[c]) * s[c]);
    });
  });
  return out;
}

}  // namespace strata::detail
