#pragma once

#include <cstdint>

namespace strata::data {

/// A window of an image, in pixels.
struct ImageBox {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

}  // namespace strata::data
