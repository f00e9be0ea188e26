#pragma once

#include <string>
#include <vector>

#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "support/source_path.h"

namespace strata::test {

inline std::string golden_path(const std::string& name) {
  return test::source_path("tests/golden/" + name);
}

/// What tests/golden/make_keras_files.py wrote.
inline const Json& keras_golden() {
  static const Json golden = Json::parse(read_file(golden_path("keras_files.json")));
  return golden;
}

inline std::vector<int64_t> shape_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& size : json.as_array()) shape.push_back(size.as_int());
  return shape;
}

}  // namespace strata::test
