#include "support/source_path.h"

namespace strata::test {

std::string source_path(std::string_view path) {
  std::string whole = STRATA_SOURCE_DIR;
  if (!path.empty()) whole.append("/").append(path);
  return whole;
}

}  // namespace strata::test
