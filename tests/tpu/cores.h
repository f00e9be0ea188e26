#pragma once

#include "strata/strategies/tpu_strategy.h"
#include "support/pjrt_plugin.h"

namespace strata::test {

/// Eight virtual devices of XLA's compiler for CPUs, in place of a TPU's cores; all tests of a program share them.
inline const TPUClusterResolver& cores() {
  static const TPUClusterResolver resolver({.cpu_devices = kVirtualDevices});
  return resolver;
}

}  // namespace strata::test
