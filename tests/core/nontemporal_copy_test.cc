#include "core/nontemporal_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace strata::detail {
namespace {

TEST(NontemporalCopyTest, CopiesAnyRangeAndNothingBesideIt) {
  std::vector<unsigned char> from(400);
  std::iota(from.begin(), from.end(), 0);
  for (size_t begin = 0; begin < 70; ++begin) {
    for (const size_t size : {0, 1, 15, 63, 64, 65, 127, 128, 200, 256}) {
      std::vector<unsigned char> to(400, 255);
      nontemporal_copy(reinterpret_cast<std::byte*>(to.data() + begin),
                       reinterpret_cast<const std::byte*>(from.data() + 3),
                       static_cast<int64_t>(size));
      nontemporal_fence();
      for (size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= begin && i < begin + size;
        ASSERT_EQ(to[i], inside ? from[i - begin + 3] : 255) << begin << " " << size << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace strata::detail
