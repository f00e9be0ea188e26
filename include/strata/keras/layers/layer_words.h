#pragma once

#include "strata/core/one_of.h"

/// The words that several layers take as options: each also as an enumerator (`Padding::kSame`).
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
/// The random layers know the first two.
using Interpolation = OneOf<InterpolationWords>;

struct FillModeWords {
  enum Word { kReflect, kWrap, kConstant, kNearest };
  static constexpr const char* kOption = "fill_mode";
  static constexpr const char* kWords[] = {"reflect", "wrap", "constant", "nearest"};
};
/// What is outside an image that was moved. Resizing knows "constant" alone.
using FillMode = OneOf<FillModeWords>;

}  // namespace strata::layers
