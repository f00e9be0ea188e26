#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace strata {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace strata
