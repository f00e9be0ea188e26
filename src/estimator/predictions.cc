#include <algorithm>
#include <optional>
#include <utility>

#include "core/join.h"
#include "estimator/estimator_impl.h"
#include "estimator/hooked_steps.h"
#include "estimator/reading_session.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace {

constexpr ReadingSession::Call kPredict = {"predict", "has no loss"};

/// Row `row` of each prediction, without the dimension of rows; a text keeps `[1, width]`.
Features row_of(const Features& batch, int64_t row) {
  Features one;
  for (const auto& [name, feature] : batch) {
    const bool flat_text = feature.is_text && feature.values.dim() == 2;
    one.emplace(name, Feature{.values = flat_text ? feature.values.narrow(0, row, 1)
                                                  : feature.values.select(0, row),
                              .is_text = feature.is_text,
                              .is_sparse = feature.is_sparse});
  }
  return one;
}

}  // namespace

class Predictions::Impl {
 public:
  Impl(std::shared_ptr<Estimator::Impl> estimator, InputFn input_fn, PredictOptions options)
      : estimator_(std::move(estimator)),
        input_fn_(std::move(input_fn)),
        options_(std::move(options)) {}

  std::optional<Features> next() {
    if (ended_) return std::nullopt;
    if (!model_) start();
    if (!options_.yield_single_examples) return next_batch();
    while (row_ == rows_) {
      auto batch = next_batch();
      if (!batch) return std::nullopt;
      check_rows(*batch);
      batch_ = std::move(*batch);
      row_ = 0;
      rows_ = batch_.begin()->second.values.size(0);
    }
    return row_of(batch_, row_++);
  }

 private:
  void start() {
    Strategy& strategy = default_strategy();
    const auto checkpoint = estimator_->checkpoint_to_read(options_.checkpoint_path);
    const int64_t global_step = checkpoint ? detail::step_of_checkpoint(*checkpoint) : 0;
    const RunConfig& config = estimator_->options.config;
    input_.emplace(strategy, input_fn_);
    model_.emplace(estimator_->model_fn, strategy, config, estimator_->options.params,
                   Mode::kPredict, global_step, input_->fields(), input_->first());
    const Features& known = model_->spec().predictions;
    const bool some = std::ranges::any_of(
        options_.predict_keys, [&](const std::string& key) { return known.contains(key); });
    STRATA_CHECK(options_.predict_keys.empty() || some, kInvalidArgument,
                 "[estimator] predict: expected at least one of the predictions (",
                 join(known, [](const auto& each) { return each.first; }), "), got predict_keys ",
                 join(options_.predict_keys));
    session_.emplace(kPredict, config, global_step, /*is_chief=*/true);
    Hooks hooks = options_.hooks;
    const Hooks& of_model = model_->spec().prediction_hooks;
    hooks.insert(hooks.end(), of_model.begin(), of_model.end());
    steps_.emplace(*session_, std::move(hooks));
    steps_->begin();
    estimator_->restore(*model_, checkpoint);
    steps_->created();
  }

  std::optional<Features> next_batch() {
    Features batch;
    const bool made =
        steps_->step(*input_, [&](const detail::BuiltModel::Element& rows, const auto& made_step) {
          batch = to_features(model_->run(rows).get(0));
          made_step(ReadingResults(kPredict));
          return true;
        });
    if (made) return batch;
    ended_ = true;
    steps_->end();
    return std::nullopt;
  }

  Features to_features(const graph::FunctionCore::Result& result) const {
    const auto& keys = options_.predict_keys;
    const auto& names = detail::BuiltModel::names(result).all;
    Features batch;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!keys.empty() && std::ranges::find(keys, names[i]) == keys.end()) continue;
      const Feature& kind = model_->spec().predictions.at(names[i]);
      batch.emplace(names[i], Feature{.values = result.tensors.at(i),
                                      .is_text = kind.is_text,
                                      .is_sparse = kind.is_sparse});
    }
    return batch;
  }

  static void check_rows(const Features& batch) {
    const at::Tensor& first = batch.begin()->second.values;
    for (const auto& [name, feature] : batch) {
      const at::Tensor& values = feature.values;
      STRATA_CHECK(values.dim() > 0 && first.dim() > 0 && values.size(0) == first.size(0),
                   kInvalidArgument, "[estimator] predict: got '", name, "' with another number ",
                   "of rows than '", batch.begin()->first, "'; predictions have a row for each of ",
                   "the batch, or yield_single_examples is false");
    }
  }

  const std::shared_ptr<Estimator::Impl> estimator_;
  const InputFn input_fn_;
  const PredictOptions options_;
  std::optional<detail::BatchInput> input_;
  std::optional<detail::BuiltModel> model_;
  std::optional<ReadingSession> session_;
  std::optional<detail::HookedSteps> steps_;
  Features batch_;
  int64_t row_ = 0;
  int64_t rows_ = 0;
  bool ended_ = false;
};

std::optional<Features> Predictions::next() { return impl_->next(); }

Predictions Estimator::predict(const InputFn& input_fn, const PredictOptions& options) const {
  return Predictions(std::make_shared<Predictions::Impl>(impl_, input_fn, options));
}

}  // namespace strata::estimator
