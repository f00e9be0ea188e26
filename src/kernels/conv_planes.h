#pragma once

// How the convolutions of conv_*.inc lay out an image in scratch memory.

#include <algorithm>
#include <cstdint>

#include "kernels/conv_kernels.h"
#include "kernels/simd.h"

namespace strata::kernels {
namespace {

/// Planes with zero borders: position (row, column) + tap (y, x) of a convolution is at (row + y) *
/// row_stride + column + x.
struct Planes {
  /// `rows` x `columns` floats, the input at (pad_height, pad_width).
  Planes(const ConvShape& shape, int64_t rows, int64_t columns)
      : height(shape.height),
        width(shape.width),
        row_stride(columns),
        first(shape.pad_height * columns + shape.pad_width) {
    // An odd number of cache lines: planes of a power of two would share a few sets of the cache.
    stride = round_up(rows * columns, kLine);
    if (stride / kLine % 2 == 0) stride += kLine;
  }

  /// As small as possible: the columns between two rows serve as the right border of one and the
  /// left border of the next. The last row is there for the right border of the one before.
  explicit Planes(const ConvShape& shape)
      : Planes(shape, shape.height + 2 * shape.pad_height + (shape.pad_width > 0 ? 1 : 0),
               shape.width + shape.pad_width) {}

  /// Copies contiguous planes; `out` is zero at the borders.
  void copy(const float* in, int64_t planes, float* out) const {
    const int64_t whole = width / kLanes * kLanes;
    const Lanes rest = lanes(width - whole);
    for (int64_t plane = 0; plane < planes; ++plane) {
      float* to = out + plane * stride + first;
      for (int64_t row = 0; row < height; ++row, in += width, to += row_stride) {
        for (int64_t i = 0; i < whole; i += kLanes) store(to + i, load(in + i));
        store(to + whole, rest, load(in + whole, rest));
      }
    }
  }

  int64_t height;
  int64_t width;
  int64_t row_stride;
  int64_t first;   ///< Where element (0, 0) is.
  int64_t stride;  ///< From plane to plane.
};

/// offset[channel, y, x], from the first channel's plane on, of each tap of channels [begin, end)
/// that is not left out.
inline void fill_offsets(const ConvShape& shape, int64_t begin, int64_t end, int64_t plane_stride,
                         int64_t row_stride, int32_t* offset) {
  for (int64_t channel = begin; channel < end; ++channel) {
    for (int64_t y = 0; y < shape.kernel_height; ++y) {
      for (int64_t x = 0; x < shape.kernel_width; ++x) {
        if (!shape.has_tap(channel, y, x)) continue;
        *offset++ = static_cast<int32_t>((channel - begin) * plane_stride + y * row_stride + x);
      }
    }
  }
}

/// Memory that is needed next, fetched into the second-level cache a part at a time.
class PrefetchHint {
 public:
  /// Each call of fetch() takes one of `parts` parts.
  void start(const float* data, int64_t floats, int64_t parts) {
    next_ = data;
    end_ = data + floats;
    step_ = round_up((floats + parts - 1) / parts, kLine);
  }
  void fetch() {
    const float* const end = end_ - next_ > step_ ? next_ + step_ : end_;
    for (; next_ < end; next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const float* next_ = nullptr;
  const float* end_ = nullptr;
  int64_t step_ = 0;
};

/// dbias[width] (+)= the sums over `positions` rows of dy, in chains that are added in order.
inline void add_columns(const float* dy, int64_t positions, int64_t width, bool add_to,
                        float* dbias) {
  constexpr int64_t kRows = 32;
  for (int64_t v = 0; v < width; v += kLanes) {
    Vec sum = zero();
    for (int64_t begin = 0; begin < positions; begin += kRows) {
      Vec chain = zero();
      const int64_t end = std::min(positions, begin + kRows);
      for (int64_t i = begin; i < end; ++i) chain = add(chain, load_aligned(dy + i * width + v));
      sum = add(sum, chain);
    }
    store_aligned(dbias + v, add_to ? add(load_aligned(dbias + v), sum) : sum);
  }
}

/// `size` divided into as few parts of at most `most` as possible, as even as possible.
struct Parts {
  Parts(int64_t size, int64_t most) : size(size), count((size + most - 1) / most) {}
  int64_t begin(int64_t part) const { return size * part / count; }
  int64_t end(int64_t part) const { return begin(part + 1); }

  int64_t size;
  int64_t count;
};

}  // namespace
}  // namespace strata::kernels
