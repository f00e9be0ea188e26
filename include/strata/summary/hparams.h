#pragma once

#include <string>
#include <type_traits>
#include <variant>

namespace strata::summary {

/// A hyperparameter: a number, a text or a flag.
struct HparamValue {
  HparamValue(bool flag) : value(flag) {}                      // NOLINT: so that {"lr", 0.1} works
  HparamValue(const char* text) : value(std::string(text)) {}  // NOLINT
  HparamValue(std::string text) : value(std::move(text)) {}    // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> HparamValue(T number)  // NOLINT
      : value(static_cast<double>(number)) {}

  std::variant<double, std::string, bool> value;
};

/// The outcome of a run; TensorBoard's numbers.
enum class SessionStatus { kSuccess = 1, kFailure = 2, kRunning = 3 };

}  // namespace strata::summary
