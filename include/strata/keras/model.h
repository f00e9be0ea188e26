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
#include "strata/keras/history.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/logs.h"
#include "strata/keras/training.h"
#include "strata/strategies/strategy.h"

namespace strata::keras {

namespace detail {
class Trainer;
}

/// A batch, or a replica's part of it, taken apart.
struct Batch {
  Tensors x;
  Tensors y;              ///< One for each output; none: the model has no labels.
  Tensors sample_weight;  ///< One for each output, or one for all, or none.
};

/// A replica's share of a step's loss: what Optimizer::minimize takes. The sum of the values over
/// the replicas, divided by the sum of the weights, is the loss of one device.
struct StepLoss {
  at::Tensor value;
  double weight = 0;
  Tensors outputs = {};  ///< The same for each output alone, without its loss weight.
  /// What "loss" reports where it is not `value`: of losses::Reduction::kNone the gradient is the
  /// sum's and the report the mean, as in Keras. Undefined: `value`.
  at::Tensor reported = {};
};

/// What stands behind a Model. Derive from it for models of your own: layers handed to `track` in
/// the constructor, `call` in terms of them, and `train_step` where training is not the usual.
class STRATA_API ModelImpl : public LayerImpl {
 public:
  explicit ModelImpl(LayerOptions options = {});
  ~ModelImpl() override;

  std::string_view class_name() const override { return "Model"; }
  std::string_view module() const override { return "keras"; }

  /// In Keras's order: from inputs to outputs.
  virtual std::vector<Layer> layers() const;

  /// Tensors of an element that are inputs; those behind are labels and weights.
  virtual size_t num_inputs() const { return 1; }

  /// The strategy in whose scope the model was made, or the one that `compile` was given.
  Strategy& strategy() const { return *strategy_; }

  /// One step with a replica's part of a batch. By default: forward, compute_loss, minimize,
  /// metrics. Threads: by each replica, inside `run`; parts may have 0 rows.
  virtual void train_step(const Batch& batch);
  virtual void test_step(const Batch& batch);
  virtual Tensors predict_step(const Batch& batch);

  /// For steps of your own.
  /// The compiled losses of the outputs, regularizers, and what `add_loss` was given since the last
  /// compute_loss on this replica.
  virtual StepLoss compute_loss(const Batch& batch, const Outputs& outputs);
  /// Adds to "loss" and the compiled metrics.
  void update_metrics(const Batch& batch, const Outputs& outputs, const StepLoss& loss);
  /// Backward, reduction, update, constraints.
  void minimize(const StepLoss& loss);

  /// @throws Error kFailedPrecondition: not compiled.
  optimizers::Optimizer& optimizer() const;
  detail::Trainer& trainer() const;

 protected:
  void describe(ConfigWriter& config) const override;

 private:
  friend class Model;
  Strategy* strategy_;
  std::unique_ptr<detail::Trainer> trainer_;
};

/// A model: a layer made of layers that can be trained, saved and shown. A handle; copies are the
/// same model.
///
///     auto x = keras::Input({784});
///     auto y = layers::Dense(10)(layers::Dense(64, "relu")(x));
///     keras::Model model(x, y);
///     model.compile({.optimizer = optimizers::Adam(), .loss = "mse"});
///     model.fit(train.batch(128), {.epochs = 2});
///
/// Datasets are batched with the global batch size; an element is (x..., y...) or (x..., y...,
/// sample_weight...), as many x as the model has inputs. N replicas do with it what one would.
/// Threads: one at a time, outside `run`.
/// Source: keras.Model.
class STRATA_API Model : public LayerOf<ModelImpl> {
 public:
  using LayerOf<ModelImpl>::LayerOf;

  /// The layers between `inputs` and `outputs`; weights are those of the layers.
  /// @throws Error kInvalidArgument: outputs that do not depend on the inputs alone.
  Model(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs,
        const std::string& name = {});
  Model(const SymbolicTensor& input, const SymbolicTensor& output, const std::string& name = {});

  std::vector<Layer> layers() const { return (*this)->layers(); }
  /// @throws Error kNotFound: lists the names there are.
  Layer get_layer(const std::string& name) const;
  /// @throws Error kOutOfRange.
  Layer get_layer(size_t index) const;

  /// Symbolic inputs and outputs; of a Sequential once it is built, of a model of yours none.
  std::vector<SymbolicTensor> inputs() const;
  std::vector<SymbolicTensor> outputs() const;

  /// Files of Keras's: as keras/saving.h says; keras::load_model reads them.
  void save(const std::string& path) const;
  void save_weights(const std::string& path) const;
  void load_weights(const std::string& path) const;
  /// Keras's table of layers; keras/summary.h has options.
  void summary(std::ostream& out) const;
  /// model_to_config, as text.
  std::string to_json() const;

  /// Says how it is trained. Again: forgets the optimizer's state and the metrics.
  /// @throws Error kInvalidArgument: losses or metrics for outputs that there are not.
  void compile(CompileOptions options) const;
  /// The options of the last compile; null before. Metrics and optimizer are those in use.
  const CompileOptions* compiled() const;

  /// Trains for `epochs` passes over the data.
  /// @throws Error  kFailedPrecondition: not compiled. kInvalidArgument: data that do not fit the
  ///                model, an empty dataset. kCancelled: Ctrl-C. And what the data, callbacks and
  ///                layers throw.
  History fit(const data::Dataset& batches, FitOptions options = {}) const;
  History fit(const at::Tensor& x, const at::Tensor& y, FitOptions options = {}) const;
  History fit(const Tensors& x, const Tensors& y, FitOptions options = {}) const;

  /// Loss and metrics over the data.
  Logs evaluate(const data::Dataset& batches, EvaluateOptions options = {}) const;
  Logs evaluate(const at::Tensor& x, const at::Tensor& y, EvaluateOptions options = {}) const;
  Logs evaluate(const Tensors& x, const Tensors& y, EvaluateOptions options = {}) const;

  /// The outputs for every row, in the order of the rows, on the CPU. Labels in the elements are
  /// passed over.
  Tensors predict_all(const data::Dataset& batches, PredictOptions options = {}) const;
  /// Of a model with one output.
  at::Tensor predict(const data::Dataset& batches, PredictOptions options = {}) const;
  at::Tensor predict(const at::Tensor& x, PredictOptions options = {}) const;

  /// One step with one global batch, and what the metrics are since the last reset.
  Logs train_on_batch(const data::Example& batch) const;
  Logs test_on_batch(const data::Example& batch) const;
  void reset_metrics() const;

  optimizers::Optimizer& optimizer() const { return (*this)->optimizer(); }

  /// For Checkpoint({{"model", model}}): the weights, by their order.
  std::shared_ptr<Trackable> tracked() const;
};

/// Makes a model of a class of yours.
template <typename Impl, typename... Arguments>
requires std::is_base_of_v<ModelImpl, Impl> Model make_model(Arguments&&... arguments) {
  return Model(std::make_shared<Impl>(std::forward<Arguments>(arguments)...));
}

}  // namespace strata::keras
