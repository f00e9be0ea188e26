#pragma once

// Small models, batches and optimizers, and the two loops that tests compare: on one device, and
// under a strategy.

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/data/dataset.h"
#include "strata/optim/legacy_optimizers.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/sync_batch_norm.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/strategies/strategy.h"

namespace strata::parity {

using Batches = std::vector<data::Example>;

enum class Kind { kMlp, kCnn, kEmbedding, kSparseEmbedding };
inline constexpr Kind kAllKinds[] = {Kind::kMlp, Kind::kCnn, Kind::kEmbedding,
                                     Kind::kSparseEmbedding};

inline const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kMlp:
      return "mlp";
    case Kind::kCnn:
      return "cnn+syncbn";
    case Kind::kEmbedding:
      return "embedding";
    case Kind::kSparseEmbedding:
      return "embedding(sparse)";
  }
  return "?";
}

/// Parameters that depend on nothing but their place and shape.
inline void set_weights(torch::nn::Module& module, double scale = 0.5) {
  const at::NoGradGuard no_grad;
  double phase = 0;
  for (at::Tensor& parameter : module.parameters()) {
    const at::Tensor angles = at::arange(parameter.numel(), at::kDouble) * 1.7 + (phase += 0.9);
    parameter.copy_((at::sin(angles) * scale).reshape(parameter.sizes()));
  }
}

/// One of the models; 4 classes. `plain`: with libtorch's own BatchNormalization.
class Net : public torch::nn::Module {
 public:
  Net(Kind kind, at::ScalarType dtype, bool plain = false) : kind_(kind) {
    namespace nn = torch::nn;
    switch (kind) {
      case Kind::kMlp:
        first_ = register_module("first", nn::Linear(6, 9));
        second_ = register_module("second", nn::Linear(9, 7));
        break;
      case Kind::kCnn:
        conv_ = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)));
        if (plain) {
          plain_norm_ = register_module("norm", nn::BatchNorm2d(4));
        } else {
          norm_ = register_module("norm", SyncBatchNorm(SyncBatchNormOptions(4)));
        }
        conv_2_ = register_module("conv_2", nn::Conv2d(nn::Conv2dOptions(4, 2, 3)));
        second_ = register_module("second", nn::Linear(2 * 3 * 3, 7));
        break;
      default:
        table_ = register_module(
            "table",
            nn::Embedding(nn::EmbeddingOptions(13, 5).sparse(kind == Kind::kSparseEmbedding)));
        second_ = register_module("second", nn::Linear(5, 7));
        break;
    }
    out_ = register_module("out", nn::Linear(7, 4));
    to(dtype);
    set_weights(*this);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor h = x;
    switch (kind_) {
      case Kind::kMlp:
        h = at::relu(first_(h));
        break;
      case Kind::kCnn:
        h = conv_(h);
        h = at::relu(norm_ ? norm_->forward(h) : plain_norm_->forward(h));
        h = at::relu(conv_2_(h)).flatten(1);
        break;
      default:
        h = table_(h).mean(1);
        break;
    }
    return out_(at::tanh(second_(h)));
  }

 private:
  Kind kind_;
  torch::nn::Linear first_{nullptr}, second_{nullptr}, out_{nullptr};
  torch::nn::Conv2d conv_{nullptr}, conv_2_{nullptr};
  SyncBatchNorm norm_{nullptr};
  torch::nn::BatchNorm2d plain_norm_{nullptr};
  torch::nn::Embedding table_{nullptr};
};

