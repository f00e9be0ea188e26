#pragma once

#include <cstdint>

namespace strata::collective {

inline constexpr int64_t kPage = 4096;

/// `bytes`, rounded up to whole pages.
constexpr int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace strata::collective
