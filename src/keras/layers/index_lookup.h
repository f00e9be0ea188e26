#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "strata/keras/layers/lookups.h"

namespace strata::layers {

/// What a lookup does, whatever its tokens are.
struct LookupRules {
  const char* class_name;
  std::optional<int64_t> max_tokens;
  int64_t num_oov_indices;
  LookupMode output_mode;
  bool pad_to_max_tokens;
  bool invert;
  OovMethod oov_method;
  std::optional<HashSalt> salt;
};

/// A vocabulary and its ids. First the mask's id (with "int" alone), then those for unknown tokens,
/// then those of the vocabulary.
template <typename Token>
class IndexLookup {
 public:
  /// In place of an id: the token counts nowhere.
  static constexpr int64_t kDropped = -1;

  IndexLookup(LookupRules rules, std::optional<Token> mask_token, Token oov_token);

  void set(const std::vector<Token>& vocabulary, const std::vector<double>& idf_weights);
  /// Lines as tokens.
  static std::vector<Token> tokens_of_lines(const std::string& text, const std::string& source);

  /// Learning: `begin`, all documents, `learn`.
  void begin();
  void add_document(std::span<const Token> tokens);
  void learn();

  bool is_known() const { return known_; }
  /// @throws Error kFailedPrecondition: there is no vocabulary; names the layer.
  void check_known(const std::string& layer) const;
  int64_t size() const { return token_start() + static_cast<int64_t>(tokens_.size()); }
  std::vector<Token> vocabulary(bool include_special_tokens) const;
  /// As many as `size`, or `max_tokens` of them.
  const std::vector<float>& idf_weights() const { return idf_weights_; }
  void set_idf_weights(std::vector<float> weights) { idf_weights_ = std::move(weights); }

  /// @throws Error kInvalidArgument: the token is unknown, and there is no id for unknown ones.
  int64_t id_of(const Token& token) const;
  const Token& token_of(int64_t id) const;

  /// Of a row.
  int64_t depth() const { return rules_.pad_to_max_tokens ? *rules_.max_tokens : size(); }
  /// Writes a sample's row over zeros.
  void fill_row(std::span<const Token> sample, float* row) const;

  const LookupRules& rules() const { return rules_; }

 private:
  int64_t oov_start() const {
    return mask_token_ && rules_.output_mode == LookupMode::kInt ? 1 : 0;
  }
  int64_t token_start() const { return oov_start() + rules_.num_oov_indices; }
  int64_t oov_id(const Token& token) const;
  std::vector<Token> special_tokens() const;

  const LookupRules rules_;
  const std::optional<Token> mask_token_;
  const Token oov_token_;
  std::vector<Token> tokens_;
  std::unordered_map<Token, int64_t> ids_;
  std::vector<float> idf_weights_;
  bool known_ = false;
  // While it learns:
  struct Counts {
    int64_t tokens = 0, documents = 0;
  };
  std::unordered_map<Token, Counts> counts_;
  int64_t documents_ = 0;
};

extern template class IndexLookup<std::string>;
extern template class IndexLookup<int64_t>;

}  // namespace strata::layers
