#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "support/source_path.h"

// tests/golden/keras_applications.json, and the numbers that its script made.
namespace strata::applications {

inline const Json& golden_applications() {
  static const Json golden =
      Json::parse(read_file(strata::test::source_path("tests/golden/keras_applications.json")));
  return golden;
}

inline std::vector<double> doubles_of(const Json& json) {
  std::vector<double> values;
  for (const Json& value : json.as_array()) values.push_back(value.as_double());
  return values;
}

/// -1 to 1, from a hash of the index: `numbers` of make_keras_applications.py.
inline double number(size_t which, int64_t index) {
  uint32_t h = static_cast<uint32_t>(index) + static_cast<uint32_t>(which) * 2654435769U;
  h = (h ^ h >> 16) * 0x7FEB352DU;
  h = (h ^ h >> 15) * 0x846CA68BU;
  h ^= h >> 16;
  return h / 2147483648.0 - 1;
}

/// `numbers` with a function of each.
template <typename Function>
at::Tensor numbers(size_t which, at::IntArrayRef shape, const Function& function) {
  at::Tensor values = at::empty(shape, at::kFloat);
  float* data = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    data[i] = static_cast<float>(function(number(which, i)));
  }
  return values;
}

}  // namespace strata::applications
