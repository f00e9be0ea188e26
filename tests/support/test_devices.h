#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/why_no_gpu.h"
#include "strata/core/error.h"
#include "strata/runtime/devices.h"

namespace strata::test {

/// Some tests run on CPUs and, in another executable, on GPUs: there the environment's
/// STRATA_TEST_DEVICE is "gpu", or "gpus": then each replica has a card, where there are as many.
inline bool runs_on_gpus() {
  const char* const kind = std::getenv("STRATA_TEST_DEVICE");
  return kind != nullptr && std::string_view(kind).starts_with("gpu");
}

inline bool has_a_card_each(int replicas) {
  return runs_on_gpus() && std::string_view(std::getenv("STRATA_TEST_DEVICE")) == "gpus" &&
         static_cast<int>(list_physical_devices("GPU").size()) >= replicas;
}

inline bool has_test_devices() { return !runs_on_gpus() || !list_physical_devices("GPU").empty(); }

/// Where such a test's replicas live.
inline std::vector<std::string> test_devices(int replicas) {
  const bool gpu = runs_on_gpus();
  set_logical_devices(gpu ? "gpu:0" : "cpu", has_a_card_each(replicas) ? 1 : replicas);
  std::vector<std::string> names;
  for (int i = 0; i < replicas; ++i) names.push_back(str_cat(gpu ? "gpu:" : "cpu:", i));
  return names;
}

}  // namespace strata::test
