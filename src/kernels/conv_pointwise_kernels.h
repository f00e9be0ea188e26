#pragma once

#include <cstdint>

// Plain data only; see matmul_kernels.h.

namespace strata::kernels {

/// Every stride-th pixel of planes [height, width], from the first on.
struct PixelGrid {
  int64_t height;
  int64_t width;
  int64_t stride_height;
  int64_t stride_width;

  int64_t out_height() const { return (height - 1) / stride_height + 1; }
  int64_t out_width() const { return (width - 1) / stride_width + 1; }
  int64_t plane() const { return height * width; }
  int64_t pixels() const { return out_height() * out_width(); }
};

struct PointwiseKernels {
  /// out[channels, images * pixels] = the grid's pixels of x[images, channels, height, width].
  void (*gather_pixels)(const PixelGrid& grid, int64_t images, int64_t channels, const float* x,
                        float* out);
  /// The way back; pixels beside the grid become 0.
  void (*scatter_pixels)(const PixelGrid& grid, int64_t images, int64_t channels, const float* from,
                         float* x);
  /// out[columns, rows] = in[rows, columns]
  void (*transpose)(const float* in, int64_t rows, int64_t columns, float* out);
};

const PointwiseKernels& conv_pointwise_kernels_baseline();
const PointwiseKernels& conv_pointwise_kernels_avx2();
const PointwiseKernels& conv_pointwise_kernels_avx512();

}  // namespace strata::kernels
