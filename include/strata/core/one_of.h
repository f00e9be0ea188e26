#pragma once

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata {

/// An option whose value is one word of a closed set. It takes the word, as Python and saved files
/// have it, or an enumerator, which the compiler checks:
///
///     struct PaddingWords {
///       enum Word { kValid, kSame, kCausal };
///       static constexpr const char* kOption = "padding";
///       static constexpr const char* kWords[] = {"valid", "same", "causal"};
///     };
///     using Padding = OneOf<PaddingWords>;
///
///     Conv2D(32, 3, {.padding = "same"});
///     Conv2D(32, 3, {.padding = Padding::kSame});
///
/// An unknown word is kept as it is, until the owner of the option calls `check` and can say where
/// it came from.
template <typename Set>
class OneOf : public Set {
 public:
  /// The set's first word.
  OneOf() : OneOf(typename Set::Word{}) {}
  // NOLINTBEGIN(google-explicit-constructor): an option is given as either
  OneOf(typename Set::Word word) : word_(Set::kWords[word]) {}
  OneOf(const char* word) : word_(word) {}
  OneOf(std::string word) : word_(std::move(word)) {}

  const std::string& word() const { return word_; }
  operator const std::string&() const { return word_; }
  // NOLINTEND(google-explicit-constructor)

  /// @param where  The owner, for the error: "[layers] Conv2D".
  /// @throws Error kInvalidArgument: the word is not in the set; lists the set.
  void check(std::string_view where) const {
    if (std::find(std::begin(Set::kWords), std::end(Set::kWords), word_) != std::end(Set::kWords)) {
      return;
    }
    std::string list;
    for (const char* const* word = std::begin(Set::kWords); word != std::end(Set::kWords); ++word) {
      const bool last = word + 1 == std::end(Set::kWords);
      list += str_cat(list.empty() ? "'" : (last ? " or '" : ", '"), *word, "'");
    }
    STRATA_CHECK(false, kInvalidArgument, where, ": got ", Set::kOption, "='", word_,
                 "'; expected ", list);
  }

  friend bool operator==(const OneOf& a, const OneOf& b) { return a.word_ == b.word_; }
  friend bool operator==(const OneOf& a, typename Set::Word b) { return a.word_ == Set::kWords[b]; }
  friend std::ostream& operator<<(std::ostream& out, const OneOf& x) { return out << x.word_; }

 private:
  std::string word_;
};

}  // namespace strata
