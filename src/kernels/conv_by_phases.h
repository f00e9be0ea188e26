#pragma once

#include <cstdint>

#include "kernels/conv_kernels.h"

namespace strata::kernels {

/// A convolution of stride 2 as one of stride 1: the four phases of the padded image (even and odd
/// rows and columns) become channels, and so do the kernel's. The kernels' odd ends are filled with
/// zeros, which most kernels leave out; in the input's gradient they are multiplied, so a NaN or an
/// infinity may reach elements that do not read it: the caller computes images that have one in
/// another way.
struct PhasedShape {
  int64_t images;
  int64_t in_channels;
  int64_t height;
  int64_t width;
  int64_t out_channels;
  int64_t kernel_height;
  int64_t kernel_width;
  int64_t pad_height;
  int64_t pad_width;

  int64_t out_height() const { return (height + 2 * pad_height - kernel_height) / 2 + 1; }
  int64_t out_width() const { return (width + 2 * pad_width - kernel_width) / 2 + 1; }
  /// Of one image's phases, with kernels of half the size, rounded up.
  ConvShape phases() const {
    const int64_t rows = (kernel_height + 1) / 2;
    const int64_t columns = (kernel_width + 1) / 2;
    return {4 * in_channels,
            out_height() + rows - 1,
            out_width() + columns - 1,
            out_channels,
            rows,
            columns,
            0,
            0,
            kernel_height,
            kernel_width};
  }
};

/// phases[images, 4 * in_channels, ...] of x[images, in_channels, height, width].
void split_phases(const PhasedShape& shape, const float* x, float* phases);
/// The way back, for gradients.
void join_phases(const PhasedShape& shape, const float* phases, float* x);
/// The kernels [out_channels, 4 * in_channels, rows, columns].
void split_kernels(const PhasedShape& shape, const float* w, float* phases);
void join_kernels(const PhasedShape& shape, const float* phases, float* w);

}  // namespace strata::kernels
