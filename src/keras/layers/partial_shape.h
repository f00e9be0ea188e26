#pragma once

#include <vector>

#include "strata/core/json.h"
#include "strata/keras/config.h"
#include "strata/keras/shape.h"

namespace strata::layers {

/// Sizes some of which a layer finds out itself (kNone; null in a config); one may stand alone.
struct PartialShape {
  keras::Shape sizes;
};

inline Json to_config(const PartialShape& shape) {
  Json json = Json::array();
  for (int64_t size : shape.sizes) json.push_back(size == keras::kNone ? Json() : Json(size));
  return json;
}
inline void from_config(const Json& json, PartialShape& shape) {
  shape.sizes.clear();
  if (json.is_int()) {
    shape.sizes = {json.as_int()};
    return;
  }
  for (const Json& size : json.as_array()) {
    shape.sizes.push_back(size.is_null() ? keras::kNone : size.as_int());
  }
}

}  // namespace strata::layers
