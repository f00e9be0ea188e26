#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace strata::keras {

/// A Keras class name as a template argument: one template implements all classes that differ by
/// name alone.
template <size_t N>
struct ClassName {
  constexpr ClassName(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(text, N, characters);
  }
  constexpr std::string_view view() const { return {characters, N - 1}; }

  char characters[N] = {};
};

}  // namespace strata::keras
