#include "suites/step_data.h"

#include <algorithm>
#include <fstream>
#include <random>

#include "strata/core/error.h"

namespace strata::bench {

void write_batches(const std::filesystem::path& path, const std::array<int64_t, 4>& head,
                   const std::vector<float>& x, const std::vector<int64_t>& y) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(head.data()), sizeof head);
  out.write(reinterpret_cast<const char*>(x.data()),
            static_cast<std::streamsize>(x.size() * sizeof(float)));
  out.write(reinterpret_cast<const char*>(y.data()),
            static_cast<std::streamsize>(y.size() * sizeof(int64_t)));
  out.flush();
  STRATA_CHECK(out.good(), kUnavailable, "[strata bench] cannot write ", path.string());
}

void write_step_data(const std::filesystem::path& path, const StepData& data) {
  constexpr int64_t kPatterns = 100;
  std::mt19937_64 bits(1);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::normal_distribution<float> noise(0.0F, 0.1F);
  const int64_t patterns = std::min(data.classes, kPatterns);
  std::vector<float> pattern(static_cast<size_t>(patterns * data.features));
  for (float& value : pattern) {
    value = !data.zeros || uniform(bits) < 0.2F ? uniform(bits) : 0.0F;
  }

  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < data.batches * data.batch; ++i) {
    y.push_back(static_cast<int64_t>(bits() % static_cast<uint64_t>(data.classes)));
    const float* from = pattern.data() + (y.back() % patterns) * data.features;
    for (int64_t j = 0; j < data.features; ++j) {
      const float value = from[j] > 0 || !data.zeros ? from[j] + noise(bits) : 0.0F;
      x.push_back(data.zeros ? std::max(0.0F, value) : value);
    }
  }
  write_batches(path, {data.batches, data.batch, data.features, data.classes}, x, y);
}

void write_image_data(const std::filesystem::path& path, const ImageData& data) {
  const std::array<int64_t, 4> head = {data.batches, data.batch, data.side * data.side * 3,
                                       data.classes};
  std::mt19937_64 bits(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> x(static_cast<size_t>(head[0] * head[1] * head[2]));
  for (float& value : x) value = uniform(bits);
  std::vector<int64_t> y(static_cast<size_t>(head[0] * head[1]));
  for (int64_t& value : y) value = static_cast<int64_t>(bits() % static_cast<uint64_t>(head[3]));
  write_batches(path, head, x, y);
}

void write_word_data(const std::filesystem::path& path, const StepData& data) {
  std::mt19937_64 bits(1);
  std::vector<float> x(static_cast<size_t>(data.batches * data.batch * data.features));
  for (float& value : x) value = static_cast<float>(bits() % static_cast<uint64_t>(kStepWords));
  std::vector<int64_t> y(static_cast<size_t>(data.batches * data.batch));
  for (int64_t& value : y) {
    value = static_cast<int64_t>(bits() % static_cast<uint64_t>(data.classes));
  }
  write_batches(path, {data.batches, data.batch, data.features, data.classes}, x, y);
}

}  // namespace strata::bench
