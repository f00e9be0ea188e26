#include "strata/keras/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <utility>

#include "keras/losses/rule.h"
#include "optim/shapes.h"
#include "strata/core/error.h"

namespace strata::losses {
namespace {

using at::Tensor;

constexpr std::array<std::pair<std::string_view, Reduction>, 5> kReductions = {{
    {"sum_over_batch_size", Reduction::kSumOverBatchSize},
    {"sum", Reduction::kSum},
    {"none", Reduction::kNone},
    {"mean_with_sample_weight", Reduction::kMeanWithSampleWeight},
    {"mean", Reduction::kSumOverBatchSize},
}};

Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a.to(at::kBool).logical_and(b.to(at::kBool));
}

/// `given` (weights, or a mask) in a shape and dtype that multiplies `values`.
Tensor fitted(Tensor& values, const Tensor& given) {
  Tensor weight = given.to(values.options());
  strata::detail::match_weight("[losses] sample_weight", values, weight);
  return weight;
}

/// A batch's values with their weights. What Keras divides by is in `weights`, not in the values.
struct Weighted {
  Tensor values;   ///< times weights and mask
  Tensor weights;  ///< weights times mask; undefined: none given
  Tensor mask;     ///< in the dtype of the values; undefined: none
};

Weighted weigh(LossValues from_rule, const Tensor& sample_weight, const Tensor& given_mask) {
  Weighted result{.values = std::move(from_rule.values), .weights = {}, .mask = {}};
  const Tensor mask = both(given_mask, from_rule.mask);
  // Weights first: a vector of values may become `[batch, 1]` by them, which the mask then is, too.
  if (sample_weight.defined()) result.weights = fitted(result.values, sample_weight);
  if (mask.defined()) {
    result.mask = fitted(result.values, mask);
    if (result.weights.defined()) strata::detail::match_ranks(result.values, result.weights);
    result.weights = result.weights.defined() ? result.mask * result.weights : result.mask;
  }
  if (result.weights.defined()) result.values = result.values * result.weights;
  return result;
}

bool divides(Reduction reduction) {
  return reduction == Reduction::kSumOverBatchSize || reduction == Reduction::kMeanWithSampleWeight;
}

LossTerms terms_of(const Weighted& weighted, Reduction reduction) {
  LossTerms terms{.sum = weighted.values.sum(),
                  .count = 0,
                  .weight_sum = {},
                  .num_values = static_cast<double>(weighted.values.numel())};
  if (!divides(reduction)) return terms;
  terms.count = terms.num_values;
  if (reduction == Reduction::kMeanWithSampleWeight) {
    if (weighted.weights.defined()) terms.weight_sum = weighted.weights.sum();
  } else if (weighted.mask.defined() && weighted.mask.numel() > 0) {
    // A mask of several values counts each.
    terms.weight_sum =
        weighted.mask.sum() * (terms.count / static_cast<double>(weighted.mask.numel()));
  }
  return terms;
}

}  // namespace

LossValues Loss::Rule::values(const Tensor& y_true, const Tensor& y_pred) const {
  const at::ScalarType given = y_pred.scalar_type();
  const bool half = given == at::kHalf || given == at::kBFloat16;
  if (!dtype && !half) return call(y_true, y_pred);
  return call(y_true, y_pred.to(dtype.value_or(at::kFloat)));
}

Loss::Loss(const char* name) : Loss(std::string(name)) {}
Loss::Loss(const std::string& name) : Loss(detail::loss_of_name(name)) {}
Loss::Loss(Function function, std::string name, Reduction reduction) {
  STRATA_CHECK(function != nullptr, kInvalidArgument,
               "[losses] Loss: got an empty function; expected one of y_true and y_pred");
  rule_ = std::make_shared<Rule>(
      Rule{.name = std::move(name),
           .reduction = reduction,
           .call = [function = std::move(function)](const Tensor& y_true, const Tensor& y_pred) {
             return LossValues{.values = function(y_true, y_pred)};
           }});
}

const Loss::Rule& Loss::rule() const {
  STRATA_CHECK(rule_ != nullptr, kFailedPrecondition,
               "[losses] Loss: got none; expected one such as losses::MeanSquaredError()");
  return *rule_;
}

const std::string& Loss::name() const { return rule().name; }
Reduction Loss::reduction() const { return rule().reduction; }
bool Loss::divides() const { return losses::divides(rule().reduction); }

Tensor Loss::per_sample(const Tensor& y_true, const Tensor& y_pred) const {
  return rule().values(y_true, y_pred).values;
}

LossTerms Loss::terms(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                      const Tensor& mask) const {
  return terms_of(weigh(rule().values(y_true, y_pred), sample_weight, mask), reduction());
}

Tensor Loss::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                        const Tensor& mask) const {
  const Weighted weighted = weigh(rule().values(y_true, y_pred), sample_weight, mask);
  if (reduction() == Reduction::kNone) return weighted.values;
  const LossTerms terms = terms_of(weighted, reduction());
  if (terms.weight_sum.defined()) {
    // Divided by 1 where nothing counts, so that the gradient is 0 there as well.
    const Tensor none = terms.weight_sum == 0;
    return at::where(none, at::zeros_like(terms.sum),
                     terms.sum / terms.weight_sum.masked_fill(none, 1));
  }
  return terms.count == 0 ? terms.sum : terms.sum / terms.count;
}

Json to_config(const Loss& loss) {
  if (!loss) return {};
  STRATA_CHECK(
      !loss.rule().config.is_null(), kUnimplemented, "[losses] config of '", loss.name(),
      "': got a user-defined function, which Keras cannot load; save without compile_config");
  return loss.rule().config;
}

void from_config(const Json& json, Loss& loss) {
  loss = json.is_null() ? Loss() : detail::loss_of_config(json);
}

Json to_config(Reduction reduction) {
  for (const auto& [name, value] : kReductions) {
    if (value == reduction) return Json(name);
  }
  return {};
}

void from_config(const Json& json, Reduction& reduction) {
  const std::string& name = json.is_null() ? "none" : json.as_string();
  for (const auto& [known, value] : kReductions) {
    if (known == name) {
      reduction = value;
      return;
    }
  }
  STRATA_CHECK(false, kDataLoss, "got reduction '", name,
               "'; expected sum_over_batch_size, sum, mean, mean_with_sample_weight or none");
}

LabelKindOfShapes label_kind(at::IntArrayRef y_true, at::IntArrayRef y_pred) {
  const int64_t width = y_pred.empty() ? 1 : y_pred.back();
  if (width == 1) return LabelKindOfShapes::kBinary;
  const bool sparse =
      y_true.size() < y_pred.size() || (!y_true.empty() && y_true.back() == 1 && width > 1);
  return sparse ? LabelKindOfShapes::kSparse : LabelKindOfShapes::kCategorical;
}

}  // namespace strata::losses
