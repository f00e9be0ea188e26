#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/why_no_gpu.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"

namespace strata::test {

inline int num_gpus() { return static_cast<int>(list_physical_devices("GPU").size()); }

/// For tests of GPUs. In a CUDA build they are the machine's, else emulated ones.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() == 0) GTEST_SKIP() << "no GPU: " << strata::detail::why_no_gpu();
  }
  void TearDown() override {
    for (int i = 0; i < num_gpus(); ++i) set_logical_devices(str_cat("gpu:", i), 1);
  }
};

/// The first card as `n` logical GPUs.
inline std::vector<std::string> logical_gpus(int n) {
  set_logical_devices("gpu:0", n);
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) names.push_back(str_cat("gpu:", i));
  return names;
}

}  // namespace strata::test
