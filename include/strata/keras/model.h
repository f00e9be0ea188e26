#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/checkpoint/state.h"
#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/keras/callback.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/training.h"
#include "strata/strategies/strategy.h"

namespace strata::keras {

namespace detail {
class StepGraphs;
class Trainer;
}  // namespace detail

/// A batch, or a replica's part of it, split into inputs, labels and weights.
struct Batch {
  Tensors x;
  Tensors y;              ///< One for each output; empty: the model has no labels.
  Tensors sample_weight;  ///< One for each output, or one for all, or empty.
};

/// A replica's share of a step's loss, for Optimizer::minimize. The sum of the values over the
/// replicas, divided by the sum of the weights, is the loss of one device.
struct StepLoss {
  at::Tensor value;
  double weight = 0;
  Tensors outputs = {};  ///< The same for each output alone, without its loss weight.
  /// The value of "loss" in logs, if it is not `value`: for losses::Reduction::kNone the gradient
  /// is the sum's and the report the mean, as in Keras. Undefined: `value`.
  at::Tensor reported = {};
};

/// The implementation of a Model. Derive from it for models of your own: pass layers to `track` in
/// the constructor, use them in `call`, and override `train_step` for another training step.
class STRATA_API ModelImpl : public LayerImpl {
 public:
  explicit ModelImpl(LayerOptions options = {});
  ~ModelImpl() override;

  std::string_view class_name() const override { return "Model"; }
  std::string_view module() const override { return "keras"; }

  /// The layers in Keras's order: from inputs to outputs.
  virtual std::vector<Layer> layers() const;

  /// The number of an element's tensors that are inputs; labels and weights follow.
  virtual size_t num_inputs() const { return 1; }

  /// The strategy in whose scope the model was made, or that of `compile`.
  Strategy& strategy() const { return *strategy_; }

  /// Runs one step on a replica's part of a batch. By default: forward, compute_loss, minimize,
  /// metrics. Unless compiled with run_eagerly, a step that is called often is recorded and its
  /// operators are replayed without this code (docs/function.md): code that is to run each time, such as
  /// counting in a member, needs run_eagerly.
  /// Threads: each replica, inside `run`; parts may have 0 rows.
  virtual void train_step(const Batch& batch);
  virtual void test_step(const Batch& batch);
  virtual Tensors predict_step(const Batch& batch);

  /// For custom steps.
  /// Returns the compiled losses of the outputs, regularizers, and the losses of `add_loss` since
  /// the last compute_loss on this replica.
  virtual StepLoss compute_loss(const Batch& batch, const Outputs& outputs);
  /// Updates "loss" and the compiled metrics.
  void update_metrics(const Batch& batch, const Outputs& outputs, const StepLoss& loss);
  /// Runs backward, reduction, update, constraints.
  void minimize(const StepLoss& loss);

  /// @throws Error kFailedPrecondition: not compiled.
  optimizers::Optimizer& optimizer() const;
  detail::Trainer& trainer() const;
  /// The graphs that `fit`, `evaluate` and `predict` run the steps as.
  detail::StepGraphs& graphs() const { return *graphs_; }

 protected:
  void describe(ConfigWriter& config) const override;

 private:
  friend class Model;
  Strategy* strategy_;
  std::unique_ptr<detail::StepGraphs> graphs_;
  std::unique_ptr<detail::Trainer> trainer_;
};

/// A model: a layer made of layers, which can be trained, saved and printed. A handle; copies are
/// the same model.
///
///     auto x = keras::Input({784});
///     auto y = layers::Dense(10)(layers::Dense(64, "relu")(x));
///     keras::Model model(x, y);
///     model.compile({.optimizer = optimizers::Adam(), .loss = "mse"});
///     model.fit(train.batch(128), {.epochs = 2});
///
/// Datasets are batched with the global batch size; an element is (x..., y...) or (x..., y...,
/// sample_weight...), with as many x as the model has inputs. N replicas compute the same as one.
/// Threads: one at a time, outside `run`.
/// Source: keras.Model.
class STRATA_API Model : public LayerOf<ModelImpl> {
 public:
  using LayerOf<ModelImpl>::LayerOf;

  /// Makes a model of the layers between `inputs` and `outputs`, with their weights.
  /// @throws Error kInvalidArgument: outputs that do not depend on the inputs alone.
  Model(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs,
        const std::string& name = {});
  Model(const SymbolicTensor& input, const SymbolicTensor& output, const std::string& name = {});

  std::vector<Layer> layers() const { return (*this)->layers(); }
  /// @throws Error kNotFound: lists the known names.
  Layer get_layer(const std::string& name) const;
  /// @throws Error kOutOfRange.
  Layer get_layer(size_t index) const;

  /// Symbolic inputs and outputs; those of a Sequential once it is built; empty for a user-defined
  /// model.
  std::vector<SymbolicTensor> inputs() const;
  std::vector<SymbolicTensor> outputs() const;

  /// Saves in Keras's files (see keras/saving.h); keras::load_model reads them.
  void save(const std::string& path) const;
  void save_weights(const std::string& path) const;
  void load_weights(const std::string& path, const ReadLimits& limits = {}) const;
  /// Prints Keras's table of layers; keras/printing.h has options.
  void summary(std::ostream& out) const;
  /// Returns model_to_config, as text.
  std::string to_json() const;

  /// Configures training. A second call discards the optimizer's state and the metrics.
  /// @throws Error kInvalidArgument: losses or metrics for unknown outputs.
  void compile(CompileOptions options) const;
  /// The options of the last compile; null before. Metrics and optimizer are those in use.
  const CompileOptions* compiled() const;

  /// Trains for `epochs` passes over the data.
  /// @throws Error  kFailedPrecondition: not compiled. kInvalidArgument: data that do not match the
  ///                model, an empty dataset. kCancelled: Ctrl-C. Exceptions of the data, callbacks
  ///                and layers.
  History fit(const data::Dataset& batches, FitOptions options = {}) const;
  History fit(const at::Tensor& x, const at::Tensor& y, FitOptions options = {}) const;
  History fit(const Tensors& x, const Tensors& y, FitOptions options = {}) const;

  /// Returns loss and metrics over the data.
  Logs evaluate(const data::Dataset& batches, EvaluateOptions options = {}) const;
  Logs evaluate(const at::Tensor& x, const at::Tensor& y, EvaluateOptions options = {}) const;
  Logs evaluate(const Tensors& x, const Tensors& y, EvaluateOptions options = {}) const;

  /// Returns the outputs for every row, in the order of the rows, on the CPU. Labels in the
  /// elements are ignored.
  Tensors predict_all(const data::Dataset& batches, PredictOptions options = {}) const;
  /// The same for a model with one output.
  at::Tensor predict(const data::Dataset& batches, PredictOptions options = {}) const;
  at::Tensor predict(const at::Tensor& x, PredictOptions options = {}) const;

  /// Runs one step with one global batch, and returns its metrics, which it resets first.
  Logs train_on_batch(const data::Example& batch) const;
  Logs test_on_batch(const data::Example& batch) const;
  void reset_metrics() const;

  optimizers::Optimizer& optimizer() const { return (*this)->optimizer(); }

  /// The weights, by their order, for Checkpoint({{"model", model}}).
  std::shared_ptr<Trackable> tracked() const;
};

/// Makes a model of a user-defined class.
template <typename Impl, typename... Arguments>
requires std::is_base_of_v<ModelImpl, Impl> Model make_model(Arguments&&... arguments) {
  return Model(std::make_shared<Impl>(std::forward<Arguments>(arguments)...));
}

}  // namespace strata::keras
