#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "strata/core/error.h"
#include "strata/keras/layers/image_preprocessing.h"

// What random layers of images make of a factor.
namespace strata::layers {

Json to_config(const Factor& factor);
void from_config(const Json& json, Factor& factor);
void from_config(const Json& json, std::optional<Factor>& factor);
Json to_config(const ValueRange& range);
void from_config(const Json& json, ValueRange& range);

/// Within the bounds, in order. Keras writes most factors so.
inline Factor resolved(const char* class_name, const Factor& factor, double least, double most) {
  const bool fits = factor.single ? factor.upper >= least && factor.upper <= most
                                  : factor.lower <= most && factor.upper >= least;
  STRATA_CHECK(fits, kInvalidArgument, "[layers] ", class_name,
               ": The `factor` argument should be a number (or a list of two numbers) in the range "
               "[",
               least, ", ", most, "]. Received: factor=", to_config(factor).dump());
  if (!factor.single) {
    return {std::min(factor.lower, factor.upper), std::max(factor.lower, factor.upper)};
  }
  const double f = std::abs(factor.upper);
  return {std::max(-f, least), f};
}

}  // namespace strata::layers
