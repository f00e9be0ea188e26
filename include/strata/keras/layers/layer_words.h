#pragma once

#include "strata/core/one_of.h"

/// Options of several layers that are words. Each word is an enumerator, too (`Padding::kSame`).
/// Source: keras.layers 3.15.
namespace strata::layers {

struct PaddingWords {
  enum Word { kValid, kSame, kCausal };
  static constexpr const char* kOption = "padding";
  static constexpr const char* kWords[] = {"valid", "same", "causal"};
};
/// "causal" is for Conv1D alone.
using Padding = OneOf<PaddingWords>;

struct DataFormatWords {
  enum Word { kChannelsFirst, kChannelsLast };
  static constexpr const char* kOption = "data_format";
  static constexpr const char* kWords[] = {"channels_first", "channels_last"};
};
using DataFormat = OneOf<DataFormatWords>;

struct InterpolationWords {
  enum Word { kNearest, kBilinear, kBicubic, kLanczos3, kLanczos5 };
  static constexpr const char* kOption = "interpolation";
  static constexpr const char* kWords[] = {"nearest", "bilinear", "bicubic", "lanczos3",
                                           "lanczos5"};
};
/// The random layers support the first two.
using Interpolation = OneOf<InterpolationWords>;

struct FillModeWords {
  enum Word { kReflect, kWrap, kConstant, kNearest };
  static constexpr const char* kOption = "fill_mode";
  static constexpr const char* kWords[] = {"reflect", "wrap", "constant", "nearest"};
};
/// The values outside an image that was moved. Resizing supports "constant" alone.
using FillMode = OneOf<FillModeWords>;

}  // namespace strata::layers
