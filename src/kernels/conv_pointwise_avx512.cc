// What convolutions with kernels of 1 x 1 need beside matrix products: pixels as columns.
#include <immintrin.h>

#include <cstring>

#include "kernels/conv_pointwise_kernels.h"
#include "kernels/transpose_avx512.h"

namespace strata::kernels {
namespace {

void every_second(const float* from, int64_t count, float* to) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  int64_t i = 0;
  for (; i + kLanes < count; i += kLanes) {  // the row's last float may be the memory's
    _mm512_storeu_ps(to + i, _mm512_permutex2var_ps(_mm512_loadu_ps(from + 2 * i), even,
                                                    _mm512_loadu_ps(from + 2 * i + kLanes)));
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

/// `width` floats: from[0], 0, from[1], 0, ...
void spread_by_two(const float* from, int64_t count, int64_t width, float* to) {
  const __m512i index = _mm512_setr_epi32(0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0);
  int64_t i = 0;
  for (; 2 * i + kLanes <= width && i + kLanes / 2 <= count; i += kLanes / 2) {
    const __m512 values = _mm512_maskz_loadu_ps(0x00ff, from + i);
    _mm512_storeu_ps(to + 2 * i, _mm512_maskz_permutexvar_ps(0x5555, index, values));
  }
  for (int64_t at = 2 * i; at < width; ++at) to[at] = at % 2 == 0 ? from[at / 2] : 0;
}

void copy(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

void gather_pixels_avx512(const PixelGrid& grid, int64_t images, int64_t channels, const float* x,
                          float* out) {
  const int64_t rows = grid.out_height();
  const int64_t columns = grid.out_width();
  const bool whole = grid.stride_height == 1 && grid.stride_width == 1;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t n = 0; n < images; ++n, out += rows * columns) {
      const float* from = x + (n * channels + c) * grid.plane();
      if (whole) {
        copy(from, rows * columns, out);
        continue;
      }
      for (int64_t row = 0; row < rows; ++row, from += grid.stride_height * grid.width) {
        float* const to = out + row * columns;
        if (grid.stride_width == 1) {
          copy(from, columns, to);
        } else if (grid.stride_width == 2) {
          every_second(from, columns, to);
        } else {
          for (int64_t i = 0; i < columns; ++i) to[i] = from[i * grid.stride_width];
        }
      }
    }
  }
}

void scatter_pixels_avx512(const PixelGrid& grid, int64_t images, int64_t channels,
                           const float* from, float* x) {
  const int64_t rows = grid.out_height();
  const int64_t columns = grid.out_width();
  const bool whole = grid.stride_height == 1 && grid.stride_width == 1;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t n = 0; n < images; ++n, from += rows * columns) {
      float* to = x + (n * channels + c) * grid.plane();
      if (whole) {
        copy(from, rows * columns, to);
        continue;
      }
      for (int64_t y = 0; y < grid.height; ++y, to += grid.width) {
        const float* const row = from + y / grid.stride_height * columns;
        if (y % grid.stride_height != 0) {
          std::memset(to, 0, static_cast<size_t>(grid.width) * sizeof(float));
        } else if (grid.stride_width == 1) {
          copy(row, columns, to);
        } else if (grid.stride_width == 2) {
          spread_by_two(row, columns, grid.width, to);
        } else {
          for (int64_t i = 0; i < grid.width; ++i) {
            to[i] = i % grid.stride_width == 0 ? row[i / grid.stride_width] : 0;
          }
        }
      }
    }
  }
}

void transpose_avx512(const float* in, int64_t rows, int64_t columns, float* out) {
  transpose<false>(in, columns, rows, columns, out, rows);
}

}  // namespace strata::kernels
