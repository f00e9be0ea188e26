#include "kernels/conv_by_phases.h"

#include <algorithm>

#include "kernels/kernel_threads.h"

namespace strata::kernels {
namespace {

/// Calls part(plane) for planes of `floats` each.
template <typename Part>
void for_planes(int64_t planes, int64_t floats, const Part& part) {
  parallel_for(0, planes, std::max<int64_t>(1, (1 << 15) / floats),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) part(i);
               });
}

/// Columns [begin, end) of a phase are inside the image.
struct PhaseRow {
  int64_t begin;
  int64_t end;
};
PhaseRow inside(int64_t size, int64_t phase_size, int64_t pad, int64_t odd) {
  // Column i of the phase is column 2 i + odd - pad of the image.
  const int64_t begin = std::max<int64_t>(0, (pad - odd + 1) / 2);
  const int64_t end = std::min(phase_size, (size - 1 - odd + pad) / 2 + 1);
  return {std::min(begin, phase_size), std::max(std::min(begin, phase_size), end)};
}

}  // namespace

void split_phases(const PhasedShape& shape, const float* x, float* phases) {
  const ConvShape phased = shape.phases();
  const int64_t plane = phased.height * phased.width;
  for_planes(shape.images * shape.in_channels * 4, plane, [&](int64_t i) {
    const int64_t odd_row = i % 4 / 2;
    const int64_t odd_column = i % 2;
    const float* const from = x + i / 4 * shape.height * shape.width;
    float* to = phases + i * plane;
    const PhaseRow columns = inside(shape.width, phased.width, shape.pad_width, odd_column);
    for (int64_t r = 0; r < phased.height; ++r, to += phased.width) {
      const int64_t row = 2 * r + odd_row - shape.pad_height;
      if (row < 0 || row >= shape.height) {
        std::fill_n(to, phased.width, 0.0F);
        continue;
      }
      const float* const in = from + row * shape.width + odd_column - shape.pad_width;
      std::fill_n(to, columns.begin, 0.0F);
      for (int64_t c = columns.begin; c < columns.end; ++c) to[c] = in[2 * c];
      std::fill(to + columns.end, to + phased.width, 0.0F);
    }
  });
}

void join_phases(const PhasedShape& shape, const float* phases, float* x) {
  const ConvShape phased = shape.phases();
  const int64_t plane = phased.height * phased.width;
  for_planes(shape.images * shape.in_channels, shape.height * shape.width, [&](int64_t i) {
    float* to = x + i * shape.height * shape.width;
    for (int64_t row = 0; row < shape.height; ++row, to += shape.width) {
      const int64_t r = row + shape.pad_height;
      for (int64_t column = 0; column < shape.width; ++column) {
        const int64_t c = column + shape.pad_width;
        const bool read = r / 2 < phased.height && c / 2 < phased.width;
        const int64_t phase = 4 * i + r % 2 * 2 + c % 2;
        to[column] = read ? phases[phase * plane + r / 2 * phased.width + c / 2] : 0;
      }
    }
  });
}

namespace {

/// Calls each(index in the kernels, index in the split ones).
template <typename Each>
void for_taps(const PhasedShape& shape, const Each& each) {
  const ConvShape phased = shape.phases();
  const int64_t taps = phased.taps();
  int64_t at = 0;
  for (int64_t i = 0; i < shape.out_channels * shape.in_channels; ++i) {
    for (int64_t row = 0; row < shape.kernel_height; ++row) {
      for (int64_t column = 0; column < shape.kernel_width; ++column) {
        const int64_t phase = 4 * i + row % 2 * 2 + column % 2;
        each(at++, phase * taps + row / 2 * phased.kernel_width + column / 2);
      }
    }
  }
}

}  // namespace

void split_kernels(const PhasedShape& shape, const float* w, float* phases) {
  const ConvShape phased = shape.phases();
  std::fill_n(phases, phased.out_channels * phased.depth(), 0.0F);
  for_taps(shape, [&](int64_t whole, int64_t split) { phases[split] = w[whole]; });
}

void join_kernels(const PhasedShape& shape, const float* phases, float* w) {
  for_taps(shape, [&](int64_t whole, int64_t split) { w[whole] = phases[split]; });
}

}  // namespace strata::kernels
