#include "estimator/built_model.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "keras/call_context.h"
#include "keras/training/step_graphs.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/log.h"

namespace strata::estimator::detail {
namespace {

/// Recording may make a step's calls so much slower, until replays have made up for it. As in
/// `fit`.
constexpr double kRecordingShare = 0.04;

constexpr const char* kModeNames[] = {"train", "evaluate", "predict"};
const char* name_of(Mode mode) { return kModeNames[static_cast<size_t>(mode)]; }

/// Whether every replica has variables of its own; else a step fetches them, and graphs have no
/// words for that.
bool records_steps(const ReplicaGroup& group) {
  const VariablePlacement& placement = group.placement();
  return placement.store() == nullptr && placement.has_copy_per_replica();
}

int64_t rows_in(const std::vector<at::Tensor>& fields) {
  return fields.empty() || fields[0].dim() == 0 ? 0 : fields[0].size(0);
}

/// Keeps libtorch's generator as it is: what evaluations draw is not missing in a training around
/// them.
class KeptGenerator {
 public:
  explicit KeptGenerator(bool keep) {
    if (keep) state_ = generator_.get_state();
  }
  ~KeptGenerator() {
    if (state_.defined()) generator_.set_state(state_);
  }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  at::Generator generator_ = at::globalContext().defaultGenerator(at::kCPU);
  at::Tensor state_;
};

void sort_by_name(std::vector<EvalMetric>& metrics) {
  std::ranges::sort(metrics, {}, &EvalMetric::name);
}

}  // namespace

BatchInput::BatchInput(Strategy& strategy, const InputFn& input_fn) {
  STRATA_CHECK(input_fn, kInvalidArgument, "[estimator] input_fn: got none; expected a function ",
               "that gives a dataset");
  const DistributedDataset data = strategy.distribute_from_function(
      [&](const InputContext& context) {
        Input input = input_fn(context);
        fields_.emplace(std::move(input.features), std::move(input.labels));
        return std::move(input.dataset);
      },
      {.prefetch = data::kAutotune});
  feed_.emplace(data, /*continuous=*/false);
}

data::Example BatchInput::first() {
  const auto parts = feed_->peek();
  STRATA_CHECK(parts.has_value(), kInvalidArgument,
               "[estimator] input_fn: got a dataset without batches; the model is made by the ",
               "first one");
  const data::Example& first = parts->get(0);
  fields_->check(first.fields.size());
  return first;
}

std::optional<DistributedDataset::Element> BatchInput::next() {
  auto parts = feed_->next(1, true);
  if (parts.empty()) return std::nullopt;
  return std::move(parts[0]);
}

BuiltModel::BuiltModel(const ModelFn& model_fn, Strategy& strategy, const RunConfig& config,
                       const std::any& params, Mode mode, int64_t global_step,
                       const BatchFields& fields, const data::Example& first)
    : model_fn_(model_fn), fields_(fields), store_(strategy, config, params, mode, global_step) {
  const KeptGenerator kept(mode != Mode::kTrain);
  if (config.options().tf_random_seed) keras::set_random_seed(*config.options().tf_random_seed);
  strategy.scope([&] {
    {
      const at::NoGradGuard no_grad;
      ModelContext context(store_, rows_in(first.fields), /*building=*/true);
      spec_ = call(first.fields, context);
    }
    store_.finish();
    store_.reset_metrics();
    if (mode == Mode::kEval) {
      mean_loss_.emplace("loss");
      mean_loss_->build();
    }
  });
  sort_by_name(spec_.eval_metrics);
  std::set<std::string> names = {"loss", "global_step"};
  for (const EvalMetric& metric : spec_.eval_metrics) {
    STRATA_CHECK(names.insert(metric.name).second, kInvalidArgument,
                 "[estimator] model_fn: a metric called '", metric.name,
                 "' is not allowed: the name is taken (loss and global_step are the estimator's)");
  }
  if (!records_steps(strategy.group())) return;
  const std::string label = name_of(mode);
  function_ = std::make_unique<graph::FunctionCore>(
      FunctionOptions{.name = label + "_step"},
      graph::RecordingPolicy{
          .share = kRecordingShare, .refused = [label](const std::string& reason) {
            STRATA_LOG(kWarning) << "[estimator] the step of " << label
                                 << " is not run as a graph but as it is written, with the same "
                                    "results: "
                                 << reason;
          }});
}

EstimatorSpec BuiltModel::call(const std::vector<at::Tensor>& fields, ModelContext& context) const {
  const bool training = store_.mode() == Mode::kTrain && !context.building();
  const keras::detail::CallContextGuard of_layers(
      {.training = training, .decided = true, .losses = &context.added_losses()});
  EstimatorSpec spec = model_fn_(
      fields_.features(fields), store_.mode() == Mode::kPredict ? Labels() : fields_.labels(fields),
      store_.mode(), context);
  check(spec);
  return spec;
}

void BuiltModel::check(const EstimatorSpec& spec) const {
  const auto need = [&](bool there, const char* what) {
    STRATA_CHECK(there, kInvalidArgument, "[estimator] model_fn: missing ", what,
                 " in the spec of ", name_of(store_.mode()));
  };
  if (store_.mode() == Mode::kTrain) need(static_cast<bool>(spec.train_op), "train_op");
  if (store_.mode() == Mode::kPredict) return need(!spec.predictions.empty(), "predictions");
  need(spec.loss.defined(), "loss");
  STRATA_CHECK(spec.loss.numel() == 1, kInvalidArgument, "[estimator] model_fn: loss must be ",
               "scalar; got ", spec.loss.numel(), " elements; take their mean");
}

std::vector<at::Tensor> BuiltModel::step(const std::vector<at::Tensor>& fields,
                                         graph::FunctionCore::Structured& structure) {
  ModelContext context(store_, rows_in(fields), /*building=*/false);
  EstimatorSpec spec = call(fields, context);
  std::vector<at::Tensor> results;
  std::vector<std::string> names;
  size_t histograms = 0;
  switch (store_.mode()) {
    case Mode::kTrain:
      spec.train_op();
      results.push_back(spec.loss.detach().reshape({}));
      for (const auto& [name, value] : context.scalars()) {
        names.push_back(name);
        results.push_back(value);
      }
      for (const auto& [name, values] : context.histograms()) {
        names.push_back(name);
        results.push_back(values);
      }
      histograms = context.histograms().size();
      break;
    case Mode::kEval:
      if (context.rows() == 0) break;  // the last step of unequal inputs
      sort_by_name(spec.eval_metrics);
      for (const EvalMetric& metric : spec.eval_metrics) metric.update();
      mean_loss_->update(spec.loss.detach().reshape({1}));
      break;
    case Mode::kPredict:
      for (const auto& [name, feature] : spec.predictions) {
        names.push_back(name);
        results.push_back(feature.values.detach());
      }
      break;
  }
  for (const std::string& name : names) structure.rest += name + '\0';
  structure.rest += std::to_string(histograms);
  structure.value = Names{.all = std::move(names), .histograms = histograms};
  return results;
}

EstimatorSpec BuiltModel::predict(const Features& features) {
  const int64_t rows = features.empty() ? 0 : features.begin()->second.values.size(0);
  ModelContext context(store_, rows, /*building=*/false);
  const keras::detail::CallContextGuard of_layers(
      {.training = false, .decided = true, .losses = &context.added_losses()});
  return store_.strategy().scope(
      [&] { return model_fn_(features, Labels(), store_.mode(), context); });
}

BuiltModel::Results BuiltModel::run(const Element& parts) {
  if (function_) function_->prepare_to_record();
  const bool training = store_.mode() == Mode::kTrain;
  return store_.strategy().run(keras::detail::CallsOfSteps{[&] {
    const data::Example& part = parts.get(get_replica_context()->local_replica());
    const at::AutoGradMode gradients(training);
    graph::FunctionCore::Result result;
    if (function_) {
      function_->call(
          {.tensors = part.fields, .rest = {}},
          [this](const std::vector<at::Tensor>& fields,
                 graph::FunctionCore::Structured& structure) { return step(fields, structure); },
          result);
    } else {
      const auto structure = std::make_shared<graph::FunctionCore::Structured>();
      result.tensors = step(part.fields, *structure);
      result.structure = structure;
    }
    return result;
  }});
}

const BuiltModel::Names& BuiltModel::names(const graph::FunctionCore::Result& result) {
  static const Names none;
  if (!result.structure) return none;
  const auto* names = std::any_cast<Names>(&result.structure->value);
  return names == nullptr ? none : *names;
}

}  // namespace strata::estimator::detail
