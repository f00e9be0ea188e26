#include "suites/floor.h"

#include <sys/mman.h>

#include <vector>

#include "strata/core/error.h"
#include "suites/collective.h"

namespace strata::bench {
namespace {

constexpr int64_t kLine = 16;  // floats

void sum_plain(const float* const* sources, float* const* targets, int ranks, int64_t count) {
  for (int64_t i = 0; i < count; i += kLine) {
    float sum[kLine];
    for (int64_t lane = 0; lane < kLine; ++lane) sum[lane] = sources[0][i + lane];
    for (int r = 1; r < ranks; ++r) {
      for (int64_t lane = 0; lane < kLine; ++lane) sum[lane] += sources[r][i + lane];
    }
    for (int r = 0; r < ranks; ++r) {
      for (int64_t lane = 0; lane < kLine; ++lane) targets[r][i + lane] = sum[lane];
    }
  }
}

}  // namespace

MemoryFloor::MemoryFloor(int memory_fd, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  const size_t size = static_cast<size_t>(kMostCallBytes) * static_cast<size_t>(ranks);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory_fd, 0);
  STRATA_CHECK(memory != MAP_FAILED, kResourceExhausted, "[strata bench] floor: got no memory of ",
               size, " bytes");
  memory_ = static_cast<float*>(memory);
}

std::function<void()> MemoryFloor::prepare(const std::string& operation, int64_t bytes) const {
  const int64_t count = bytes / 4 / ranks_ / kLine * kLine;
  std::vector<float*> share;
  for (int r = 0; r < ranks_; ++r) {
    share.push_back(memory_ + r * (kMostCallBytes / 4) + rank_ * count);
  }
  const auto pass = operation == "floor" ? sum_plain : sum_past_cache;
  return [share, count, pass] {
    pass(share.data(), share.data(), static_cast<int>(share.size()), count);
  };
}

}  // namespace strata::bench