/// `steps` batches of the sizes in turn, cut from different places of 64 fixed rows.
inline Batches make_batches(Kind kind, at::ScalarType dtype, int steps,
                            const std::vector<int64_t>& sizes) {
  constexpr int64_t kRows = 64;
  const at::Generator generator = at::detail::createCPUGenerator(17);
  at::Tensor x;
  switch (kind) {
    case Kind::kMlp:
      x = at::randn({kRows, 6}, generator, at::kDouble);
      break;
    case Kind::kCnn:
      x = at::randn({kRows, 2, 5, 5}, generator, at::kDouble) + 0.3;
      break;
    default:
      x = at::randint(0, 13, {kRows, 5}, generator, at::kLong);
      break;
  }
  if (x.is_floating_point()) x = x.to(dtype);
  const at::Tensor y = at::randint(0, 4, {kRows}, generator, at::kLong);
  Batches batches;
  int64_t begin = 0;
  for (int step = 0; step < steps; ++step) {
    const int64_t size = sizes[static_cast<size_t>(step) % sizes.size()];
    if (begin + size > kRows) begin = step % 5;
    batches.push_back({x.narrow(0, begin, size), y.narrow(0, begin, size)});
    begin += size;
  }
  return batches;
}

inline data::Dataset as_dataset(const Batches& batches) {
  return data::Dataset::from_generator(
      [batches, i = size_t{0}]() mutable -> std::optional<data::Example> {
        if (i == batches.size()) return std::nullopt;
        return batches[i++];
      });
}

using MakeOptimizer = std::function<std::unique_ptr<optimizers::Optimizer>(std::vector<Variable>)>;

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
};

template <typename O, typename Options>
OptimizerCase optimizer_case(std::string name, Options options) {
  return {std::move(name), [options](std::vector<Variable> variables) {
            return std::make_unique<O>(std::move(variables), options);
          }};
}

inline std::vector<OptimizerCase> optimizer_cases() {
  using namespace optimizers;
  const schedules::ExponentialDecay decay{
      .initial_learning_rate = 0.1, .decay_steps = 5, .decay_rate = 0.8};
  const schedules::CosineDecay cosine{
      .initial_learning_rate = 0, .decay_steps = 20, .warmup_target = 0.02, .warmup_steps = 5};
  return {
      optimizer_case<SGD>("sgd", SGDOptions{.learning_rate = 0.1}),
      optimizer_case<SGD>("sgd momentum", SGDOptions{.learning_rate = 0.1, .momentum = 0.9}),
      optimizer_case<SGD>("sgd nesterov",
                          SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
      optimizer_case<SGD>("sgd momentum clipnorm",
                          SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .clipnorm = 0.05}),
      optimizer_case<SGD>(
          "sgd schedule weight_decay",
          SGDOptions{.learning_rate = decay, .momentum = 0.9, .weight_decay = 0.05}),
      optimizer_case<Adam>("adam", AdamOptions{.learning_rate = 0.01}),
      optimizer_case<Adam>("adam amsgrad",
                           AdamOptions{.learning_rate = 0.01, .beta_2 = 0.8, .amsgrad = true}),
      optimizer_case<Adam>("adam clipvalue", AdamOptions{.learning_rate = 0.01, .clipvalue = 0.01}),
      optimizer_case<Adam>("adam global_clipnorm",
                           AdamOptions{.learning_rate = 0.01, .global_clipnorm = 0.1}),
      optimizer_case<AdamW>("adamw schedule", AdamWOptions{.learning_rate = cosine}),
      optimizer_case<Adagrad>("adagrad", AdagradOptions{.learning_rate = 0.1}),
      optimizer_case<Adagrad>("adagrad global_clipnorm",
                              AdagradOptions{.learning_rate = 0.1, .global_clipnorm = 0.1}),
      optimizer_case<RMSprop>("rmsprop", RMSpropOptions{.learning_rate = 0.01}),
      optimizer_case<RMSprop>("rmsprop momentum",
                              RMSpropOptions{.learning_rate = 0.005, .momentum = 0.9}),
      optimizer_case<RMSprop>(
          "rmsprop centered weight_decay",
          RMSpropOptions{.learning_rate = 0.005, .centered = true, .weight_decay = 0.05}),
      optimizer_case<Adadelta>("adadelta", AdadeltaOptions{.learning_rate = 1.0}),
      optimizer_case<Adadelta>("adadelta clipnorm",
                               AdadeltaOptions{.learning_rate = 1.0, .clipnorm = 0.05}),
      optimizer_case<Ftrl>("ftrl", FtrlOptions{.learning_rate = 0.1}),
      optimizer_case<Ftrl>("ftrl l1 l2", FtrlOptions{.learning_rate = 0.1,
                                                     .l1_regularization_strength = 0.002,
                                                     .l2_regularization_strength = 0.01,
                                                     .l2_shrinkage_regularization_strength = 0.01,
                                                     .beta = 0.1}),
  };
}

