// Convolutions of stride 1 as matrix products without im2col. In a plane with borders, the inputs
// of output position p for one tap lie at p + (the tap's offset), for all p: the matrix of inputs
// has rows that are the plane itself, shifted. The last columns of a row belong to no output; they
// are computed and dropped.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/conv_kernels.h"
#include "kernels/conv_planes_avx512.h"

namespace strata::kernels {
namespace {

constexpr int64_t kTileRows = 6;     // output channels
constexpr int64_t kTileVectors = 4;  // of positions
/// What the input of a tile may take of the first-level cache. It decides the order of sums: the
/// bits.
constexpr int64_t kBlockFloats = 7 << 10;
/// Images whose inputs and outputs take so much together run through a block of weights together.
constexpr int64_t kGroupFloats = 96 << 10;

/// Where the 16 sums of a vector of positions go.
struct Outputs {
  int32_t position;  // of the first one that is an output
  uint16_t valid;
  uint16_t store;  // as many bits as `valid` has, from 0
};

struct Plan {
  explicit Plan(const ConvShape& shape)
      : planes(shape),
        blocks(shape.in_channels, block_channels(shape)),
        tiles(shape.out_channels, kTileRows),
        vectors((positions(shape) + kLanes - 1) / kLanes),
        columns(vectors, kTileVectors),
        group(std::max<int64_t>(
            1, kGroupFloats / (shape.in_channels * planes.stride +
                               shape.out_channels * shape.out_height() * shape.out_width()))) {}

  static int64_t positions(const ConvShape& shape) {
    return (shape.out_height() - 1) * (shape.width + shape.pad_width) + shape.out_width();
  }
  static int64_t block_channels(const ConvShape& shape) {
    const int64_t row = round_up(kTileVectors * kLanes + shape.kernel_width - 1, kLanes) + kLanes;
    const int64_t plane =
        std::min(shape.kernel_height * row,
                 (shape.height + 2 * shape.pad_height) * (shape.width + shape.pad_width));
    return std::clamp<int64_t>(kBlockFloats / plane, 1, shape.in_channels);
  }

  int64_t planes_floats(const ConvShape& shape, int64_t images) const {
    // Vectors run over the end of the last plane.
    return images * shape.in_channels * planes.stride + kTileVectors * kLanes;
  }
  int64_t largest_block() const { return (blocks.size + blocks.count - 1) / blocks.count; }

  Planes planes;
  Parts blocks;     // of input channels
  Parts tiles;      // of output channels
  int64_t vectors;  // of positions
  Parts columns;    // tiles of vectors
  int64_t group;
};

/// kRows channels of kVectors * 16 positions.
template <int kRows, int kVectors>
void tile(int64_t depth, const float* w, const float* x, const int32_t* offset, const float* bias,
          bool add, float* y, int64_t y_stride, const Outputs* outputs) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const __m512 start = bias != nullptr ? _mm512_set1_ps(bias[r]) : _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start;
  }
  for (int64_t i = 0; i < depth; ++i, w += kRows) {
    const float* const from = x + offset[i];
    __m512 b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = _mm512_loadu_ps(from + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 a = _mm512_set1_ps(w[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    float* const at = y + outputs[v].position;
    const __mmask16 valid = outputs[v].valid;
    const __mmask16 store = outputs[v].store;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      __m512 value = _mm512_maskz_compress_ps(valid, sum[r][v]);
      if (add) value = _mm512_add_ps(_mm512_maskz_loadu_ps(store, at + r * y_stride), value);
      _mm512_mask_storeu_ps(at + r * y_stride, store, value);
    }
  }
}

using Tile = void (*)(int64_t, const float*, const float*, const int32_t*, const float*, bool,
                      float*, int64_t, const Outputs*);

template <int kVectors>
constexpr Tile kTiles[kTileRows] = {tile<1, kVectors>, tile<2, kVectors>, tile<3, kVectors>,
                                    tile<4, kVectors>, tile<5, kVectors>, tile<6, kVectors>};

/// [vectors - 1][rows - 1]
constexpr const Tile* kTileTable[kTileVectors] = {kTiles<1>, kTiles<2>, kTiles<3>, kTiles<4>};

void fill_outputs(const ConvShape& shape, const Plan& plan, Outputs* outputs) {
  int32_t next = 0;
  for (int64_t v = 0; v < plan.vectors; ++v) {
    outputs[v] = {next, 0, 0};
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t position = v * kLanes + i;
      if (position / plan.planes.row_stride >= shape.out_height() ||
          position % plan.planes.row_stride >= shape.out_width())
        continue;
      outputs[v].store =
          static_cast<uint16_t>(outputs[v].store | 1u << (next - outputs[v].position));
      outputs[v].valid = static_cast<uint16_t>(outputs[v].valid | 1u << i);
      ++next;
    }
  }
}

}  // namespace

