#include "collective/shared_memory/reduce_broadcast.h"

#include <algorithm>
#include <cstring>

#include <c10/util/SmallVector.h>

#include "core/nontemporal_copy.h"

namespace strata::collective {
namespace {

constexpr int64_t kBlockBytes = 8192;

}  // namespace

void reduce_broadcast(const Reduction& reduction, std::span<const Operand> sources,
                      int64_t elements, std::span<std::byte* const> targets, bool stream) {
  const auto n = static_cast<int>(sources.size());
  if (targets.size() == 1 && !stream) {
    reduction.reduce(sources.data(), n, elements, {.data = targets[0]}, true);
    return;
  }
  alignas(64) std::byte sums[kBlockBytes];
  const int64_t width = reduction.element_bytes();
  const int64_t block = kBlockBytes / width;
  c10::SmallVector<Operand, 16> at(sources.begin(), sources.end());
  for (int64_t begin = 0; begin < elements; begin += block) {
    const int64_t count = std::min(block, elements - begin);
    reduction.reduce(at.data(), n, count, {.data = sums}, true);
    for (std::byte* const target : targets) {
      if (stream) {
        strata::detail::nontemporal_copy(target + begin * width, sums, count * width);
      } else {
        std::memcpy(target + begin * width, sums, static_cast<size_t>(count * width));
      }
    }
    for (Operand& operand : at) {
      if (operand.data == nullptr) continue;
      operand.data = static_cast<std::byte*>(operand.data) +
                     count * (operand.partial ? reduction.partial_bytes() : width);
    }
  }
  if (stream) detail::nontemporal_fence();
}

}  // namespace strata::collective