/// Those that not every test trains. Some make long steps of a gradient that is nothing but
/// rounding, such as that of a bias before BatchNormalization, so there they have no right result.
inline std::vector<OptimizerCase> more_optimizer_cases() {
  using namespace optimizers;
  const schedules::ExponentialDecay decay{
      .initial_learning_rate = 0.1, .decay_steps = 5, .decay_rate = 0.8};
  return {
      optimizer_case<Adamax>("adamax", AdamaxOptions{.learning_rate = 0.01}),
      optimizer_case<Nadam>("nadam", NadamOptions{.learning_rate = 0.01}),
      optimizer_case<Lion>("lion", LionOptions{.learning_rate = 0.001, .weight_decay = 0.1}),
      optimizer_case<Lamb>("lamb", LambOptions{.learning_rate = 0.01, .weight_decay = 0.05}),
      optimizer_case<LARS>(
          "lars",
          LARSOptions{
              .learning_rate = 0.1, .eeta = 0.05, .skip_list = {"bias"}, .weight_decay = 0.01}),
      optimizer_case<LARS>("lars accumulation clipnorm",
                           LARSOptions{.learning_rate = 0.1,
                                       .eeta = 0.05,
                                       .nesterov = true,
                                       .skip_list = {"bias"},
                                       .weight_decay = 0.01,
                                       .global_clipnorm = 0.5,
                                       .use_ema = true,
                                       .gradient_accumulation_steps = 2}),
      optimizer_case<Muon>("muon", MuonOptions{.learning_rate = 0.01}),
      optimizer_case<ScheduleFreeAdamW>(
          "schedule_free_adamw",
          ScheduleFreeAdamWOptions{.learning_rate = 0.01, .warmup_steps = 5}),
      optimizer_case<Adafactor>("adafactor", AdafactorOptions{.learning_rate = 0.01}),
      optimizer_case<Adam>("adam ema", AdamOptions{.learning_rate = 0.01,
                                                   .use_ema = true,
                                                   .ema_momentum = 0.8,
                                                   .ema_overwrite_frequency = 7}),
      optimizer_case<Adam>("adam accumulation",
                           AdamOptions{.learning_rate = 0.01, .gradient_accumulation_steps = 3}),
      optimizer_case<Nadam>("nadam accumulation clipnorm ema",
                            NadamOptions{.learning_rate = decay,
                                         .clipnorm = 0.05,
                                         .use_ema = true,
                                         .loss_scale_factor = 8,
                                         .gradient_accumulation_steps = 2}),
      optimizer_case<Lamb>("lamb accumulation",
                           LambOptions{.learning_rate = 0.01, .gradient_accumulation_steps = 4}),
      optimizer_case<legacy::SGD>("legacy sgd momentum",
                                  SGDOptions{.learning_rate = 0.1, .momentum = 0.9}),
      optimizer_case<legacy::Adagrad>("legacy adagrad",
                                      legacy::AdagradOptions{.learning_rate = 0.1}),
      optimizer_case<legacy::RMSprop>(
          "legacy rmsprop momentum global_clipnorm",
          legacy::RMSpropOptions{.learning_rate = 0.005, .momentum = 0.9, .global_clipnorm = 0.1}),
      optimizer_case<legacy::Ftrl>("legacy ftrl", FtrlOptions{.learning_rate = 0.1}),
      optimizer_case<AdamW>("adamw of touched rows",
                            AdamWOptions{.learning_rate = 0.01, .touched_rows_only = true}),
      {"loss scale of adam",
       [](std::vector<Variable> variables) {
         auto optimizer = std::make_unique<LossScaleOptimizer>(
             Adam({.learning_rate = 0.01, .global_clipnorm = 0.1}),
             LossScaleOptions{.initial_scale = 64, .dynamic_growth_steps = 5});
         optimizer->build(std::move(variables));
         return optimizer;
       }},
  };
}

