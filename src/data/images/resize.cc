#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/bytes.h"
#include "data/images/image_check.h"
#include "data/images/resize_kernels.h"
#include "strata/data/image_ops.h"

namespace strata::data {
namespace {

using detail::ImageSizes;
using detail::Spans;

double scale_of(int64_t from, int64_t to) {
  return static_cast<double>(from) / static_cast<double>(to);
}

// TensorFlow computes these in float32; so its pixels are got only in float32.
float source_place(int64_t i, float scale) { return (static_cast<float>(i) + 0.5F) * scale - 0.5F; }

float float_scale(int64_t from, int64_t to) {
  return static_cast<float>(from) / static_cast<float>(to);
}

// Two neighbours each.
std::vector<detail::Lerp> lerps(int64_t from, int64_t to, int64_t step) {
  std::vector<detail::Lerp> all(static_cast<size_t>(to));
  const float scale = float_scale(from, to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = source_place(i, scale);
    const float below = std::floor(place);
    const auto low = std::max<int64_t>(static_cast<int64_t>(below), 0);
    const auto high = std::min<int64_t>(static_cast<int64_t>(std::ceil(place)), from - 1);
    all[static_cast<size_t>(i)] = {static_cast<int32_t>(std::min(low, from - 1) * step),
                                   static_cast<int32_t>(std::max<int64_t>(high, 0) * step),
                                   place - below};
  }
  return all;
}

// A triangle as wide as the reduction.
Spans triangle_spans(int64_t from, int64_t to) {
  Spans spans;
  const double scale = scale_of(from, to);
  const double radius = std::max(scale, 1.0);
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(std::ceil(center - radius - 0.5)), 0);
    const auto last =
        std::min<int64_t>(static_cast<int64_t>(std::floor(center + radius - 0.5)), from - 1);
    std::vector<double> weights;
    for (int64_t s = first; s <= last; ++s)
      weights.push_back(
          std::max(0.0, 1 - std::abs((static_cast<double>(s) + 0.5 - center) / radius)));
    spans.add(first, weights);
  }
  return spans;
}

/// Keys's cubic convolution, a = -1/2.
double keys_cubic(double distance) {
  const double x = std::abs(distance);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return 0;
}

/// As wide as the reduction.
Spans wide_cubic_spans(int64_t from, int64_t to) {
  Spans spans;
  const double scale = scale_of(from, to);
  const double wide = std::max(scale, 1.0);
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::max<int64_t>(static_cast<int64_t>(std::ceil(center - 2 * wide - 0.5)), 0);
    const auto last =
        std::min<int64_t>(static_cast<int64_t>(std::floor(center + 2 * wide - 0.5)), from - 1);
    std::vector<double> weights;
    for (int64_t s = first; s <= last; ++s) {
      weights.push_back(keys_cubic((static_cast<double>(s) + 0.5 - center) / wide));
    }
    spans.add(first, weights);
  }
  return spans;
}

/// Of four neighbours. TensorFlow takes the weights from a table of 1024 places between two pixels.
Spans cubic_spans(int64_t from, int64_t to) {
  constexpr double kPlaces = 1024;
  Spans spans;
  const float scale = float_scale(from, to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = source_place(i, scale);
    const auto below = static_cast<int64_t>(std::floor(place));
    const double part = std::round((place - static_cast<float>(below)) * kPlaces) / kPlaces;
    const int64_t first = std::clamp<int64_t>(below - 1, 0, from - 1);
    const int64_t last = std::clamp<int64_t>(below + 2, 0, from - 1);
    std::vector<double> weights;
    for (int64_t s = first; s <= last; ++s) {
      weights.push_back(keys_cubic(static_cast<double>(s - below) - part));
    }
    spans.add(first, weights);
  }
  return spans;
}

// What lies beneath, with the part of each.
Spans area_spans(int64_t from, int64_t to) {
  Spans spans;
  const double scale = scale_of(from, to);
  for (int64_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * scale;
    const double end = std::min(static_cast<double>(i + 1) * scale, static_cast<double>(from));
    const auto first = static_cast<int64_t>(std::floor(begin));
    std::vector<double> weights;
    for (int64_t s = first; s < from && static_cast<double>(s) < end; ++s)
      weights.push_back(std::min(end, static_cast<double>(s + 1)) -
                        std::max(begin, static_cast<double>(s)));
    spans.add(first, weights);
  }
  return spans;
}

std::vector<int64_t> nearest_places(int64_t from, int64_t to) {
  std::vector<int64_t> places(static_cast<size_t>(to));
  const float scale = float_scale(from, to);
  for (int64_t i = 0; i < to; ++i)
    places[static_cast<size_t>(i)] = std::clamp<int64_t>(
        static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5F) * scale)), 0, from - 1);
  return places;
}

// One image: rows that are `row_stride` values apart, pixels dense.
template <class T>
struct Plane {
  const T* data;
  int64_t row_stride;
};

template <class T>
void resize_nearest(Plane<T> from, const ImageSizes& sizes, int64_t height, int64_t width, T* out) {
  const auto rows = nearest_places(sizes.height, height);
  const auto columns = nearest_places(sizes.width, width);
  const auto channels = static_cast<size_t>(sizes.channels);
  for (const int64_t row : rows) {
    const T* line = from.data + row * from.row_stride;
    for (const int64_t column : columns) {
      std::memcpy(out, line + column * sizes.channels, channels * sizeof(T));
      out += channels;
    }
  }
}

