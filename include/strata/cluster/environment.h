#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata::cluster {

/// Environment variables as a value. Resolvers read them through this, so that a test (or a
/// launcher) can run them on other variables.
class STRATA_API Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}

  /// Copies the variables of this process. Threads: no thread may change them meanwhile (`setenv`).
  static Environment of_process();

  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return variables_.contains(name); }

  /// Returns a number from 0 up; nullopt if the variable is not set.
  /// @throws Error  kInvalidArgument: set to something else; names the variable.
  std::optional<int> get_number(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace strata::cluster
