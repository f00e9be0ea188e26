#pragma once

#include <cstddef>
#include <vector>

namespace strata::checkpoint {

struct CopyTask {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

/// Copies all of `tasks` with one thread a core (fewer where there is little to copy): this is the
/// time for which a save stops the training.
void copy_all(const std::vector<CopyTask>& tasks);

}  // namespace strata::checkpoint