int64_t conv_packed_floats(const ConvShape& shape) { return shape.out_channels * shape.depth(); }

void conv_pack_weights_avx512(const ConvShape& shape, const ConvWeights& weights, float* packed) {
  const Plan plan(shape);
  const int64_t taps = shape.taps();
  const int64_t last = weights.flipped ? taps - 1 : 0;
  const int64_t step = weights.flipped ? -1 : 1;
  for (int64_t block = 0; block < plan.blocks.count; ++block) {
    for (int64_t part = 0; part < plan.tiles.count; ++part) {
      const int64_t row = plan.tiles.begin(part);
      const int64_t rows = plan.tiles.end(part) - row;
      for (int64_t in = plan.blocks.begin(block); in < plan.blocks.end(block); ++in) {
        const float* from = weights.data + row * weights.out_stride + in * weights.in_stride + last;
        for (int64_t tap = 0; tap < taps; ++tap, from += step, packed += rows) {
          for (int64_t r = 0; r < rows; ++r) packed[r] = from[r * weights.out_stride];
        }
      }
    }
  }
}

int64_t conv_scratch_floats(const ConvShape& shape) {
  const Plan plan(shape);
  return plan.planes_floats(shape, plan.group) +
         round_up(plan.largest_block() * shape.taps(), kLanes) + 2 * plan.vectors;
}

void conv_avx512(const ConvShape& shape, int64_t images, const float* x, const float* packed,
                 const float* bias, float* y, float* scratch) {
  const Plan plan(shape);
  const int64_t group = std::min(plan.group, images);
  const int64_t in_floats = shape.in_channels * shape.height * shape.width;
  const int64_t y_stride = shape.out_height() * shape.out_width();
  const int64_t image_floats = shape.in_channels * plan.planes.stride;
  auto* const offset = reinterpret_cast<int32_t*>(scratch + plan.planes_floats(shape, plan.group));
  auto* const outputs =
      reinterpret_cast<Outputs*>(offset + round_up(plan.largest_block() * shape.taps(), kLanes));
  static_assert(sizeof(Outputs) == 2 * sizeof(float));
  fill_offsets(shape, plan.largest_block(), plan.planes.stride, plan.planes.row_stride, offset);
  fill_outputs(shape, plan, outputs);
  std::memset(scratch, 0, static_cast<size_t>(plan.planes_floats(shape, group)) * sizeof(float));

  for (int64_t first = 0; first < images; first += group) {
    const int64_t end = std::min(images, first + group);
    plan.planes.copy(x + first * in_floats, (end - first) * shape.in_channels, scratch);
    for (int64_t block = 0; block < plan.blocks.count; ++block) {
      const int64_t begin = plan.blocks.begin(block);
      const int64_t depth = (plan.blocks.end(block) - begin) * shape.taps();
      const float* const block_weights = packed + begin * shape.taps() * shape.out_channels;
      for (int64_t image = first; image < end; ++image) {
        const float* const planes =
            scratch + (image - first) * image_floats + begin * plan.planes.stride;
        float* const out = y + image * shape.out_channels * y_stride;
        for (int64_t column = 0; column < plan.columns.count; ++column) {
          const int64_t vector = plan.columns.begin(column);
          const Tile* const by_rows = kTileTable[plan.columns.end(column) - vector - 1];
          for (int64_t part = 0; part < plan.tiles.count; ++part) {
            const int64_t row = plan.tiles.begin(part);
            by_rows[plan.tiles.end(part) - row - 1](
                depth, block_weights + row * depth, planes + vector * kLanes, offset,
                bias != nullptr && block == 0 ? bias + row : nullptr, block > 0,
                out + row * y_stride, y_stride, outputs + vector);
          }
        }
      }
    }
  }
}

}  // namespace strata::kernels
