#pragma once

#include <cstdint>
#include <string>

#include "strata/data/dataset.h"

namespace strata::bench {

/// Before the clock starts: what was made ahead while others were timed is used up.
constexpr int kUntimedBatches = 6;
constexpr int64_t kJpegBatch = 32;
constexpr int64_t kJpegSize = 224;  ///< of resized images, pixels a side

/// Endless batches of the images in `folder`: decoded, resized, flipped at random.
data::Dataset decoded_jpegs(const std::string& folder, int64_t num_parallel_calls);

}  // namespace strata::bench
