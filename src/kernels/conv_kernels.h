#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Plain data only; see matmul_kernels.h.

namespace strata::kernels {

/// A convolution of stride 1, as libtorch defines it (a correlation), over contiguous images
/// [channels, height, width]. Sizes are positive; pad_width < kernel_width and pad_height <
/// kernel_height.
struct ConvShape {
  int64_t in_channels;
  int64_t height;
  int64_t width;
  int64_t out_channels;
  int64_t kernel_height;
  int64_t kernel_width;
  int64_t pad_height;
  int64_t pad_width;
  /// Where channels are phases (conv_by_phases.h) the size of the whole kernel: what a phase lacks of
  /// it is zeros, and is left out. 0: nothing is.
  int64_t whole_height = 0;
  int64_t whole_width = 0;

  int64_t out_height() const { return height + 2 * pad_height - kernel_height + 1; }
  int64_t out_width() const { return width + 2 * pad_width - kernel_width + 1; }
  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t depth() const { return in_channels * taps(); }
  bool has_tap(int64_t channel, int64_t y, int64_t x) const {
    return whole_height == 0 ||
           (2 * y + channel % 4 / 2 < whole_height && 2 * x + channel % 2 < whole_width);
  }
  /// Of input channels [begin, end), those that are not left out.
  int64_t depth_of(int64_t begin, int64_t end) const {
    if (whole_height == 0) return (end - begin) * taps();
    int64_t found = 0;
    for (int64_t channel = begin; channel < end; ++channel) {
      const int64_t rows = (whole_height + 1 - channel % 4 / 2) / 2;
      found += rows * ((whole_width + 1 - channel % 2) / 2);
    }
    return found;
  }

  /// The convolution of the output's gradient, with flipped kernels, that gives the input's.
  ConvShape backward() const {
    return {out_channels,
            out_height(),
            out_width(),
            in_channels,
            kernel_height,
            kernel_width,
            kernel_height - 1 - pad_height,
            kernel_width - 1 - pad_width};
  }
};

/// Weights [out_channels, in_channels, taps] with these strides; `flipped` counts taps from the
/// last.
struct ConvWeights {
  const float* data;
  int64_t out_stride;
  int64_t in_stride;
  bool flipped;
};

/// y[images, out_channels, out_height, out_width] = convolution of x[images, in_channels, height,
/// width] (+ bias[out_channels], unless null). An image's bits depend on that image, the weights
/// and the shape alone, and not on the instruction set.
struct ConvImagesKernel {
  /// Floats that `pack` writes: one packing serves all images and threads.
  int64_t (*packed_floats)(const ConvShape& shape);
  void (*pack)(const ConvShape& shape, const ConvWeights& weights, float* packed);
  /// Floats of scratch memory (aligned to 64 bytes, as `packed` is) for `run`.
  int64_t (*scratch_floats)(const ConvShape& shape);
  void (*run)(const ConvShape& shape, int64_t images, const float* x, const float* packed,
              const float* bias, float* y, float* scratch);
};

/// Output channels whose gradient is computed at a time.
inline constexpr int64_t kConvPanel = 64;

/// A part of the weights' gradient: one panel of output channels (from a multiple of kConvPanel
/// on), some input channels. Parts are independent, and any division into parts gives the same
/// bits.
struct ConvPart {
  int64_t out_begin;
  int64_t in_begin;
  int64_t in_end;
};

/// dw[out_channels, in_channels, taps] of `part`, for dy[images, out_channels, out_height,
/// out_width]; with in_begin 0 also dbias[out_channels] of the panel, unless null. The sum over
/// images is in their order.
struct ConvWeightsKernel {
  int64_t (*scratch_floats)(const ConvShape& shape, const ConvPart& part);
  void (*run)(const ConvShape& shape, const ConvPart& part, int64_t images, const float* x,
              const float* dy, float* dw, float* dbias, float* scratch);
};

/// Two ways to compute the same: Winograd's is for kernels of 3 x 3, with fewer multiplications and
/// somewhat larger rounding errors.
struct ConvKernels {
  const ConvImagesKernel& images;
  const ConvImagesKernel& winograd_images;
  const ConvWeightsKernel& weights;
  const ConvWeightsKernel& winograd_weights;
};
ConvKernels conv_kernels(CpuIsa isa);  // in convolution.cc

const ConvImagesKernel& conv_images_baseline();
const ConvImagesKernel& conv_images_avx2();
const ConvImagesKernel& conv_images_avx512();
const ConvImagesKernel& conv_winograd_images_baseline();
const ConvImagesKernel& conv_winograd_images_avx2();
const ConvImagesKernel& conv_winograd_images_avx512();
const ConvWeightsKernel& conv_weights_baseline();
const ConvWeightsKernel& conv_weights_avx2();
const ConvWeightsKernel& conv_weights_avx512();
const ConvWeightsKernel& conv_winograd_weights_baseline();
const ConvWeightsKernel& conv_winograd_weights_avx2();
const ConvWeightsKernel& conv_winograd_weights_avx512();

}  // namespace strata::kernels
