#include "checkpoint/copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/thread.h"
#include "strata/runtime/devices.h"

namespace strata::checkpoint {
namespace {

// Below this a thread costs more than it copies.
constexpr size_t kBytesPerThread = size_t{4} << 20;
constexpr size_t kMaxThreads = 8;  // memory is not faster for more

/// Bytes [begin, end) of all tasks, one after the other.
void copy_range(const std::vector<CopyTask>& tasks, size_t begin, size_t end) {
  size_t at = 0;
  for (const CopyTask& task : tasks) {
    const size_t first = std::max(begin, at);
    const size_t last = std::min(end, at + task.bytes);
    if (first < last) std::memcpy(task.to + (first - at), task.from + (first - at), last - first);
    at += task.bytes;
    if (at >= end) return;
  }
}

}  // namespace

void copy_all(const std::vector<CopyTask>& tasks) {
  size_t total = 0;
  for (const CopyTask& task : tasks) total += task.bytes;
  const size_t threads = std::clamp<size_t>(
      total / kBytesPerThread, 1, std::min<size_t>(kMaxThreads, static_cast<size_t>(num_cores())));
  const auto bound = [&](size_t i) { return total / threads * i; };
  std::vector<Thread> helpers;  // joined at the end
  for (size_t i = 1; i < threads; ++i) {
    helpers.emplace_back("checkpoint/copy", [&, i] {
      copy_range(tasks, bound(i), i + 1 == threads ? total : bound(i + 1));
    });
  }
  copy_range(tasks, 0, threads == 1 ? total : bound(1));
}

}  // namespace strata::checkpoint
