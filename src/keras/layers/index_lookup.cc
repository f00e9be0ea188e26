#include "keras/layers/index_lookup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "core/join.h"
#include "data/hashes.h"
#include "strata/core/error.h"

namespace strata::layers {
namespace {

std::string shown(const std::string& token) { return "'" + token + "'"; }
std::string shown(int64_t token) { return std::to_string(token); }

std::string hashed_text(const std::string& token) { return token; }
std::string hashed_text(int64_t token) { return std::to_string(token); }

void read_token(const std::string& line, const std::string&, std::string& token) { token = line; }
void read_token(const std::string& line, const std::string& source, int64_t& token) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), token);
  STRATA_CHECK(error == std::errc() && end == line.data() + line.size(), kInvalidArgument,
               "[layers] IntegerLookup: got the line '", line, "' in ", source,
               "; expected an integer");
}

float mean_of(const std::vector<float>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0F) /
                              static_cast<float>(values.size());
}

}  // namespace

template <typename Token>
IndexLookup<Token>::IndexLookup(LookupRules rules, std::optional<Token> mask_token, Token oov_token)
    : rules_(std::move(rules)),
      mask_token_(std::move(mask_token)),
      oov_token_(std::move(oov_token)) {
  const std::string where = str_cat("[layers] ", rules_.class_name);
  rules_.output_mode.check(where);
  rules_.oov_method.check(where);
  STRATA_CHECK(rules_.max_tokens.value_or(2) > 1, kInvalidArgument, where,
               ": If set, `max_tokens` must be greater than 1. Received: max_tokens=",
               rules_.max_tokens.value_or(0));
  STRATA_CHECK(!rules_.pad_to_max_tokens || rules_.max_tokens, kInvalidArgument, where,
               ": If pad_to_max_tokens is True, must set `max_tokens`. Received: max_tokens=None");
  STRATA_CHECK(rules_.num_oov_indices >= 0, kInvalidArgument, where,
               ": `num_oov_indices` must be greater than or equal to 0. Received: "
               "num_oov_indices=",
               rules_.num_oov_indices);
  STRATA_CHECK(!rules_.invert || rules_.output_mode == LookupMode::kInt, kInvalidArgument, where,
               ": `output_mode` must be `'int'` when `invert` is true. Received: output_mode=",
               rules_.output_mode.word());
  if constexpr (std::is_same_v<Token, int64_t>) {
    STRATA_CHECK(!rules_.salt || rules_.oov_method == OovMethod::kFarmhash, kInvalidArgument, where,
                 ": `salt` can only be used when `oov_method='farmhash'`. Received: oov_method=",
                 rules_.oov_method.word());
  }
}

template <typename Token>
std::vector<Token> IndexLookup<Token>::special_tokens() const {
  std::vector<Token> special;
  if (oov_start() == 1) special.push_back(*mask_token_);
  special.insert(special.end(), static_cast<size_t>(rules_.num_oov_indices), oov_token_);
  return special;
}

template <typename Token>
void IndexLookup<Token>::set(const std::vector<Token>& vocabulary,
                             const std::vector<double>& idf_weights) {
  const std::string where = str_cat("[layers] ", rules_.class_name, ": ");
  const bool tf_idf = rules_.output_mode == LookupMode::kTfIdf;
  STRATA_CHECK(!tf_idf || !idf_weights.empty(), kInvalidArgument, where,
               "`idf_weights` must be set if output_mode is 'tf_idf'.");
  STRATA_CHECK(tf_idf || idf_weights.empty(), kInvalidArgument, where,
               "`idf_weights` should only be set if output_mode is `'tf_idf'`. Received: "
               "output_mode=",
               rules_.output_mode.word());
  STRATA_CHECK(!vocabulary.empty(), kInvalidArgument, where, "Cannot set an empty vocabulary.");
  STRATA_CHECK(idf_weights.empty() || idf_weights.size() == vocabulary.size(), kInvalidArgument,
               where, "`idf_weights` must be the same length as vocabulary. len(idf_weights) is ",
               idf_weights.size(), "; len(vocabulary) is ", vocabulary.size());
  const std::vector<Token> special = special_tokens();
  const bool found_special = vocabulary.size() >= special.size() &&
                             std::equal(special.begin(), special.end(), vocabulary.begin());
  const std::vector<Token> tokens(
      vocabulary.begin() + (found_special ? static_cast<ptrdiff_t>(special.size()) : 0),
      vocabulary.end());
  std::unordered_map<Token, int64_t> ids;
  const auto check_reserved = [&](const Token& token, const Token& reserved, const char* what) {
    STRATA_CHECK(
        token != reserved, kInvalidArgument, where, "Found reserved ", what,
        " token at unexpected location in `vocabulary`. Note that passed `vocabulary` does "
        "not need to include the OOV and mask tokens. Either remove all mask and OOV "
        "tokens, or include them only at the start of the vocabulary in precisely this "
        "order: [",
        join(special, [](const Token& each) { return shown(each); }), "]");
  };
  for (const Token& token : tokens) {
    if (mask_token_) check_reserved(token, *mask_token_, "mask");
    if (rules_.invert) check_reserved(token, oov_token_, "OOV");
    const auto id = token_start() + static_cast<int64_t>(ids.size());
    STRATA_CHECK(ids.emplace(token, id).second, kInvalidArgument, where,
                 "The passed vocabulary has at least one repeated term. Please uniquify your "
                 "dataset. The repeated term is ",
                 shown(token));
  }
  const auto size = token_start() + static_cast<int64_t>(tokens.size());
  STRATA_CHECK(size <= rules_.max_tokens.value_or(size), kInvalidArgument, where,
               "Attempted to set a vocabulary larger than the maximum vocab size. Received "
               "vocabulary size is ",
               size, "; `max_tokens` is ", rules_.max_tokens.value_or(0), ".");
  tokens_ = tokens;
  ids_ = std::move(ids);
  known_ = true;
  if (!tf_idf) return;
  std::vector<float> weights(idf_weights.begin(), idf_weights.end());
  if (!found_special) {
    const double mean = std::accumulate(idf_weights.begin(), idf_weights.end(), 0.0) /
                        static_cast<double>(idf_weights.size());
    weights.insert(weights.begin(), special.size(), static_cast<float>(mean));
  }
  weights.resize(static_cast<size_t>(depth()), 0);
  idf_weights_ = std::move(weights);
}

