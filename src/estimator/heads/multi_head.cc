#include <ATen/TensorOperators.h>

#include <numeric>
#include <set>
#include <utility>

#include "core/join.h"
#include "estimator/heads/head_impl.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace detail {
namespace {

class MultiHead final : public HeadImpl {
 public:
  MultiHead(std::vector<Head> heads, std::vector<double> weights)
      : HeadImpl(join(heads, &Head::name, "_"), heads.front().loss_reduction()),
        heads_(std::move(heads)),
        weights_(std::move(weights)) {}

  int64_t logits_dimension() const override {
    int64_t sum = 0;
    for (const Head& head : heads_) sum += head.logits_dimension();
    return sum;
  }

  Features predictions(const at::Tensor& logits) const override {
    Features all;
    each(logits, [&](size_t /*index*/, const Head& head, const at::Tensor& part) {
      for (auto& [key, feature] : head.predictions(part)) {
        all.emplace(head.name() + "/" + key, feature);
      }
    });
    return all;
  }

  /// The first head's default; each head's, by its name, with the signatures below it.
  std::map<std::string, ExportOutput> export_outputs() const override {
    std::map<std::string, ExportOutput> all = {{"predict", {}}};
    for (const Head& head : heads_) {
      for (auto& [name, output] : head.impl()->export_outputs()) {
        if (output.outputs.empty()) continue;
        ExportOutput of_head = output;
        for (auto& [shown, key] : of_head.outputs) key = head.name() + "/" + key;
        const bool is_default = name == "serving_default";
        all[is_default ? head.name() : head.name() + "/" + name] = of_head;
        if (is_default) all.emplace("serving_default", of_head);
      }
    }
    return all;
  }

  at::Tensor loss(const at::Tensor& logits, const Labels& labels,
                  const Features& features) const override {
    at::Tensor sum;
    each(logits, [&](size_t index, const Head& head, const at::Tensor& part) {
      const at::Tensor loss = head.loss(part, labels_of(labels, head), features) * weights_[index];
      sum = sum.defined() ? sum + loss : loss;
    });
    return sum;
  }

  std::vector<EvalMetric> metrics(const at::Tensor& logits, const Labels& labels,
                                  const Features& features, ModelContext& context) const override {
    std::vector<EvalMetric> all;
    each(logits, [&](size_t /*index*/, const Head& head, const at::Tensor& part) {
      const Labels own = labels_of(labels, head);
      for (EvalMetric& metric : head.metrics(part, own, features, context)) {
        all.push_back(std::move(metric));
      }
      all.push_back(
          context.mean("loss/" + head.name(), head.loss(part, own, features).reshape({1})));
    });
    return all;
  }

 private:
  template <typename Do>
  void each(const at::Tensor& logits, const Do& act) const {
    int64_t at = 0;
    for (size_t i = 0; i < heads_.size(); ++i) {
      const int64_t width = heads_[i].logits_dimension();
      act(i, heads_[i], logits.narrow(-1, at, width));
      at += width;
    }
  }

  static Labels labels_of(const Labels& labels, const Head& head) {
    const auto found = labels.by_name().find(head.name());
    STRATA_CHECK(found != labels.by_name().end(), kInvalidArgument, "[head] multi_head: no labels ",
                 "for the head '", head.name(), "' among ",
                 join(labels.by_name(), [](const auto& label) { return label.first; }),
                 "; labels have the heads' names");
    return Labels({{found->first, found->second}});
  }

  const std::vector<Head> heads_;
  const std::vector<double> weights_;
};

}  // namespace
}  // namespace detail

Head multi_head(std::vector<Head> heads, std::vector<double> head_weights) {
  STRATA_CHECK(!heads.empty(), kInvalidArgument, "[head] multi_head: Must specify heads.");
  if (head_weights.empty()) head_weights.assign(heads.size(), 1);
  STRATA_CHECK(head_weights.size() == heads.size(), kInvalidArgument, "[head] multi_head: heads ",
               "and head_weights must have the same size. Given len(heads): ", heads.size(),
               ". Given len(head_weights): ", head_weights.size(), ".");
  std::set<std::string> names;
  for (const Head& head : heads) {
    STRATA_CHECK(!head.name().empty(), kInvalidArgument,
                 "[head] multi_head: All given heads must have name specified.");
    STRATA_CHECK(
        names.insert(head.name()).second, kInvalidArgument,
        "[head] multi_head: All heads must have unique names. Given: ", join(heads, &Head::name));
    STRATA_CHECK(head.loss_reduction() == heads.front().loss_reduction(), kInvalidArgument,
                 "[head] multi_head: The loss_reduction must be the same for different heads. ",
                 "Given: ", join(heads, &Head::loss_reduction));
  }
  return Head(std::make_shared<detail::MultiHead>(std::move(heads), std::move(head_weights)));
}

}  // namespace strata::estimator
