#pragma once

#include <string>

#include "strata/core/file_system.h"
#include "support/source_path.h"

namespace strata::data {

/// A file that TensorFlow wrote, in tests/golden/files.
inline std::string golden_file(const std::string& name) {
  return test::source_path("tests/golden/files/" + name);
}

inline void write_file(const std::string& path, std::string_view bytes) {
  const auto file = file_system_of(path).create(path);
  file->append(std::as_bytes(std::span(bytes)));
  file->close();
}

}  // namespace strata::data
