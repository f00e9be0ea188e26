#pragma once

#include <cstdint>

#include "kernels/conv_pointwise_kernels.h"

namespace strata::kernels {

/// A convolution with a kernel of 1 x 1, over contiguous images: matrix products with pixels as
/// columns. An image's bits do not depend on the rest of the batch, and none on threads.
struct PointwiseShape {
  int64_t images;
  int64_t in_channels;
  int64_t out_channels;
  PixelGrid grid;
};

/// y[images, out_channels, out_height, out_width]; w[out_channels, in_channels]; bias or null.
void pointwise_forward(const PointwiseShape& shape, const float* x, const float* w,
                       const float* bias, float* y);
void pointwise_input_gradient(const PointwiseShape& shape, const float* dy, const float* w,
                              float* dx);
/// @param dbias  Or null.
void pointwise_weights_gradient(const PointwiseShape& shape, const float* x, const float* dy,
                                float* dw, float* dbias);

}  // namespace strata::kernels
