#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <numbers>
#include <utility>

#include "estimator/heads/head_impl.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace detail {
namespace {

/// log(z!), about; 0 up to 1.
at::Tensor stirling(const at::Tensor& z) {
  const at::Tensor safe = at::where(z > 1, z, z.new_ones({}));
  return at::where(z > 1, safe * at::log(safe) - safe + 0.5 * at::log(2 * std::numbers::pi * safe),
                   at::zeros_like(z));
}

/// The three heads of numbers differ in this.
struct Link {
  const char* head;
  std::function<at::Tensor(const at::Tensor& logits)> inverse = {};
  std::function<at::Tensor(const at::Tensor& labels, const at::Tensor& logits)> losses = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

class RegressionHead final : public SingleHead {
 public:
  RegressionHead(std::string name, LossReduction reduction, WeightColumn weight_column,
                 int64_t dimension, Link link)
      : SingleHead(std::move(name), std::move(reduction), std::move(weight_column)),
        dimension_(dimension),
        link_(std::move(link)) {}

  std::map<std::string, ExportOutput> export_outputs() const override {
    const ExportOutput numbers = {.method = "regress", .outputs = {{"outputs", "predictions"}}};
    return {{"serving_default", numbers}, {"regression", numbers}, {"predict", {}}};
  }
  int64_t logits_dimension() const override { return dimension_; }

  Features predictions(const at::Tensor& logits) const override {
    if (!link_.inverse) return {{"predictions", {.values = logits}}};
    return {{"predictions", {.values = link_.inverse(logits)}}, {"logits", {.values = logits}}};
  }

 private:
  const char* head() const override { return link_.head; }
  at::Tensor predicted(const at::Tensor& logits) const {
    return link_.inverse ? link_.inverse(logits) : logits;
  }

  at::Tensor labels_of(const Feature& given, const at::Tensor& logits) const override {
    STRATA_CHECK(!given.is_text, kInvalidArgument, "[head] ", head(),
                 ": got labels that are text; expected numbers");
    const at::Tensor labels = shaped(given.values, logits, dimension_).to(logits.scalar_type());
    if (link_.least > -std::numeric_limits<double>::infinity()) {
      check_range(
          labels, link_.least, link_.most,
          str_cat("[head] ", head(), ": labels must be in [", link_.least, ", ", link_.most, "]"));
    }
    return labels;
  }
  at::Tensor losses(const at::Tensor& labels, const at::Tensor& logits) const override {
    if (link_.losses) return link_.losses(labels, logits);
    const at::Tensor error = labels - predicted(logits);
    return error * error;
  }
  std::vector<EvalMetric> more_metrics(const Evaluated& of) const override {
    return {mean("label/mean", of.labels, of),
            mean("prediction/mean", predicted(of.logits).detach(), of)};
  }

  const int64_t dimension_;
  const Link link_;
};

void check_dimension(int64_t dimension, const char* head) {
  STRATA_CHECK(dimension >= 1, kInvalidArgument, "[head] ", head, ": Invalid label_dimension ",
               dimension, ".");
}

}  // namespace
}  // namespace detail

Head regression_head(const RegressionHeadOptions& options) {
  options.loss_reduction.check("[head] regression_head");
  detail::check_dimension(options.label_dimension, "regression_head");
  return Head(std::make_shared<detail::RegressionHead>(
      options.name, options.loss_reduction, options.weight_column, options.label_dimension,
      detail::Link{.head = "regression_head", .inverse = options.inverse_link_fn}));
}

Head poisson_regression_head(const PoissonRegressionHeadOptions& options) {
  options.loss_reduction.check("[head] poisson_regression_head");
  detail::check_dimension(options.label_dimension, "poisson_regression_head");
  const bool full = options.compute_full_loss;
  return Head(std::make_shared<detail::RegressionHead>(
      options.name, options.loss_reduction, options.weight_column, options.label_dimension,
      detail::Link{.head = "poisson_regression_head",
                   .inverse = [](const at::Tensor& logits) { return at::exp(logits); },
                   .losses =
                       [full](const at::Tensor& labels, const at::Tensor& logits) {
                         const at::Tensor loss = at::exp(logits) - labels * logits;
                         return full ? loss + detail::stirling(labels) : loss;
                       },
                   .least = 0}));
}

Head logistic_regression_head(const LogisticRegressionHeadOptions& options) {
  options.loss_reduction.check("[head] logistic_regression_head");
  return Head(std::make_shared<detail::RegressionHead>(
      options.name, options.loss_reduction, options.weight_column, 1,
      detail::Link{.head = "logistic_regression_head",
                   .inverse = [](const at::Tensor& logits) { return at::sigmoid(logits); },
                   .losses = detail::sigmoid_cross_entropy,
                   .least = 0,
                   .most = 1}));
}

}  // namespace strata::estimator
