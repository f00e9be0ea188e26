#pragma once

#include <cstdint>
#include <filesystem>

namespace strata::tools {

constexpr int kStepBatch = 64;  ///< Of each replica.

struct StepData {
  int64_t features = 784;
  int64_t classes = 10;
  int64_t batch = kStepBatch;
  int64_t batches = 32;
};

/// Batches like MNIST's: a fifth of the pixels lit, each class a pattern of its own with noise.
/// Layout: int64 batches, batch, features, classes; float32 x; int64 y.
void write_step_data(const std::filesystem::path& path, const StepData& data);

}  // namespace strata::tools
