#include "kernels/conv_pointwise.h"

#include <algorithm>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/batch_norm_kernels.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/scratch.h"

namespace strata::kernels {

namespace {

const PointwiseKernels& pointwise_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), conv_pointwise_kernels);
}

/// Planes below this size leave vectors half empty; several images' become one matrix then.
constexpr int64_t kSmallPlane = 128;
constexpr int64_t kColumns = 784;

/// Images whose pixels are the columns of one matrix. Follows from the shape alone.
int64_t group_of(const PointwiseShape& shape) {
  const int64_t pixels = shape.grid.pixels();
  return pixels >= kSmallPlane ? 1
                               : std::min(shape.images, std::max<int64_t>(1, kColumns / pixels));
}

bool strided(const PixelGrid& grid) { return grid.stride_height > 1 || grid.stride_width > 1; }

/// Pixels of images as columns: in place where they lie so, else in memory of its own.
class Columns {
 public:
  Columns(const PixelGrid& grid, int64_t channels, int64_t group)
      : grid_(grid),
        channels_(channels),
        copied_(group > 1 || strided(grid)),
        memory_(copied_ ? channels * group * grid.pixels() : 0) {}

  bool copied() const { return copied_; }
  float* memory() const { return memory_.data(); }
  /// Of images `first`, ... of `all`.
  MatrixView view(const float* all, int64_t first, int64_t count) const {
    const float* const from = all + first * channels_ * grid_.plane();
    if (!copied_) return {from, grid_.pixels(), 1};
    pointwise_kernels().gather_pixels(grid_, count, channels_, from, memory());
    return {memory(), count * grid_.pixels(), 1};
  }
  void put_back(float* all, int64_t first, int64_t count) const {
    pointwise_kernels().scatter_pixels(grid_, count, channels_, memory(),
                                       all + first * channels_ * grid_.plane());
  }

 private:
  PixelGrid grid_;
  int64_t channels_;
  bool copied_;
  Scratch memory_;
};

/// out[out_channels, pixels] = w in, image by image.
void multiply_images(const PointwiseShape& shape, int64_t in_channels, const PixelGrid& in_grid,
                     const float* in, const float* w, const float* row_bias, int64_t out_channels,
                     const PixelGrid& out_grid, float* out) {
  const int64_t group = group_of(shape);
  const int64_t groups = (shape.images + group - 1) / group;
  const int64_t work = group * shape.grid.pixels() * in_channels * out_channels;
  parallel_for(0, groups, std::max<int64_t>(1, kPartMultiplications / work),
               [&](int64_t begin, int64_t end) {
                 const Columns from(in_grid, in_channels, group);
                 const Columns to(out_grid, out_channels, group);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i * group;
                   const int64_t count = std::min(group, shape.images - first);
                   const int64_t columns = count * shape.grid.pixels();
                   multiply_dense_here(
                       {.m = out_channels,
                        .n = columns,
                        .k = in_channels,
                        .a = {w, in_channels, 1},
                        .b = from.view(in, first, count),
                        .bias = nullptr,
                        .c = to.copied() ? to.memory() : out + first * out_channels * columns,
                        .c_stride = columns,
                        .row_bias = row_bias});
                   if (to.copied()) to.put_back(out, first, count);
                 }
               });
}

/// The grid's pixels as a plane of their own.
PixelGrid dense(const PixelGrid& grid) { return {grid.out_height(), grid.out_width(), 1, 1}; }

}  // namespace

void pointwise_forward(const PointwiseShape& shape, const float* x, const float* w,
                       const float* bias, float* y) {
  multiply_images(shape, shape.in_channels, shape.grid, x, w, bias, shape.out_channels,
                  dense(shape.grid), y);
}

void pointwise_input_gradient(const PointwiseShape& shape, const float* dy, const float* w,
                              float* dx) {
  const Scratch transposed(shape.in_channels * shape.out_channels);
  pointwise_kernels().transpose(w, shape.out_channels, shape.in_channels, transposed.data());
  multiply_images(shape, shape.out_channels, dense(shape.grid), dy, transposed.data(), nullptr,
                  shape.in_channels, shape.grid, dx);
}

void pointwise_weights_gradient(const PointwiseShape& shape, const float* x, const float* dy,
                                float* dw, float* dbias) {
  // The side with fewer channels is packed, by columns; the other one is read in place.
  const bool swapped = shape.out_channels < shape.in_channels;
  const int64_t rows = swapped ? shape.in_channels : shape.out_channels;
  const int64_t columns = swapped ? shape.out_channels : shape.in_channels;
  const Scratch turned(swapped ? rows * columns : 0);
  float* const to = swapped ? turned.data() : dw;
  std::vector<double> sums(dbias != nullptr ? static_cast<size_t>(shape.out_channels) : 0);

  const int64_t group = group_of(shape);
  const PixelGrid small = dense(shape.grid);
  constexpr int64_t kPart = 96;  // rows; any division gives the same bits
  // Pixels that are summed in one chain: longer ones round worse than libtorch's.
  constexpr int64_t kChain = 48;
  const int64_t parts = (rows + kPart - 1) / kPart;
  const Columns x_columns(shape.grid, shape.in_channels, group);
  const Columns dy_columns(small, shape.out_channels, group);
  for (int64_t first = 0; first < shape.images; first += group) {
    const int64_t count = std::min(group, shape.images - first);
    const int64_t k = count * small.pixels();
    const MatrixView x_view = x_columns.view(x, first, count);
    const MatrixView dy_view = dy_columns.view(dy, first, count);
    const MatrixView& a = swapped ? x_view : dy_view;
    const MatrixView& b = swapped ? dy_view : x_view;
    const int64_t grain = std::max<int64_t>(1, kPartMultiplications / (kPart * columns * k));
    parallel_for(0, parts, grain, [&](int64_t begin, int64_t end) {
      const int64_t row = begin * kPart;
      multiply_dense_here({.m = std::min(rows, end * kPart) - row,
                           .n = columns,
                           .k = k,
                           .a = {a.data + row * a.row_stride, a.row_stride, 1},
                           .b = {b.data, 1, b.row_stride},
                           .bias = nullptr,
                           .c = to + row * columns,
                           .c_stride = columns,
                           .add = first > 0,
                           .max_block = kChain});
    });
    if (dbias != nullptr) {
      batch_norm_kernels().add_row_sums(dy_view.data, shape.out_channels, k, sums.data());
    }
  }
  if (swapped) pointwise_kernels().transpose(to, rows, columns, dw);
  for (size_t c = 0; c < sums.size(); ++c) dbias[c] = static_cast<float>(sums[c]);
}

}  // namespace strata::kernels
