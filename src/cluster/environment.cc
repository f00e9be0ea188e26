#include "strata/cluster/resolvers.h"

#include <charconv>

#include "strata/core/error.h"

extern char** environ;

namespace strata::cluster {

Environment Environment::of_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.variables_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> Environment::get_number(std::string_view name) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  int number = 0;
  const char* last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, number);
  STRATA_CHECK(error == std::errc() && end == last && number >= 0, kInvalidArgument,
               "[cluster] environment: got ", name, "=\"", *text,
               "\"; expected a number from 0 up");
  return number;
}

}  // namespace strata::cluster
