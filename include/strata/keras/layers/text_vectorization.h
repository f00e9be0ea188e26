#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/lookups.h"

/// A layer that makes numbers of whole texts. It computes on the host, as lookups.h says.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct StandardizeWords {
  enum Word { kLowerAndStripPunctuation, kLower, kStripPunctuation, kNone };
  static constexpr const char* kOption = "standardize";
  static constexpr const char* kWords[] = {"lower_and_strip_punctuation", "lower",
                                           "strip_punctuation", "none"};
};
/// Letters and punctuation of ASCII alone, as in TensorFlow. "none" is Keras's None.
using Standardize = OneOf<StandardizeWords>;

struct SplitWords {
  enum Word { kWhitespace, kCharacter, kNone };
  static constexpr const char* kOption = "split";
  static constexpr const char* kWords[] = {"whitespace", "character", "none"};
};
/// "character": code points of UTF-8; "none", Keras's None: each text is one token.
using Split = OneOf<SplitWords>;

/// Sequences of so many tokens, as texts with spaces between: up to a number, or of the numbers
/// listed.
struct Ngrams {
  std::vector<int64_t> widths;
  bool is_list = false;

  Ngrams(int64_t most = 1);  // NOLINT(google-explicit-constructor)
  Ngrams(std::initializer_list<int64_t> widths) : widths(widths), is_list(true) {}
  explicit Ngrams(std::vector<int64_t> widths) : widths(std::move(widths)), is_list(true) {}
  friend bool operator==(const Ngrams&, const Ngrams&) = default;
};

struct TextVectorizationOptions {
  std::optional<int64_t> max_tokens = {};  ///< Of the vocabulary, with its special tokens.
  Standardize standardize = "lower_and_strip_punctuation";
  Split split = "whitespace";
  std::optional<Ngrams> ngrams = {};
  LookupMode output_mode = "int";
  /// With "int": rows have this length; longer ones are cut. Unset: the longest of a batch, and
  /// a step with the layer is not recorded.
  std::optional<int64_t> output_sequence_length = {};
  bool pad_to_max_tokens = false;
  std::vector<std::string> vocabulary = {};
  std::string vocabulary_file = {};  ///< The same as a file of lines.
  std::vector<double> idf_weights = {};
  /// Functions of a program's own in place of the words above. Files cannot have them.
  std::function<std::string(const std::string&)> standardize_function = {};
  std::function<std::vector<std::string>(const std::string&)> split_function = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Texts to rows: standardized, split into tokens, made n-grams of, looked up. With "int" ids are
/// int64 `[batch, length]`, 0 behind the last, 1 for tokens that the vocabulary does not have; else
/// rows as those of StringLookup.
///
///     layers::TextVectorization vectorize({.max_tokens = 10000, .output_sequence_length = 40});
///     vectorize.adapt(lines);  // a dataset of texts
///     dataset.map([&](const data::Example& e) { return data::Example{vectorize(e.x()), e.y()}; });
///
/// Takes texts `[batch, width]` or `[batch, 1, width]` (strata/data/texts.h), one text `[width]`,
/// or std::strings.
/// @throws Error kFailedPrecondition: there is no vocabulary yet.
class STRATA_API TextVectorization : public keras::Layer {
 public:
  explicit TextVectorization(const TextVectorizationOptions& options = {});

  using Layer::operator();
  at::Tensor operator()(const std::vector<std::string>& texts) const;

  /// See StringLookup; each text is a document of "tf_idf".
  void adapt(const std::vector<std::string>& texts);
  void adapt(const data::Dataset& dataset);
  void set_vocabulary(const std::vector<std::string>& vocabulary,
                      const std::vector<double>& idf_weights = {});
  std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
};

}  // namespace strata::layers
