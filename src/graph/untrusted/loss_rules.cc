// Losses and metrics.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// The reduction of a loss of libtorch's: none, mean, sum.
bool is_reduction(const CallView& call, size_t argument) {
  const int64_t reduction = call.given(argument).toInt();
  return reduction >= 0 && reduction <= 2;
}

/// A loss of a prediction and a target of the same sizes, (self, target, ...), with the reduction at `argument`.
template <size_t argument>
Results loss_of_pair(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  if (!is_real(self) || !are_alike(self, *call.tensor(1)) || !is_reduction(call, argument)) {
    return refused(why, "a prediction and a target that do not fit each other");
  }
  const bool each = call.given(argument).toInt() == 0;
  return {{ExpectedResult{self.dtype, each ? self.sizes : std::vector<int64_t>{}}}};
}

/// Its backward, (gradient, self, target, ...).
template <size_t argument>
Results loss_of_pair_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& self = *call.tensor(1);
  if (!is_real(self) || !are_alike(self, *call.tensor(2)) || !is_reduction(call, argument) ||
      gradient.dtype != self.dtype || !broadcasts_to(gradient.sizes, self.sizes)) {
    return refused(why, "a gradient that does not fit");
  }
  return {{like(self)}};
}

// binary_cross_entropy(self, target, weight?, reduction)
Results binary_cross_entropy(const CallView& call, std::string& why) {
  const Value* const weight = call.tensor(2);
  if (weight != nullptr && !are_alike(*weight, *call.tensor(0))) {
    return refused(why, "weights that do not fit");
  }
  return loss_of_pair<3>(call, why);
}

// binary_cross_entropy_with_logits(self, target, weight?, pos_weight?, reduction)
Results binary_cross_entropy_with_logits(const CallView& call, std::string& why) {
  for (const size_t argument : {2, 3}) {
    const Value* const weight = call.tensor(argument);
    if (weight != nullptr && (weight->dtype != call.tensor(0)->dtype ||
                              !broadcasts_to(weight->sizes, call.tensor(0)->sizes))) {
      return refused(why, "weights that do not fit");
    }
  }
  return loss_of_pair<4>(call, why);
}

// binary_cross_entropy_backward(gradient, self, target, weight?, reduction)
Results binary_cross_entropy_backward(const CallView& call, std::string& why) {
  const Value* const weight = call.tensor(3);
  if (weight != nullptr && !are_alike(*weight, *call.tensor(1))) {
    return refused(why, "weights that do not fit");
  }
  return loss_of_pair_backward<4>(call, why);
}

// nll_loss_backward(gradient, self, target, weight?, reduction, ignore_index, total_weight)
Results nll_loss_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value* const total = call.tensor(6);
  const int64_t reduction = call.given(4).toInt();
  const size_t dimensions = input.sizes.size();
  if (dimensions < 1 || dimensions > 2 || !is_single_or_double(input) ||
      gradient.dtype != input.dtype || !total->sizes.empty() || total->dtype != input.dtype ||
      call.tensor(3) != nullptr || reduction < 0 || reduction > 2) {
    return refused(why, "arguments that do not fit each other");
  }
  const bool each = reduction == 0 && dimensions == 2;
  if (gradient.sizes != (each ? std::vector<int64_t>{input.sizes[0]} : std::vector<int64_t>{})) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked =
      is_never_written(call.graph(), call.id(2)) &&
      comes_after(call, "aten::nll_loss_forward", [&](const Node& node) {
        const Value& before = call.graph().values[static_cast<size_t>(node.arguments[0].values[0])];
        return node.arguments[1].values[0] == call.id(2) && before.sizes == input.sizes &&
               node.arguments[4].number == call.given(5);
      });
  if (!checked) return refused(why, "labels that no nll_loss_forward before it has read");
  return {{like(input)}};
}