template <typename Token>
std::vector<Token> IndexLookup<Token>::tokens_of_lines(const std::string& text,
                                                       const std::string& source) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    at = end + 1;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::vector<Token> tokens(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) read_token(lines[i], source, tokens[i]);
  return tokens;
}

template <typename Token>
void IndexLookup<Token>::begin() {
  counts_.clear();
  documents_ = 0;
}

template <typename Token>
void IndexLookup<Token>::add_document(std::span<const Token> tokens) {
  ++documents_;
  std::unordered_set<Token> seen;
  for (const Token& token : tokens) {
    Counts& counts = counts_[token];
    ++counts.tokens;
    if (rules_.output_mode == LookupMode::kTfIdf && seen.insert(token).second) ++counts.documents;
  }
}

template <typename Token>
void IndexLookup<Token>::learn() {
  if (mask_token_) counts_.erase(*mask_token_);
  counts_.erase(oov_token_);
  std::vector<std::pair<Token, Counts>> found(counts_.begin(), counts_.end());
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return a.second.tokens != b.second.tokens ? a.second.tokens > b.second.tokens
                                              : a.first > b.first;
  });
  if (rules_.max_tokens) {
    const auto most = static_cast<size_t>(std::max<int64_t>(*rules_.max_tokens - token_start(), 0));
    if (found.size() > most) found.resize(most);
  }
  tokens_.clear();
  ids_.clear();
  for (const auto& [token, counts] : found) {
    ids_.emplace(token, token_start() + static_cast<int64_t>(tokens_.size()));
    tokens_.push_back(token);
  }
  known_ = true;
  if (rules_.output_mode == LookupMode::kTfIdf) {
    std::vector<float> weights;
    for (const auto& [token, counts] : found) {
      weights.push_back(static_cast<float>(std::log(
          1 + static_cast<double>(documents_) / static_cast<double>(1 + counts.documents))));
    }
    const float mean = mean_of(weights);
    weights.insert(weights.begin(), static_cast<size_t>(token_start()), mean);
    weights.resize(static_cast<size_t>(depth()), 0);
    idf_weights_ = std::move(weights);
  }
  begin();
}

template <typename Token>
void IndexLookup<Token>::check_known(const std::string& layer) const {
  STRATA_CHECK(known_, kFailedPrecondition, "[keras] layer '", layer,
               "': has no vocabulary; pass a `vocabulary` argument to the layer, or call `adapt` "
               "with some sample data");
}

template <typename Token>
std::vector<Token> IndexLookup<Token>::vocabulary(bool include_special_tokens) const {
  std::vector<Token> all = include_special_tokens ? special_tokens() : std::vector<Token>();
  all.insert(all.end(), tokens_.begin(), tokens_.end());
  return all;
}

template <typename Token>
int64_t IndexLookup<Token>::oov_id(const Token& token) const {
  const int64_t count = rules_.num_oov_indices;
  STRATA_CHECK(count > 0, kInvalidArgument, "[layers] ", rules_.class_name,
               ": When `num_oov_indices=0` all inputs should be in vocabulary, found OOV values [",
               shown(token), "], consider setting `num_oov_indices=1`.");
  if (count == 1) return oov_start();
  if constexpr (std::is_same_v<Token, int64_t>) {
    if (rules_.oov_method == OovMethod::kFloormod) {
      return oov_start() + ((token % count) + count) % count;
    }
  }
  const std::string text = hashed_text(token);
  const uint64_t hash = rules_.salt ? data::sip_hash({static_cast<uint64_t>(rules_.salt->first),
                                                      static_cast<uint64_t>(rules_.salt->second)},
                                                     text)
                                    : data::fingerprint64(text);
  return oov_start() + static_cast<int64_t>(hash % static_cast<uint64_t>(count));
}

template <typename Token>
int64_t IndexLookup<Token>::id_of(const Token& token) const {
  if (mask_token_ && token == *mask_token_) return oov_start() == 1 ? 0 : kDropped;
  const auto found = ids_.find(token);
  return found == ids_.end() ? oov_id(token) : found->second;
}

template <typename Token>
const Token& IndexLookup<Token>::token_of(int64_t id) const {
  if (mask_token_ && id == 0) return *mask_token_;
  const int64_t place = id - token_start();
  if (place < 0 || place >= static_cast<int64_t>(tokens_.size())) return oov_token_;
  return tokens_[static_cast<size_t>(place)];
}

template <typename Token>
void IndexLookup<Token>::fill_row(std::span<const Token> sample, float* row) const {
  const bool counts =
      rules_.output_mode == LookupMode::kCount || rules_.output_mode == LookupMode::kTfIdf;
  for (const Token& token : sample) {
    const int64_t id = id_of(token);
    if (id != kDropped) row[id] = counts ? row[id] + 1 : 1;
  }
  if (rules_.output_mode != LookupMode::kTfIdf) return;
  for (size_t i = 0; i < idf_weights_.size(); ++i) row[i] *= idf_weights_[i];
}

template class IndexLookup<std::string>;
template class IndexLookup<int64_t>;

}  // namespace strata::layers
