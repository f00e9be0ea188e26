#pragma once

#include <cstdint>
#include <cstdlib>

namespace strata::test {

/// How often a random case is tried, or the seed of its choices: `in_make_test`, or what the variable
/// says, which scripts/soak.sh sets.
inline uint64_t soak_setting(const char* variable, uint64_t in_make_test) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? in_make_test : std::strtoull(text, nullptr, 10);
}

}  // namespace strata::test
