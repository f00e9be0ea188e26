// Attention: libtorch's, and strata's.
#include <algorithm>

#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// The sizes of the scores of queries, keys and values from the argument `first` on, if these fit each other.
std::optional<std::vector<int64_t>> scores_of(const CallView& call, size_t first) {
  const Value& query = *call.tensor(first);
  const Value& key = *call.tensor(first + 1);
  const Value& value = *call.tensor(first + 2);
  if (query.sizes.size() != 4 || key.sizes.size() != 4 || value.sizes != key.sizes ||
      query.sizes[0] != key.sizes[0] || query.sizes[1] != key.sizes[1] ||
      query.sizes[3] != key.sizes[3] || !is_real(query) || key.dtype != query.dtype ||
      value.dtype != query.dtype) {
    return std::nullopt;
  }
  return std::vector<int64_t>{query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]};
}

bool hides_scores(const Value* mask, const Value& query, const std::vector<int64_t>& scores) {
  return mask == nullptr || (broadcasts_to(mask->sizes, scores) &&
                             (mask->dtype == query.dtype || mask->dtype == at::kFloat));
}

/// What their sums are of.
at::ScalarType sums_of(const Value& query) {
  return query.dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask?, scale?)
Results flash_attention(const CallView& call, std::string& why) {
  const Value& query = *call.tensor(0);
  const auto scores = scores_of(call, 0);
  if (!scores || call.given(3).toDouble() != 0) {
    return refused(why, "queries, keys and values that do not fit each other");
  }
  if (!hides_scores(call.tensor(5), query, *scores))
    return refused(why, "a mask that does not fit");
  return {{like(query), ExpectedResult{sums_of(query), without_last(query.sizes)}}};
}

// _scaled_dot_product_flash_attention_for_cpu_backward(gradient, query, key, value, output, logsumexp, dropout,
//                                                      causal, mask?, scale?)
Results flash_attention_backward(const CallView& call, std::string& why) {
  const Value& query = *call.tensor(1);
  const auto scores = scores_of(call, 1);
  const Value& sums = *call.tensor(5);
  if (!scores || !hides_scores(call.tensor(8), query, *scores) || call.given(6).toDouble() != 0) {
    return refused(why, "queries, keys and values that do not fit each other");
  }
  for (const size_t argument : {0, 4}) {
    const Value& value = *call.tensor(argument);
    if (value.sizes != query.sizes || value.dtype != query.dtype) {
      return refused(why, "a gradient that does not fit");
    }
  }
  if (sums.sizes != without_last(query.sizes) || sums.dtype != sums_of(query)) {
    return refused(why, "sums of scores that do not fit");
  }
  return {{like(query), like(*call.tensor(2)), like(*call.tensor(3))}};
}

/// `[batch, heads, rows, depth]` of queries, keys and values, and what hides keys.
struct Heads {
  std::vector<int64_t> rows;  // batch, heads, queries
  std::vector<int64_t> output;
};

/// @param first  The argument that is the query.
/// @param masks  The argument that is the mask, the first of three.
std::optional<Heads> heads_of(const CallView& call, size_t first, size_t masks) {
  const Value& query = *call.tensor(first);
  const Value& key = *call.tensor(first + 1);
  const Value& value = *call.tensor(first + 2);
  for (const Value* const each : {&query, &key, &value}) {
    const bool plain = each->sizes.size() == 4 && each->dtype == query.dtype &&
                       std::ranges::find(each->sizes, 0) == each->sizes.end();
    if (!plain || !is_one_of(each->dtype, {at::kFloat, at::kBFloat16})) return std::nullopt;
  }
  const int64_t batch = query.sizes[0], heads = query.sizes[1], queries = query.sizes[2],
                keys = key.sizes[2];
  const bool fit = key.sizes[0] == batch && value.sizes[0] == batch &&
                   value.sizes[1] == key.sizes[1] && heads % key.sizes[1] == 0 &&
                   value.sizes[2] == keys && key.sizes[3] == query.sizes[3];
  const auto hides = [&](size_t argument, const std::vector<int64_t>& sizes, bool added) {
    const Value* const mask = call.tensor(argument);
    return mask == nullptr || ((mask->dtype == at::kBool || (added && mask->dtype == at::kFloat)) &&
                               broadcasts_to(mask->sizes, sizes));
  };
  const int64_t window = call.given(masks + 4).toInt();
  if (!fit || !hides(masks, {batch, heads, queries, keys}, /*added=*/true) ||
      !hides(masks + 1, {batch, queries}, false) || !hides(masks + 2, {batch, keys}, false) ||
      window < 0) {
    return std::nullopt;
  }
  return Heads{{batch, heads, queries}, {batch, heads, queries, value.sizes[3]}};
}

// strata::attention(query, key, value, mask?, query_mask?, key_mask?, causal, window, scale, mean_of_unseen)
Results attention(const CallView& call, std::string& why) {
  const Value& query = *call.tensor(0);
  const auto heads = heads_of(call, 0, 3);
  if (!heads) return refused(why, "queries, keys, values and masks that do not fit each other");
  return {{ExpectedResult{query.dtype, heads->output}, ExpectedResult{at::kFloat, heads->rows}}};
}

// strata::attention_backward(gradient, query, key, value, output, logsumexp, mask?, query_mask?, key_mask?, causal,
//                            window, scale, mean_of_unseen)
Results attention_backward(const CallView& call, std::string& why) {
  const Value& query = *call.tensor(1);
  const auto heads = heads_of(call, 1, 6);
  if (!heads) return refused(why, "queries, keys, values and masks that do not fit each other");
  for (const size_t argument : {0, 4}) {
    const Value& value = *call.tensor(argument);
    if (value.sizes != heads->output || value.dtype != query.dtype) {
      return refused(why, "a gradient that does not fit");
    }
  }
  const Value& sums = *call.tensor(5);
  if (sums.sizes != heads->rows || sums.dtype != at::kFloat) {
    return refused(why, "sums of scores that do not fit");
  }
  return {{like(query), like(*call.tensor(2)), like(*call.tensor(3))}};
}

}  // namespace

const RuleTable& attention_rules() {
  static const RuleTable rules = {
      {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
      {"strata::attention", attention},
      {"strata::attention_backward", attention_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
