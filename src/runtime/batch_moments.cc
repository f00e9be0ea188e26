#include "runtime/batch_moments.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "kernels/find_operator.h"
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

using MeanAndSquares = std::tuple<at::Tensor, at::Tensor>;

MeanAndSquares join_moments_cpu(const at::Tensor& left_mean, const at::Tensor& left_m2,
                                double left_count, const at::Tensor& right_mean,
                                const at::Tensor& right_m2, double right_count) {
  const int64_t channels = left_mean.numel();
  const at::Tensor mean = channel_zeros(channels), m2 = channel_zeros(channels);
  const double* const means[2] = {left_mean.const_data_ptr<double>(),
                                  right_mean.const_data_ptr<double>()};
  const double* const squares[2] = {left_m2.const_data_ptr<double>(),
                                    right_m2.const_data_ptr<double>()};
  double* const mean_of_both = mean.mutable_data_ptr<double>();
  double* const m2_of_both = m2.mutable_data_ptr<double>();
  const double share = right_count / (left_count + right_count);
  for (int64_t c = 0; c < channels; ++c) {
    const double apart = means[1][c] - means[0][c];
    mean_of_both[c] = means[0][c] + apart * share;
    m2_of_both[c] = (squares[0][c] + squares[1][c]) + apart * apart * left_count * share;
  }
  return {mean, m2};
}

MeanAndSquares join_moments_by_libtorch(const at::Tensor& left_mean, const at::Tensor& left_m2,
                                        double left_count, const at::Tensor& right_mean,
                                        const at::Tensor& right_m2, double right_count) {
  const double share = right_count / (left_count + right_count);
  const at::Tensor apart = right_mean - left_mean;
  return {left_mean + apart * share, left_m2 + right_m2 + apart.square() * (left_count * share)};
}

/// Chan's rule for two parts.
Moments join_moments(const Moments& left, const Moments& right) {
  if (left.count == 0) return right;
  if (right.count == 0) return left;
  static const auto join =
      kernels::find_operator<decltype(join_moments_cpu)>("strata::join_moments");
  auto [mean, m2] = join.call(left.mean, left.m2, left.count, right.mean, right.m2, right.count);
  return {left.count + right.count, std::move(mean), std::move(m2)};
}

Moments merge_range(const std::vector<const Moments*>& parts, size_t first, size_t count) {
  if (count == 1) return *parts[first];
  const auto left = static_cast<size_t>(tensor::tree_left_count(static_cast<int64_t>(count)));
  return join_moments(merge_range(parts, first, left),
                      merge_range(parts, first + left, count - left));
}

MeanAndSquares batch_moments_cpu(const at::Tensor& input) {
  const at::MemoryFormat format = format_of(input);
  const at::Tensor x = input.contiguous(format);
  const Layout layout = layout_of(x, format);
  const at::Tensor means = channel_zeros(layout.channels), squares = channel_zeros(layout.channels);
  if (layout.count() == 0) return {means, squares};
  const auto count = static_cast<double>(layout.count());
  double* mean = means.mutable_data_ptr<double>();
  double* m2 = squares.mutable_data_ptr<double>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "batch_moments", [&] {
    const scalar_t* values = x.const_data_ptr<scalar_t>();
    over_channels(layout, [&](int64_t begin, int64_t end) {
      sum_channels(layout, begin, end, mean,
                   [&](int64_t i, int64_t) { return as_double(values[i]); });
      for (int64_t c = begin; c < end; ++c) mean[c] /= count;
      sum_channels(layout, begin, end, m2, [&](int64_t i, int64_t c) {
        const double apart = as_double(values[i]) - mean[c];
        return apart * apart;
      });
    });
  });
  return {means, squares};
}

