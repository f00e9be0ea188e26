#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "strata/core/json.h"
#include "strata/core/one_of.h"
#include "strata/keras/config.h"

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

/// One axis, or a list of axes; negative ones count from the end. Keras's files distinguish the
/// two.
struct Axes {
  std::vector<int64_t> values;
  bool is_list = false;

  Axes(int64_t axis) : values{axis} {}  // NOLINT(google-explicit-constructor)
  Axes(std::initializer_list<int64_t> axes) : values(axes), is_list(true) {}
  explicit Axes(std::vector<int64_t> axes) : values(std::move(axes)), is_list(true) {}
  friend bool operator==(const Axes&, const Axes&) = default;
};

inline Json to_config(const Axes& axes) {
  return axes.is_list ? keras::to_config(axes.values) : Json(axes.values.at(0));
}
inline void from_config(const Json& json, Axes& axes) {
  if (json.is_int()) {
    axes = Axes(json.as_int());
    return;
  }
  std::vector<int64_t> values;
  keras::from_config(json, values);
  axes = Axes(std::move(values));
}

}  // namespace strata::layers
