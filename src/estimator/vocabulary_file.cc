#include "estimator/vocabulary_file.h"

#include <algorithm>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::estimator::detail {

std::vector<std::string> read_vocabulary_file(const std::string& where, const std::string& path,
                                              std::optional<int64_t> size) {
  const std::string text = read_file(path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size() && static_cast<int64_t>(lines.size()) != size;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    STRATA_CHECK(!line.empty(), kInvalidArgument, where, ": line ", lines.size() + 1, " of ", path,
                 " is empty; expected a value");
    lines.push_back(std::move(line));
    at = end + 1;
  }
  STRATA_CHECK(!lines.empty() && static_cast<int64_t>(lines.size()) == size.value_or(lines.size()),
               kInvalidArgument, where, ": ", path, " has ", lines.size(), " lines; expected ",
               size ? str_cat(*size) : "one or more");
  return lines;
}

}  // namespace strata::estimator::detail
