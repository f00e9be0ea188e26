#include "keras/layers/text_tokens.h"

#include <algorithm>

namespace strata::layers {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// The bytes that a lead byte calls for, and what the first of them may be.
struct Sequence {
  size_t continuation;
  unsigned char least = 0x80, most = 0xbf;
};
/// As the Unicode Standard has it (table 3-7): no overlong forms, no surrogates.
Sequence sequence_of(unsigned char lead) {
  if (lead < 0x80) return {0};
  if (lead < 0xc2 || lead > 0xf4) return {0, 1, 0};  // never valid
  if (lead < 0xe0) return {1};
  if (lead == 0xe0) return {2, 0xa0, 0xbf};
  if (lead == 0xed) return {2, 0x80, 0x9f};
  if (lead < 0xf0) return {2};
  if (lead == 0xf0) return {3, 0x90, 0xbf};
  if (lead == 0xf4) return {3, 0x80, 0x8f};
  return {3};
}

}  // namespace

void lower_ascii(std::string& text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
}

void strip_punctuation(std::string& text) { std::erase_if(text, is_punctuation); }

std::vector<std::string> split_at_whitespace(std::string_view text) {
  std::vector<std::string> words;
  const auto* at = text.begin();
  while (true) {
    at = std::find_if_not(at, text.end(), is_space);
    if (at == text.end()) return words;
    const auto* end = std::find_if(at, text.end(), is_space);
    words.emplace_back(at, end);
    at = end;
  }
}

std::vector<std::string> split_into_characters(std::string_view text) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_of(static_cast<unsigned char>(text[at]));
    size_t length = 1;
    bool valid = sequence.most != 0;
    // Of a broken one U+FFFD stands for as many bytes as might have begun it.
    for (size_t i = 0; valid && i < sequence.continuation; ++i) {
      const auto next =
          at + length < text.size() ? static_cast<unsigned char>(text[at + length]) : 0;
      valid = next >= (i == 0 ? sequence.least : 0x80) && next <= (i == 0 ? sequence.most : 0xbf);
      if (valid) ++length;
    }
    characters.emplace_back(valid ? text.substr(at, length) : "\xef\xbf\xbd");
    at += length;
  }
  return characters;
}

std::vector<std::string> ngrams_of(const std::vector<std::string>& tokens,
                                   const std::vector<int64_t>& widths) {
  std::vector<std::string> ngrams;
  for (const int64_t width : widths) {
    const auto count = static_cast<size_t>(width);
    for (size_t from = 0; from + count <= tokens.size(); ++from) {
      std::string ngram = tokens[from];
      for (size_t i = 1; i < count; ++i) ngram += ' ' + tokens[from + i];
      ngrams.push_back(std::move(ngram));
    }
  }
  return ngrams;
}

}  // namespace strata::layers
