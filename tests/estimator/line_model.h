#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/estimator/estimator.h"
#include "strata/optim/optimizers.h"

namespace strata::estimator::test {

/// What hooks and listeners were called.
using Trace = std::vector<std::string>;

/// y = w x with w = 0.5 (and an offset), mean squared error, SGD: the golden file's custom model.
struct LineModel {
  double w = 0.5;
  std::optional<double> offset = {};  ///< Added; a variable that is not trained.
  double learning_rate = 0.001;
  double momentum = 0;
  Hooks training_chief_hooks = {};
  Hooks training_hooks = {};
  Hooks evaluation_hooks = {};
  Hooks prediction_hooks = {};

  EstimatorSpec operator()(const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) const {
    const Variable weight = context.variable("w", [this] { return at::full({1, 1}, w); });
    at::Tensor y = features.at("x").values.matmul(weight.value());
    if (offset) {
      const Variable added = context.variable("offset", [this] { return at::full({}, *offset); },
                                              {.trainable = false});
      y = y + added.value();
    }
    EstimatorSpec spec{.predictions = {{"y", {y}}},
                       .training_chief_hooks = training_chief_hooks,
                       .training_hooks = training_hooks,
                       .evaluation_hooks = evaluation_hooks,
                       .prediction_hooks = prediction_hooks};
    if (mode == Mode::kPredict) return spec;
    spec.loss = (y - labels).square().mean();
    spec.eval_metrics = {context.mean("mae", (y - labels).abs())};
    if (mode != Mode::kTrain) return spec;
    optimizers::Optimizer& sgd = context.optimizer(
        [this] { return optimizers::SGD({.learning_rate = learning_rate, .momentum = momentum}); });
    spec.train_op = context.minimize(sgd, spec.loss);
    return spec;
  }
};

/// x = 1 to `rows`, labels 2 x, repeated (-1: for ever), then batched.
inline InputFn line_input(int64_t rows, int64_t batch, int64_t repeat = -1) {
  return [=](const InputContext&) -> Input {
    const at::Tensor x = at::arange(1, rows + 1, at::kFloat).reshape({rows, 1});
    return data::Dataset::from_tensor_slices({x, x * 2}).repeat(repeat).batch(batch);
  };
}

/// Writes its calls down; ends, or fails, when it is asked to.
class TracingHook final : public SessionRunHook {
 public:
  TracingHook(std::string name, Trace& trace) : name_(std::move(name)), trace_(trace) {}

  int64_t request_stop_at_run = -1;
  int64_t raise_at_run = -1;

  void begin(Session&) override { add("begin"); }
  void after_create_session(Session&) override {
    add("after_create_session");
    runs_ = 0;
  }
  void before_run(Session&) override { add("before_run"); }
  void after_run(Session& session, const StepResults&) override {
    add("after_run");
    ++runs_;
    if (runs_ == request_stop_at_run) session.request_stop();
    STRATA_CHECK(runs_ != raise_at_run, kInvalidArgument, "asked to fail");
  }
  void end(Session&) override { add("end"); }

 private:
  void add(const char* call) { trace_.push_back(name_ + '.' + call); }

  const std::string name_;
  Trace& trace_;
  int64_t runs_ = 0;
};

class TracingListener final : public CheckpointSaverListener {
 public:
  TracingListener(std::string name, Trace& trace) : name_(std::move(name)), trace_(trace) {}
  void begin() override { trace_.push_back(name_ + ".begin"); }
  void before_save(int64_t step) override { add("before_save", step); }
  bool after_save(int64_t step) override {
    add("after_save", step);
    return false;
  }
  void end(int64_t step) override { add("end", step); }

 private:
  void add(const char* call, int64_t step) {
    trace_.push_back(name_ + '.' + call + '(' + std::to_string(step) + ')');
  }

  const std::string name_;
  Trace& trace_;
};

}  // namespace strata::estimator::test
