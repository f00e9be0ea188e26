#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layers/image_preprocessing.h"

/// Layers that spread the values of pixels over the whole range.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct EqualizationOptions {
  ValueRange value_range = {};
  int64_t bins = 256;  ///< Of the histogram.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Spreads each channel by its histogram, in training, as Keras's does. A batch (of a replica) has
/// one histogram a channel. A channel of one value stays as it is.
class STRATA_API Equalization : public keras::Layer {
 public:
  /// @throws Error kInvalidArgument: fewer than 2 bins, or an empty range.
  explicit Equalization(const EqualizationOptions& options = {});
};

struct ContrastLimitedAdaptiveHistogramEqualizationOptions {
  ValueRange value_range = {};
  double clip_limit = 4;               ///< Of a bin, in mean bins; 0: none.
  keras::Sizes<2> tile_grid_size = 8;  ///< So many tiles, of height and of width.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// CLAHE: spreads the pixels of each tile by its histogram, and mixes those of neighbours; at
/// inference, too. Source: Zuiderveld 1994.
class STRATA_API ContrastLimitedAdaptiveHistogramEqualization : public keras::Layer {
 public:
  /// @throws Error kInvalidArgument: an empty range, no tiles, a negative limit.
  explicit ContrastLimitedAdaptiveHistogramEqualization(
      const ContrastLimitedAdaptiveHistogramEqualizationOptions& options = {});
};

}  // namespace strata::layers
