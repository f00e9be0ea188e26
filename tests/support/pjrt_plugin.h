#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "pjrt/client.h"

// XLA's compiler for CPUs, a stand-in for a TPU's. STRATA_PJRT_PLUGIN names it; scripts/install_pjrt.sh fetches it.
namespace strata::test {

inline constexpr int64_t kVirtualDevices = 8;

/// A client with 8 devices; all tests of a program share it.
inline const pjrt::Client& pjrt_client() {
  static const pjrt::Client client(pjrt::Plugin::open(), {{"cpu_device_count", kVirtualDevices}});
  return client;
}

}  // namespace strata::test

#define STRATA_NEEDS_PJRT_PLUGIN()                                                        \
  if (!::strata::pjrt::Plugin::path_from_environment()) {                                 \
    GTEST_SKIP() << "needs a PJRT plugin: STRATA_PJRT_PLUGIN=$(scripts/install_pjrt.sh)"; \
  }                                                                                       \
  static_assert(true)