/// How the loss is divided by the global number of examples.
enum class Form {
  kAverageLoss,  ///< compute_average_loss(..., global)
  kWeight,       ///< a sum, and MinimizeOptions::weight
};

struct Outcome {
  std::vector<at::Tensor> weights, slots, buffers;
  std::vector<double> losses;
};

/// One step on one replica's rows; returns its share of the mean loss.
template <typename Model>
double train_step(Model& net, optimizers::Optimizer& optimizer, const data::Example& rows,
                  int64_t global_rows, Form form) {
  const at::Tensor per_example = losses::sparse_categorical_crossentropy(
      rows.y(), net.forward(rows.x()), {.from_logits = true});
  if (form == Form::kAverageLoss) {
    const at::Tensor loss = compute_average_loss(per_example, global_rows);
    optimizer.minimize(loss);
    return loss.item<double>();
  }
  const at::Tensor sum = per_example.sum();
  optimizer.minimize(sum, {.weight = static_cast<double>(rows.num_rows())});
  return sum.item<double>() / static_cast<double>(global_rows);
}

inline Outcome outcome_of(const Replicated<Net>& net, const optimizers::Optimizer& optimizer) {
  Outcome outcome;
  for (const Variable& variable : net.variables()) {
    outcome.weights.push_back(variable.value().detach().clone());
  }
  for (const auto& [name, slot] : optimizer.slots()) outcome.slots.push_back(slot.clone());
  for (const Variable& variable : net.buffers())
    outcome.buffers.push_back(variable.value().clone());
  return outcome;
}

/// The default strategy, outside any run, on one thread: these models are too small for more.
inline Outcome train_on_one_device(Kind kind, at::ScalarType dtype, const Batches& batches,
                                   const OptimizerCase& optimizer_case, Form form) {
  at::set_num_threads(1);
  const auto net = default_strategy().replicate([&] { return std::make_shared<Net>(kind, dtype); });
  const auto optimizer = optimizer_case.make(net.variables());
  std::vector<double> losses;
  for (const data::Example& batch : batches) {
    losses.push_back(train_step(*net, *optimizer, batch, batch.num_rows(), form));
  }
  Outcome outcome = outcome_of(net, *optimizer);
  outcome.losses = std::move(losses);
  return outcome;
}

inline Outcome train_under(Strategy& strategy, Kind kind, at::ScalarType dtype,
                           const Batches& batches, const OptimizerCase& optimizer_case, Form form) {
  const auto net = strategy.replicate([&] { return std::make_shared<Net>(kind, dtype); });
  const auto optimizer = optimizer_case.make(net.variables());
  std::vector<double> losses;
  size_t step = 0;
  for (const PerReplica<data::Example>& batch : strategy.distribute(as_dataset(batches))) {
    const int64_t rows = batches[step++].num_rows();
    const PerReplica<double> shares = strategy.run(
        [&](const data::Example& part) { return train_step(*net, *optimizer, part, rows, form); },
        batch);
    losses.push_back(strategy.reduce(ReduceOp::kSum, shares));
  }
  Outcome outcome = outcome_of(net, *optimizer);
  outcome.losses = std::move(losses);
  return outcome;
}

/// Largest absolute difference, of tensors on any devices; infinite where the shapes differ or one
/// is not a number.
inline double difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinite;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes()) return kInfinite;
    const at::Tensor apart = a[i].cpu().to(at::kDouble) - b[i].cpu().to(at::kDouble);
    const double most = apart.abs().max().item<double>();
    if (!(most < kInfinite)) return kInfinite;
    largest = std::max(largest, most);
  }
  return largest;
}

}  // namespace strata::parity
