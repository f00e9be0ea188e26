#pragma once

#include <cstdint>
#include <memory>

#include "keras_files/weights_tree.h"
#include "strata/core/file_system.h"

namespace strata::keras_files {

/// Beyond this the HDF5 file is built in a temporary file.
inline constexpr int64_t kMaxBytesInMemory = int64_t{1} << 30;

/// The HDF5 file of `weights`, as Keras lays it out.
std::unique_ptr<ReadableFile> make_weights_image(const WeightsGroup& weights,
                                                 int64_t max_in_memory = kMaxBytesInMemory);

}  // namespace strata::keras_files
