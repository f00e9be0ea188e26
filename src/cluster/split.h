#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::cluster {

/// The words between separators; none for an empty text.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    words.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return words;
}

}  // namespace strata::cluster
