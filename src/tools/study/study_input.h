#pragma once

#include <cstdint>

#include "strata/data/dataset.h"
#include "tools/study/configuration.h"

namespace strata::tools {

/// Endless batches for a configuration: x float32 `[global_batch, image_size, image_size, 3]`, y
/// int64 `[global_batch]`. Synthetic: one batch again and again, as tf_cnn_benchmarks has it, from
/// memory. A folder with files in the layout of ImageNet's records, or with a folder of images for
/// each class: decoded, cropped at random and mirrored.
/// @throws Error  kNotFound: no such folder, or nothing of the kind in it.
data::Dataset study_input(const Configuration& configuration, int64_t global_batch);

/// @throws Error  as study_input, without reading the images.
void check_study_data(const Configuration& configuration);

}  // namespace strata::tools
