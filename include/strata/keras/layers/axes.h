#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "strata/core/json.h"
#include "strata/keras/config.h"

namespace strata::layers {

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
