#pragma once

#include <algorithm>
#include <cstddef>

namespace strata::ps {

/// Values travel in messages of at most so many bytes, so that one is copied while another travels.
inline constexpr size_t kMessageBytes = size_t{1} << 20;

/// Calls `work(offset, bytes)` for the messages of `bytes` contiguous bytes, in order: the same on
/// both sides.
template <typename Work>
void for_each_message(size_t bytes, Work work) {
  for (size_t offset = 0; offset < bytes; offset += kMessageBytes) {
    work(offset, std::min(kMessageBytes, bytes - offset));
  }
}

}  // namespace strata::ps