at::Tensor normalize_channels_cpu(const at::Tensor& input, const at::Tensor& mean,
                                  const at::Tensor& scale, const at::Tensor& shift) {
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

at::Tensor channel_gradient_sums_cpu(const at::Tensor& gradient, const at::Tensor& input,
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

at::Tensor channel_input_gradient_cpu(const at::Tensor& gradient, const at::Tensor& input,
                                      const at::Tensor& mean, const at::Tensor& a,
                                      const at::Tensor& b, const at::Tensor& scale) {
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

/// A channel's number for each of its elements.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<int64_t> sizes(static_cast<size_t>(like.dim()), 1);
  sizes[1] = values.numel();
  return values.view(sizes);
}

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dimensions = {0};
  for (int64_t i = 2; i < x.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

MeanAndSquares batch_moments_by_libtorch(const at::Tensor& x) {
  if (x.numel() == 0) {
    const at::Tensor zeros = at::zeros({x.size(1)}, x.options().dtype(at::kDouble));
    return {zeros, zeros.clone()};
  }
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor mean = wide.mean(all_but_channels(x));
  return {mean, (wide - by_channel(mean, x)).square().sum(all_but_channels(x))};
}

at::Tensor normalize_channels_by_libtorch(const at::Tensor& x, const at::Tensor& mean,
                                          const at::Tensor& scale, const at::Tensor& shift) {
  const at::Tensor apart = x.to(at::kDouble) - by_channel(mean, x);
  return (apart * by_channel(scale, x) + by_channel(shift, x)).to(x.scalar_type());
}

at::Tensor channel_gradient_sums_by_libtorch(const at::Tensor& gradient, const at::Tensor& x,
                                             const at::Tensor& mean) {
  const at::Tensor dy = gradient.to(x.scalar_type()).to(at::kDouble);
  const at::Tensor apart = x.to(at::kDouble) - by_channel(mean, x);
  return at::stack({dy.sum(all_but_channels(x)), (dy * apart).sum(all_but_channels(x))});
}

at::Tensor channel_input_gradient_by_libtorch(const at::Tensor& gradient, const at::Tensor& x,
                                              const at::Tensor& mean, const at::Tensor& a,
                                              const at::Tensor& b, const at::Tensor& scale) {
  const at::Tensor dy = gradient.to(x.scalar_type()).to(at::kDouble);
  const at::Tensor apart = x.to(at::kDouble) - by_channel(mean, x);
  return ((dy - by_channel(a, x) - apart * by_channel(b, x)) * by_channel(scale, x))
      .to(x.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def("batch_moments(Tensor x) -> (Tensor mean, Tensor squares)");
  library.def(
      "join_moments(Tensor left_mean, Tensor left_squares, float left_count, "
      "Tensor right_mean, Tensor right_squares, float right_count) -> (Tensor mean, Tensor "
      "squares)");
  library.def("normalize_channels(Tensor x, Tensor mean, Tensor scale, Tensor shift) -> Tensor");
  library.def("channel_gradient_sums(Tensor gradient, Tensor x, Tensor mean) -> Tensor");
  library.def(
      "channel_input_gradient(Tensor gradient, Tensor x, Tensor mean, Tensor a, Tensor b, "
      "Tensor scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("batch_moments", batch_moments_cpu);
  library.impl("join_moments", join_moments_cpu);
  library.impl("normalize_channels", normalize_channels_cpu);
  library.impl("channel_gradient_sums", channel_gradient_sums_cpu);
  library.impl("channel_input_gradient", channel_input_gradient_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("batch_moments", batch_moments_by_libtorch);
  library.impl("join_moments", join_moments_by_libtorch);
  library.impl("normalize_channels", normalize_channels_by_libtorch);
  library.impl("channel_gradient_sums", channel_gradient_sums_by_libtorch);
  library.impl("channel_input_gradient", channel_input_gradient_by_libtorch);
}

}  // namespace

Moments batch_moments(const at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto moments =
      kernels::find_operator<decltype(batch_moments_cpu)>("strata::batch_moments");
  auto [mean, squares] = moments.call(x);
  const int64_t channels = x.size(1);
  return {channels == 0 ? 0 : static_cast<double>(x.numel() / channels), std::move(mean),
          std::move(squares)};
}

at::Tensor over_count(const at::Tensor& values, const Moments& moments, double less) {
  if (!moments.count_of_run.defined()) return values / std::max(moments.count - less, 1.0);
  const at::Tensor& count = moments.count_of_run;
  return values / at::clamp_min(less == 0 ? count : count - less, 1);
}

Moments merge_in_tree_order(const std::vector<const Moments*>& parts) {
  STRATA_DCHECK(!parts.empty());
  return merge_range(parts, 0, parts.size());
}

namespace {

/// Chan's rule for each even row and the one behind it, whose place in the tree is beside it; a last
/// one without goes up as it is. A row without elements has zeros, and adds none.
at::Tensor join_pairs(const at::Tensor& rows) {
  const int64_t count = rows.size(0), channels = (rows.size(1) - 1) / 2;
  const at::Tensor left = rows.slice(0, 0, count - 1, 2), right = rows.slice(0, 1, count, 2);
  const at::Tensor left_count = left.narrow(1, 0, 1), right_count = right.narrow(1, 0, 1);
  const at::Tensor left_mean = left.narrow(1, 1, channels);
  const at::Tensor total = left_count + right_count;
  const at::Tensor share = right_count / at::clamp_min(total, 1);
  const at::Tensor apart = right.narrow(1, 1, channels) - left_mean;
  const at::Tensor m2 =
      (left.narrow(1, 1 + channels, channels) + right.narrow(1, 1 + channels, channels)) +
      apart * apart * left_count * share;
  const at::Tensor joined = at::cat({total, left_mean + apart * share, m2}, 1);
  return count % 2 == 0 ? joined : at::cat({joined, rows.narrow(0, count - 1, 1)});
}

}  // namespace

Moments merge_rows(const at::Tensor& rows) {
  at::Tensor all = rows;
  while (all.size(0) > 1) all = join_pairs(all);
  const int64_t channels = (rows.size(1) - 1) / 2;
  const at::Tensor merged = all[0];
  return {.mean = merged.narrow(0, 1, channels),
          .m2 = merged.narrow(0, 1 + channels, channels),
          .count_of_run = merged[0]};
}

at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale,
                     const at::Tensor& shift) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto normalize =
      kernels::find_operator<decltype(normalize_channels_cpu)>("strata::normalize_channels");
  return normalize.call(x, mean, scale, shift);
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& mean) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto sums =
      kernels::find_operator<decltype(channel_gradient_sums_cpu)>("strata::channel_gradient_sums");
  return sums.call(gradient, x, mean);
}

at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& mean,
                          const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto backward = kernels::find_operator<decltype(channel_input_gradient_cpu)>(
      "strata::channel_input_gradient");
  return backward.call(gradient, x, mean, a, b, scale);
}

}  // namespace strata::detail
