#include "strata/keras/layers/histogram_equalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>

#include "keras/layers/image_draws.h"
#include "keras/layers/image_layer.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

constexpr int64_t kLevels = 256;

struct EqualizationArguments {
  EqualizationOptions options = {};
};
struct ClaheArguments {
  ContrastLimitedAdaptiveHistogramEqualizationOptions options = {};
};

template <typename Config, keras::OneOf<EqualizationArguments, ClaheArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  config("value_range", layer.options.value_range);
  if constexpr (requires { layer.options.bins; }) {
    config("bins", layer.options.bins);
  } else {
    config("clip_limit", layer.options.clip_limit);
    config("tile_grid_size", layer.options.tile_grid_size);
  }
  config("data_format", layer.options.data_format);
}

void check_range(const char* class_name, const ValueRange& range) {
  STRATA_CHECK(range.lower < range.upper, kInvalidArgument, "[layers] ", class_name,
               ": The `value_range` argument should be a list of two numbers. Received: "
               "value_range=",
               to_config(range).dump(), "; expected the smaller one first");
}

/// The numbers of each value in the last dimension, below `bins`.
at::Tensor counts_of(const at::Tensor& values, int64_t bins, at::ScalarType dtype) {
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes.back() = bins;
  return at::zeros(sizes, values.options().dtype(dtype))
      .scatter_add(-1, values, at::ones_like(values, values.options().dtype(dtype)));
}

class EqualizationImpl final : public ImageLayerImpl {
 public:
  explicit EqualizationImpl(const EqualizationArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), "Equalization",
                       arguments.options.data_format),
        arguments_(arguments) {
    ValueRange& range = arguments_.options.value_range;
    if (range.lower > range.upper) std::swap(range.lower, range.upper);
    check_range("Equalization", range);
    STRATA_CHECK(arguments.options.bins >= 2, kInvalidArgument,
                 "[layers] Equalization: got bins=", arguments.options.bins,
                 "; expected 2 or more");
  }
  std::string_view class_name() const override { return "Equalization"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor transform(const at::Tensor& x, bool training) override {
    const at::Tensor images = x.to(dtype().compute_dtype());
    if (!training || images.numel() == 0) return images;
    // By the channel first: `[channels, batch * height * width]`.
    const at::Tensor channels = images.transpose(0, 1);
    const at::Tensor equalized = equalize(channels.flatten(1));
    return equalized.view(channels.sizes()).transpose(0, 1).to(images.scalar_type());
  }

  at::Tensor equalize(const at::Tensor& channels) const {
    const ValueRange& range = arguments_.options.value_range;
    const int64_t bins = arguments_.options.bins;
    const auto last = static_cast<double>(bins - 1);
    const double scale = 255 / (range.upper - range.lower);
    const at::Tensor bytes = channels * scale - range.lower * scale;
    const at::Tensor counted = (bytes.to(at::kFloat) * last / 255).to(at::kLong).clamp(0, bins - 1);
    const at::Tensor histogram = counts_of(counted, bins, at::kLong);
    // The share of the pixels behind the darkest ones that are not brighter.
    const at::Tensor ranks = histogram.cumsum(1);
    const at::Tensor least =
        at::where(ranks > 0, ranks, ranks.select(1, -1).unsqueeze(1)).amin(1, /*keepdim=*/true);
    const at::Tensor others = (ranks.select(1, -1).unsqueeze(1) - least).clamp_min(1);
    const at::Tensor table =
        ((ranks - least) * 255).to(at::kDouble).div(others).round().clamp(0, 255);
    const at::Tensor places = (bytes / 255 * last).clamp(0, last).to(at::kLong);
    const at::Tensor spread = table.gather(1, places);
    const at::Tensor several = (histogram > 0).sum(1, /*keepdim=*/true) > 1;
    const at::Tensor result = at::where(several, spread, bytes.to(at::kDouble));
    return result * (1 / scale) + range.lower;
  }

  EqualizationArguments arguments_;
};

class ClaheImpl final : public ImageLayerImpl {
 public:
  explicit ClaheImpl(const ClaheArguments& arguments)
      : ImageLayerImpl(keras::base_options(arguments.options), kName,
                       arguments.options.data_format),
        arguments_(arguments) {
    const auto& options = arguments.options;
    check_range(kName, options.value_range);
    STRATA_CHECK(options.clip_limit >= 0, kInvalidArgument, "[layers] ", kName,
                 ": got clip_limit=", options.clip_limit, "; expected 0 (none) or more");
    STRATA_CHECK(options.tile_grid_size[0] > 0 && options.tile_grid_size[1] > 0, kInvalidArgument,
                 "[layers] ", kName, ": got tile_grid_size (", options.tile_grid_size[0], ", ",
                 options.tile_grid_size[1], "); expected 1 or more of each");
  }
  std::string_view class_name() const override { return kName; }

 private:
  static constexpr const char* kName = "ContrastLimitedAdaptiveHistogramEqualization";

  /// Tiles along a dimension.
  struct Tiling {
    int64_t count, size;
    int64_t padded() const { return count * size; }
  };
  static Tiling tiling(int64_t length, int64_t count) {
    return {count, (length + count - 1) / count};
  }

  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor transform(const at::Tensor& x, bool) override {
    const at::Tensor images = x.to(dtype().compute_dtype());
    if (images.numel() == 0) return images;
    const ValueRange& range = arguments_.options.value_range;
    const at::Tensor bytes = rescaled(images.to(at::kFloat), range, kBytes);
    return rescaled(spread(bytes), kBytes, range).to(images.scalar_type());
  }

