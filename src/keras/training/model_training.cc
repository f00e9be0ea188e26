#include <algorithm>
#include <cmath>

#include "keras/training/default_callbacks.h"
#include "keras/training/fit_loop.h"
#include "keras/training/step_graphs.h"
#include "strata/core/log.h"
#include "strata/keras/model.h"
#include "strata/optim/loss_scale_optimizer.h"

namespace strata::keras {
namespace {

using data::Dataset;

/// Rows of tensors as batches. @throws Error kInvalidArgument: different numbers of rows.
Dataset batches_of(const std::vector<at::Tensor>& fields, int64_t batch_size, bool shuffle) {
  STRATA_CHECK(batch_size > 0, kInvalidArgument, "[keras] got batch_size=", batch_size,
               "; expected 1 or more");
  const data::Example rows(fields);
  Dataset dataset = Dataset::from_tensor_slices(rows);
  if (shuffle) dataset = dataset.shuffle(std::max<int64_t>(1, rows.num_rows()));
  return dataset.batch(batch_size);
}

std::vector<at::Tensor> joined(const Tensors& x, const Tensors& y, const at::Tensor& weight) {
  std::vector<at::Tensor> fields = x;
  fields.insert(fields.end(), y.begin(), y.end());
  if (weight.defined()) fields.push_back(weight);
  return fields;
}

std::vector<at::Tensor> rows(const std::vector<at::Tensor>& fields, int64_t begin, int64_t end) {
  std::vector<at::Tensor> part;
  for (const at::Tensor& field : fields) part.push_back(field.slice(0, begin, end));
  return part;
}

}  // namespace

void Model::compile(CompileOptions options) const {
  ModelImpl& model = **this;
  if (options.distribute != nullptr && options.distribute != model.strategy_) {
    STRATA_CHECK(model.weights().empty(), kFailedPrecondition, "[keras] Model '", name(),
                 "': compile got a strategy, and the model has weights already, of ",
                 model.strategy().name(), "; make the model in the strategy's scope");
    model.strategy_ = options.distribute;
  }
  if (options.auto_scale_loss && model.dtype().name() == "mixed_float16" && options.optimizer &&
      !options.optimizer->scales_dynamically()) {
    options.optimizer =
        std::make_shared<optimizers::LossScaleOptimizer>(options.optimizer.shared());
  }
  model.graphs_ =
      std::make_unique<detail::StepGraphs>(model, options.run_eagerly, options.jit_compile);
  model.trainer_ = std::make_unique<detail::Trainer>(model, std::move(options));
}

const CompileOptions* Model::compiled() const {
  const auto& trainer = (*this)->trainer_;
  return trainer == nullptr ? nullptr : &trainer->options();
}

History Model::fit(const Dataset& batches, FitOptions options) const {
  STRATA_CHECK(options.validation_split == 0 && !options.sample_weight.defined(), kInvalidArgument,
               "[keras] fit: validation_split and sample_weight are for tensors; split the dataset "
               "with take() and skip(), and make the weights its elements' last field");
  return detail::fit(*this, batches, std::move(options));
}

History Model::fit(const Tensors& x, const Tensors& y, FitOptions options) const {
  std::vector<at::Tensor> fields = joined(x, y, options.sample_weight);
  STRATA_CHECK(options.validation_split >= 0 && options.validation_split < 1, kInvalidArgument,
               "[keras] fit: got validation_split=", options.validation_split,
               "; expected a number in [0, 1)");
  if (options.validation_split > 0) {
    const int64_t all = data::Example(fields).num_rows();
    const auto trained =
        static_cast<int64_t>(std::floor(static_cast<double>(all) * (1 - options.validation_split)));
    STRATA_CHECK(trained > 0 && trained < all, kInvalidArgument,
                 "[keras] fit: validation_split=", options.validation_split, " of ", all,
                 " examples leaves one of the two parts empty");
    options.validation_data = batches_of(rows(fields, trained, all), options.batch_size, false);
    fields = rows(fields, 0, trained);
  }
  const Dataset batches = batches_of(fields, options.batch_size, options.shuffle);
  return detail::fit(*this, batches, std::move(options));
}

History Model::fit(const at::Tensor& x, const at::Tensor& y, FitOptions options) const {
  return fit(Tensors{x}, Tensors{y}, std::move(options));
}

Logs Model::evaluate(const Dataset& batches, EvaluateOptions options) const {
  const int verbose = detail::verbosity(*this, options.verbose);
  detail::Callbacks callbacks = std::move(options.callbacks);
  detail::add_default_callbacks(callbacks, verbose);
  detail::TestLoop loop(*this, batches, options.steps, callbacks, verbose);
  const detail::ScopedCallbacks attached(callbacks, loop);
  return detail::with_other_workers(*this, [&] { return loop.run(); });
}

Logs Model::evaluate(const Tensors& x, const Tensors& y, EvaluateOptions options) const {
  const Dataset batches =
      batches_of(joined(x, y, options.sample_weight), options.batch_size, false);
  return evaluate(batches, std::move(options));
}

Logs Model::evaluate(const at::Tensor& x, const at::Tensor& y, EvaluateOptions options) const {
  return evaluate(Tensors{x}, Tensors{y}, std::move(options));
}

Tensors Model::predict_all(const Dataset& batches, PredictOptions options) const {
  detail::PredictLoop loop(*this, batches, std::move(options));
  return detail::with_other_workers(*this, [&] { return loop.run(); });
}

at::Tensor Model::predict(const Dataset& batches, PredictOptions options) const {
  Tensors outputs = predict_all(batches, std::move(options));
  STRATA_CHECK(outputs.size() == 1, kInvalidArgument, "[keras] Model '", name(), "': has ",
               outputs.size(), " outputs; use predict_all");
  return outputs[0];
}

at::Tensor Model::predict(const at::Tensor& x, PredictOptions options) const {
  const Dataset batches = batches_of({x}, options.batch_size, false);
  return predict(batches, std::move(options));
}

Logs Model::train_on_batch(const data::Example& batch) const {
  return detail::one_batch(*this, batch, /*training=*/true);
}
Logs Model::test_on_batch(const data::Example& batch) const {
  return detail::one_batch(*this, batch, /*training=*/false);
}

void Model::reset_metrics() const { (*this)->trainer().reset_metrics(); }

}  // namespace strata::keras
