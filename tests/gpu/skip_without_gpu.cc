// For tests that run on CPUs, too, and know nothing of machines without GPUs.
#include <gtest/gtest.h>

#include "support/test_devices.h"

namespace strata::test {
namespace {

class SkipWithoutGpu : public testing::Environment {
  void SetUp() override {
    if (!has_test_devices()) GTEST_SKIP() << "no GPU: " << strata::detail::why_no_gpu();
  }
};

// gtest owns it.
[[maybe_unused]] const testing::Environment* const skip_without_gpu =
    testing::AddGlobalTestEnvironment(new SkipWithoutGpu());

}  // namespace
}  // namespace strata::test
