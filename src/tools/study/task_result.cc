#include "tools/study/task_result.h"

#include <fstream>

#include "strata/core/error.h"

namespace strata::tools {

std::string task_result_path(const std::string& folder, int index) {
  return str_cat(folder, "/worker-", index, ".json");
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  STRATA_CHECK(file.good(), kUnavailable, "[strata study] got ", path,
               ", which cannot be written; expected a file in a folder that exists");
}

}  // namespace strata::tools