// strata::softmax_cross_entropy(logits, labels, ignore_class?, wants_difference): checks each label.
Results cross_entropy(const CallView& call, std::string& why) {
  const Value& logits = *call.tensor(0);
  const Value& labels = *call.tensor(1);
  if (logits.sizes.empty() || without_last(logits.sizes) != labels.sizes ||
      !is_single_or_double(logits) || logits.sizes.back() < 1 ||
      !is_one_of(labels.dtype, {at::kLong, at::kInt, at::kByte})) {
    return refused(why, "logits and labels that do not fit each other");
  }
  ExpectedResult difference{logits.dtype, {0}};
  if (call.flag(3)) difference.sizes = logits.sizes;
  return {{ExpectedResult{logits.dtype, labels.sizes}, std::move(difference)}};
}

// strata::scale_rows(difference, scale), and in place
Results scale_rows(const CallView& call, std::string& why) {
  const Value& rows = *call.tensor(0);
  const Value& scale = *call.tensor(1);
  if (rows.sizes.empty() || without_last(rows.sizes) != scale.sizes || !is_contiguous(rows) ||
      rows.dtype != scale.dtype || !is_single_or_double(rows)) {
    return refused(why, "rows and factors that do not fit each other");
  }
  return {{like(rows)}};
}

// strata::scaled_sum(values, divisor)
Results scaled_sum(const CallView& call, std::string& why) {
  const Value& values = *call.tensor(0);
  if (!is_single_or_double(values)) return refused(why, "values of another dtype");
  return {{ExpectedResult{values.dtype, {}}}};
}

// strata::scaled_sum_backward(gradient, sizes, divisor): one number, expanded
Results scaled_sum_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const std::vector<int64_t> sizes = call.integers(1);
  if (!is_single_or_double(gradient) || !is_contiguous(gradient) || sizes.size() > 64) {
    return refused(why, "a gradient that does not fit");
  }
  return {{ExpectedResult{gradient.dtype, sizes}}};
}

// strata::add_to_mean_(total, count, values, weight?, inner)
Results add_to_mean(const CallView& call, std::string& why) {
  const Value& values = *call.tensor(2);
  const Value* const weight = call.tensor(3);
  for (size_t i = 0; i < 2; ++i) {
    if (!call.tensor(i)->sizes.empty() || call.tensor(i)->dtype != at::kDouble) {
      return refused(why, "what is no sum");
    }
  }
  if (!is_single_or_double(values) || !is_contiguous(values) ||
      (weight != nullptr && (weight->sizes != values.sizes || weight->dtype != values.dtype ||
                             !is_contiguous(*weight)))) {
    return refused(why, "values and weights that do not fit each other");
  }
  return std::vector<std::optional<ExpectedResult>>{};
}

// strata::argmax_matches(labels, scores)
Results argmax_matches(const CallView& call, std::string& why) {
  const Value& labels = *call.tensor(0);
  const Value& scores = *call.tensor(1);
  if (scores.sizes.empty() || scores.sizes.back() < 1 ||
      without_last(scores.sizes) != labels.sizes || labels.dtype != at::kLong ||
      scores.dtype != at::kFloat) {
    return refused(why, "labels and scores that do not fit each other");
  }
  return {{ExpectedResult{at::kFloat, labels.sizes}}};
}

}  // namespace

const RuleTable& loss_rules() {
  static const RuleTable rules = {
      {"aten::binary_cross_entropy", binary_cross_entropy},
      {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
      {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
      {"aten::huber_loss", loss_of_pair<2>},
      {"aten::huber_loss_backward", loss_of_pair_backward<3>},
      {"aten::mse_loss", loss_of_pair<2>},
      {"aten::mse_loss_backward", loss_of_pair_backward<3>},
      {"aten::nll_loss_backward", nll_loss_backward},
      {"aten::smooth_l1_loss", loss_of_pair<2>},
      {"aten::smooth_l1_loss_backward", loss_of_pair_backward<3>},
      {"strata::add_to_mean_", add_to_mean},
      {"strata::argmax_matches", argmax_matches},
      {"strata::scale_rows", scale_rows},
      {"strata::scale_rows_", scale_rows},
      {"strata::scaled_sum", scaled_sum},
      {"strata::scaled_sum_backward", scaled_sum_backward},
      {"strata::softmax_cross_entropy", cross_entropy},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