// To fewer columns: between two whole source rows first, since that is a plain loop over values.
template <class T>
void resize_bilinear_narrower(Plane<T> from, const ImageSizes& sizes, int64_t height, int64_t width,
                              float* out) {
  const auto columns = lerps(sizes.width, width, sizes.channels);
  std::vector<float> between(static_cast<size_t>(sizes.width * sizes.channels));
  for (const detail::Lerp& row : lerps(sizes.height, height, 1)) {
    detail::lerp_rows(from.data + row.low * from.row_stride, from.data + row.high * from.row_stride,
                      row.part, between.size(), between.data());
    detail::lerp_columns(between.data(), columns, sizes.channels, out);
    out += width * sizes.channels;
  }
}

template <class T>
void resize_bilinear(Plane<T> from, const ImageSizes& sizes, int64_t height, int64_t width,
                     float* out) {
  if (width < sizes.width) return resize_bilinear_narrower(from, sizes, height, width, out);
  const auto rows = lerps(sizes.height, height, 1);
  const auto columns = lerps(sizes.width, width, sizes.channels);
  const auto values = static_cast<size_t>(width * sizes.channels);
  // The two source rows in use, resized sideways. Neighbouring output rows share them.
  std::vector<float> lines(2 * values);
  float* line[2] = {lines.data(), lines.data() + values};
  int64_t held[2] = {-1, -1};
  const auto load = [&](int slot, int64_t row) {
    detail::lerp_columns(from.data + row * from.row_stride, columns, sizes.channels, line[slot]);
    held[slot] = row;
  };
  for (const detail::Lerp& row : rows) {
    if (held[0] != row.low && held[1] == row.low) {
      std::swap(held[0], held[1]);
      std::swap(line[0], line[1]);
    }
    if (held[0] != row.low) load(0, row.low);
    if (row.high != row.low && held[1] != row.high) load(1, row.high);
    const float* const second = row.high == row.low ? line[0] : line[1];
    detail::lerp_rows(line[0], second, row.part, values, out);
    out += values;
  }
}

template <class T>
void resize_weighted(Plane<T> from, const ImageSizes& sizes, int64_t height, int64_t width,
                     const Spans& rows, const Spans& columns, float* out) {
  const auto values = static_cast<size_t>(width * sizes.channels);
  // Every source row once, sideways; then sums of rows.
  std::vector<float> lines(static_cast<size_t>(sizes.height) * values);
  for (int64_t r = 0; r < sizes.height; ++r)
    detail::weigh_columns(from.data + r * from.row_stride, columns, sizes.channels,
                          lines.data() + static_cast<size_t>(r) * values);
  for (int64_t r = 0; r < height; ++r, out += values)
    detail::weigh_rows(lines.data(), rows, static_cast<size_t>(r), values, out);
}

template <class T>
void resize_one(Plane<T> from, const ImageSizes& sizes, int64_t height, int64_t width,
                const ResizeOptions& options, void* out) {
  auto* floats = static_cast<float*>(out);
  switch (options.method) {
    case ResizeMethod::kNearest:
      resize_nearest(from, sizes, height, width, static_cast<T*>(out));
      return;
    case ResizeMethod::kArea:
      resize_weighted(from, sizes, height, width, area_spans(sizes.height, height),
                      area_spans(sizes.width, width), floats);
      return;
    case ResizeMethod::kBicubic: {
      const auto spans = options.antialias ? wide_cubic_spans : cubic_spans;
      resize_weighted(from, sizes, height, width, spans(sizes.height, height),
                      spans(sizes.width, width), floats);
      return;
    }
    case ResizeMethod::kBilinear:
      if (!options.antialias) {
        resize_bilinear(from, sizes, height, width, floats);
        return;
      }
      resize_weighted(from, sizes, height, width, triangle_spans(sizes.height, height),
                      triangle_spans(sizes.width, width), floats);
  }
}

}  // namespace

at::Tensor resize(const at::Tensor& image, int64_t height, int64_t width,
                  const ResizeOptions& options) {
  const ImageSizes sizes = detail::check_image("resize", image);
  STRATA_CHECK(height > 0 && width > 0, kInvalidArgument, "[data] resize: got ", height, " x ",
               width, "; expected at least 1 x 1");
  // A crop is a view whose rows are dense: it needs no copy.
  const bool dense_rows =
      image.stride(-1) == 1 && image.stride(-2) == sizes.channels && image.stride(-3) > 0;
  const at::Tensor source = dense_rows ? image : image.contiguous();
  const bool to_float = options.method != ResizeMethod::kNearest;
  std::vector<int64_t> out_sizes = source.sizes().vec();
  out_sizes[out_sizes.size() - 3] = height;
  out_sizes[out_sizes.size() - 2] = width;
  at::Tensor out = detail::empty_tensor(out_sizes, to_float ? at::kFloat : source.scalar_type());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const size_t out_bytes = out.nbytes() / static_cast<size_t>(sizes.count);
  const int64_t image_stride = source.dim() == 4 ? source.stride(0) : 0;
  for (int64_t n = 0; n < sizes.count; ++n, to += out_bytes) {
    if (source.scalar_type() == at::kByte) {
      const auto* data = static_cast<const uint8_t*>(source.const_data_ptr()) + n * image_stride;
      resize_one<uint8_t>({data, source.stride(-3)}, sizes, height, width, options, to);
    } else {
      const auto* data = static_cast<const float*>(source.const_data_ptr()) + n * image_stride;
      resize_one<float>({data, source.stride(-3)}, sizes, height, width, options, to);
    }
  }
  return out;
}

}  // namespace strata::data
