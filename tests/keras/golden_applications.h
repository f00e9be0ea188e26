#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "keras/hashed_numbers.h"
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

/// `numbers` of make_keras_applications.py with a function of each, float32.
template <typename Function>
at::Tensor numbers(size_t which, at::IntArrayRef shape, const Function& function) {
  return test::hashed_numbers(which, shape, function).to(at::kFloat);
}

}  // namespace strata::applications
