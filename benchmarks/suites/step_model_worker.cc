// The strata side of suite step's models: Keras's layers through `fit`, with nothing around it, and
// torch::nn's modules in a custom loop, behind the line protocol of benchmarks/peers/README.md.
#include "strata/core/error.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/losses.h"
#include "strata/optim/optimizers.h"
#include "suites/keras_models.h"
#include "suites/torch_modules.h"
#include "suites/training_loop.h"
#include "suites/worker.h"

namespace strata::bench {
namespace {

/// The file's rows as the model takes them: words as integers, images channels last.
data::Example model_rows(const std::string& model, const data::Example& pool) {
  if (model == "resnet20") {
    return {pool.x().view({pool.x().size(0), pool.x().size(1), 32, 32, 3}), pool.y()};
  }
  if (model == "dense") return pool;
  const at::Tensor words = pool.x().to(at::kLong);
  if (model == "lstm") return {words, pool.y()};
  const int64_t tokens = words.size(2) - 1;
  return {words.narrow(2, 0, tokens).contiguous(), words.narrow(2, 1, tokens).contiguous()};
}

optimizers::AnyOptimizer model_optimizer(const std::string& model) {
  if (model == "resnet20") return optimizers::SGD({.learning_rate = 0.01, .momentum = 0.9});
  return optimizers::Adam({.learning_rate = 1e-3});
}

void serve_modules(Strategy& strategy, const StepModel& step_model, const data::Example& rows) {
  const auto adam = [](std::vector<Variable> variables) {
    return optimizers::Adam(std::move(variables), {.learning_rate = 1e-3});
  };
  const Batches batches = distribute_batches(rows, strategy);
  if (step_model.model == "dense") {
    serve_training(
        strategy, batches, [] { return Mlp(784, 1024, 10); }, adam, step_model.as_function);
    return;
  }
  STRATA_CHECK(step_model.model == "transformer", kInvalidArgument, "[strata bench] worker: got ",
               step_model.model, " of torch::nn's modules; expected dense or transformer");
  const int64_t tokens = rows.x().size(2);
  const bool encoder = step_model.layers == StepModel::Layers::kEncoder;
  serve_training(
      strategy, batches, [=] { return WordTransformer(tokens, encoder); }, adam,
      step_model.as_function);
}

}  // namespace

void serve_step_model(Strategy& strategy, const StepModel& step_model) {
  const data::Example pool = read_pool(step_model.data, 0);
  const data::Example rows = model_rows(step_model.model, pool);
  if (step_model.layers != StepModel::Layers::kKeras) {
    return serve_modules(strategy, step_model, rows);
  }
  if (step_model.bf16) keras::set_dtype_policy("mixed_bfloat16");
  const keras::Model model = strategy.scope([&] {
    keras::Model net = make_keras_model(step_model.model, rows.x().size(2));
    net.compile({.optimizer = model_optimizer(step_model.model),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return net;
  });
  const int64_t batch = rows.x().size(1);
  serve_plain_fit(model, {rows.x().flatten(0, 1), rows.y().flatten(0, 1)},
                  batch * strategy.num_replicas_in_sync());
}

}  // namespace strata::bench
