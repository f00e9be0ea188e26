#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/keras/layers/text_vectorization.h"

/// What TensorFlow's operators make of texts.
namespace strata::layers {

/// tf.strings.lower: letters of ASCII.
void lower_ascii(std::string& text);
/// tf.strings.regex_replace with TextVectorization's expression: punctuation of ASCII.
void strip_punctuation(std::string& text);
/// tf.strings.split: between runs of ASCII's white space.
std::vector<std::string> split_at_whitespace(std::string_view text);
/// tf.strings.unicode_split of UTF-8: what is no code point becomes U+FFFD.
std::vector<std::string> split_into_characters(std::string_view text);
/// tf.strings.ngrams: all of the first width, then all of the next.
std::vector<std::string> ngrams_of(const std::vector<std::string>& tokens,
                                   const std::vector<int64_t>& widths);

}  // namespace strata::layers
