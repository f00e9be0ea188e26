#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace strata::bench {

constexpr int kStepBatch = 64;        ///< Of each replica.
constexpr int64_t kStepWords = 1000;  ///< That rows of words are made of.

/// What a worker of ours or a peer reads.
/// @param head  Batches, batch, features, classes. Layout: these as int64; float32 x; int64 y.
void write_batches(const std::filesystem::path& path, const std::array<int64_t, 4>& head,
                   const std::vector<float>& x, const std::vector<int64_t>& y);

struct StepData {
  int64_t features = 784;
  int64_t classes = 10;
  int64_t batch = kStepBatch;
  int64_t batches = 32;
  bool zeros = true;  ///< False: all pixels are lit.
};

/// Batches like MNIST's: a fifth of the pixels lit, each class a pattern of its own with noise.
void write_step_data(const std::filesystem::path& path, const StepData& data);

struct ImageData {
  int64_t batch;  ///< Of each replica.
  int64_t side;   ///< Of an image, in pixels.
  int64_t classes = 1000;
  int64_t batches = 4;
};

/// Batches of noise, channels last: how long a step takes does not depend on what is in them.
void write_image_data(const std::filesystem::path& path, const ImageData& data);

/// Batches of random words in [0, kStepWords), as floats, and a random class for each row.
/// @param data  `features` words a row.
void write_word_data(const std::filesystem::path& path, const StepData& data);

}  // namespace strata::bench