  /// Mirrored behind its end, the last element first.
  static at::Tensor mirrored(const at::Tensor& x, int64_t dim, int64_t length) {
    const int64_t own = x.size(dim);
    if (own == length) return x;
    const at::Tensor place = at::arange(length, x.options().dtype(at::kLong)).remainder(2 * own);
    return x.index_select(dim, at::where(place < own, place, 2 * own - 1 - place));
  }

  /// What each level becomes in each tile: `[batch, rows, columns, channels, levels]`.
  at::Tensor tables_of(const at::Tensor& levels, const Tiling& rows, const Tiling& columns) const {
    const int64_t pixels = rows.size * columns.size;
    const at::Tensor tiles = levels
                                 .view({levels.size(0), levels.size(1), rows.count, rows.size,
                                        columns.count, columns.size})
                                 .permute({0, 2, 4, 1, 3, 5})
                                 .flatten(4);
    at::Tensor histogram = counts_of(tiles, kLevels, at::kFloat);
    if (arguments_.options.clip_limit > 0) {
      const double limit = arguments_.options.clip_limit * static_cast<double>(pixels) / kLevels;
      const at::Tensor clipped = histogram.clamp_max(limit);
      histogram = clipped + (histogram - clipped).sum(-1, /*keepdim=*/true) / kLevels;
    }
    const at::Tensor ranks = histogram.cumsum(-1);
    const at::Tensor least = ranks.amin(-1, /*keepdim=*/true);
    const at::Tensor others = static_cast<double>(pixels) - least;
    const at::Tensor divisor = at::where(others == 0, at::ones_like(others), others);
    return ((ranks - least) * 255 / divisor).clamp(0, 255);
  }

  /// Of each place along a dimension the tile before it and how far it is on the way from there to
  /// the next; tiles are those with a copy of the first and the last one around them.
  static std::pair<at::Tensor, at::Tensor> neighbours(const Tiling& tiles, const at::Tensor& like) {
    const auto size = static_cast<double>(tiles.size);
    const at::Tensor at = (at::arange(tiles.padded(), like.options()) - size / 2) / size + 1;
    const at::Tensor before = at.floor();
    return {before.to(at::kLong), at - before};
  }

  at::Tensor spread(const at::Tensor& bytes) const {
    const int64_t height = bytes.size(2), width = bytes.size(3), channels = bytes.size(1);
    const Tiling rows = tiling(height, arguments_.options.tile_grid_size[0]);
    const Tiling columns = tiling(width, arguments_.options.tile_grid_size[1]);
    const at::Tensor levels = mirrored(mirrored(bytes, 2, rows.padded()), 3, columns.padded())
                                  .to(at::kLong)
                                  .clamp(0, kLevels - 1)
                                  .contiguous();
    const auto around = [](const at::Tensor& x, int64_t dim) {
      return at::cat({x.narrow(dim, 0, 1), x, x.narrow(dim, x.size(dim) - 1, 1)}, dim);
    };
    const at::Tensor tables =
        around(around(tables_of(levels, rows, columns), 1), 2).contiguous().flatten();

    const auto [top, down] = neighbours(rows, bytes);
    const auto [left, right] = neighbours(columns, bytes);
    const at::Tensor whole = at::arange(bytes.size(0), levels.options()).view({-1, 1, 1, 1});
    const at::Tensor channel = at::arange(channels, levels.options()).view({-1, 1, 1});
    const auto value = [&](int64_t below, int64_t beside) {
      const at::Tensor row = (top + below).clamp(0, rows.count + 1).view({-1, 1});
      const at::Tensor column = (left + beside).clamp(0, columns.count + 1);
      const at::Tensor tile = (whole * (rows.count + 2) + row) * (columns.count + 2) + column;
      const at::Tensor place = (tile * channels + channel) * kLevels + levels;
      return tables.index_select(0, place.flatten()).view(levels.sizes());
    };
    const at::Tensor upper = value(0, 0) * (1 - right) + value(0, 1) * right;
    const at::Tensor lower = value(1, 0) * (1 - right) + value(1, 1) * right;
    const at::Tensor by = down.view({-1, 1});
    return (upper * (1 - by) + lower * by).narrow(2, 0, height).narrow(3, 0, width);
  }

  ClaheArguments arguments_;
};

}  // namespace

Equalization::Equalization(const EqualizationOptions& options)
    : Layer(std::make_shared<EqualizationImpl>(EqualizationArguments{options})) {}
ContrastLimitedAdaptiveHistogramEqualization::ContrastLimitedAdaptiveHistogramEqualization(
    const ContrastLimitedAdaptiveHistogramEqualizationOptions& options)
    : Layer(std::make_shared<ClaheImpl>(ClaheArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> histogram_equalization_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("Equalization", EqualizationImpl, EqualizationArguments),
          STRATA_LAYER_CLASS("ContrastLimitedAdaptiveHistogramEqualization", ClaheImpl,
                             ClaheArguments)};
}

}  // namespace strata::keras
