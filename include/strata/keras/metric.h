#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/checkpoint/state.h"
#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/loss.h"
#include "strata/keras/shape.h"
#include "strata/optim/mean.h"
#include "strata/optim/sum.h"
#include "strata/runtime/variable.h"

/// Metrics as objects, for Model::compile and custom loops. The classes are in metrics.h, and in
/// the headers that it includes. Source: keras.metrics 3.15.
namespace strata::metrics {

class Metric;

/// A batch, as a metric is shown it.
struct MetricInput {
  const at::Tensor& y_true;
  const at::Tensor& y_pred;
  const at::Tensor& sample_weight;  ///< Undefined: 1 for all.
  const at::Tensor& mask;           ///< Which predictions count; undefined: all.
};

/// What a metric is. Derive from it for one of your own, and hand it out with make<T>(...):
///
///     class Above : public MetricImpl {
///      public:
///       explicit Above(double bound) : MetricImpl("above"), bound_(bound) {}
///
///      private:
///       void do_build(const keras::Shape&, const keras::Shape&) override {
///         count_ = add_variable("count");
///       }
///       void do_update_state(const MetricInput& input) override {
///         add(*count_, (input.y_pred > bound_).sum());
///       }
///       at::Tensor do_result() const override { return read(*count_); }
///
///       double bound_;
///       std::optional<Variable> count_;
///     };
///     model.compile({..., .metrics = {metrics::make<Above>(0.5)}});
class STRATA_API MetricImpl {
 public:
  explicit MetricImpl(std::string name);
  virtual ~MetricImpl();
  MetricImpl(const MetricImpl&) = delete;
  MetricImpl& operator=(const MetricImpl&) = delete;

 protected:
  const std::string& name() const { return name_; }

  /// State: `[*shape]` in float64, 0 at first, to which each replica adds its own. For do_build.
  Variable add_variable(const std::string& name, at::IntArrayRef shape = {});
  /// To be called in do_update_state: adds `value` to this replica's part.
  static void add(Variable& variable, const at::Tensor& value);
  /// To be called in do_result: the sum over the replicas, on the CPU.
  static at::Tensor read(const Variable& variable);
  /// State that was made elsewhere.
  void register_variable(const std::string& name, const Variable& variable);

 private:
  friend class Metric;
  friend STRATA_API Metric resolve(const std::string& name, const keras::Shape& y_true,
                                   const keras::Shape& y_pred);
  friend STRATA_API Json to_config(const Metric& metric);

  /// Makes the state, once, in the strategy's scope. Shapes have the axis of the batch; sizes that
  /// are not known are keras::kNone; both are empty for callers that do not know them.
  virtual void do_build(const keras::Shape& y_true, const keras::Shape& y_pred) = 0;
  /// By each replica on its part of a batch, which may have 0 rows; without gradients. What it adds
  /// must not depend on how a batch is divided.
  virtual void do_update_state(const MetricInput& input) = 0;
  /// Outside `run`: a scalar or a vector.
  virtual at::Tensor do_result() const = 0;
  /// The object as Keras writes it (keras::make_object); null: it cannot be saved in a
  /// compile_config.
  virtual Json do_config() const { return {}; }

  std::string name_;
  bool built_ = false;
  Json identifier_ = {};  // what the user named it by
  std::vector<std::pair<std::string, Variable>> variables_;
};

/// A metric: a handle; copies are one metric, with one state.
///
/// Make it anywhere but in `run`. Its state is made by `build`, in the scope of the strategy that
/// will update it; training calls that, and outside of every strategy the first update does. Every
/// replica updates its own part in `run`, without waiting for others; a result outside `run` is
/// over all of them.
///
/// Threads: updates by the replicas at the same time; all else outside `run`, one thread at a time.
class STRATA_API Metric {
 public:
  /// By Keras's names: "mse", "mean_squared_error", "MeanSquaredError", "AUC"; "accuracy" and "acc"
  /// choose by the shapes they meet, as "crossentropy" among losses does. The name is the metric's.
  /// @throws Error kInvalidArgument: no such metric; lists those there are.
  Metric(const char* name);         // NOLINT(google-explicit-constructor)
  Metric(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// The mean of a loss's values.
  Metric(const losses::Loss& loss);  // NOLINT(google-explicit-constructor)
  /// Those of custom loops. They are shown values: call their own `update`.
  Metric(const Mean& mean);  // NOLINT(google-explicit-constructor)
  Metric(const Sum& sum);    // NOLINT(google-explicit-constructor)
  explicit Metric(std::shared_ptr<MetricImpl> impl);

  const std::string& name() const { return impl_->name_; }
  /// Before it is built: names of variables follow.
  void set_name(std::string name) { impl_->name_ = std::move(name); }

  /// Makes the state in the present scope; the second time nothing. Some metrics have a state for
  /// each class and need the shapes.
  /// @throws Error  kFailedPrecondition: in `run`. kInvalidArgument: shapes that are missing or do
  /// not fit.
  void build(const keras::Shape& y_true = {}, const keras::Shape& y_pred = {});
  bool built() const { return impl_->built_; }

  /// Adds a batch, or a replica's part of one. Of 0 rows it adds nothing.
  /// @throws Error  kInvalidArgument: shapes do not fit. kFailedPrecondition: by a replica before
  /// `build`.
  /// Cost: the accuracies, losses and means some microseconds; no transfers to the host.
  void update_state(const at::Tensor& y_true, const at::Tensor& y_pred,
                    const at::Tensor& sample_weight = {}, const at::Tensor& mask = {});

  /// @throws Error kFailedPrecondition: there are several values; use `results`.
  double result() const;
  /// A scalar or a vector (one value a threshold, a class), on the CPU, float64.
  at::Tensor results() const;
  void reset_state();

  std::vector<Variable> variables() const;
  /// For checkpoints, which take metrics as they are; it knows variables made later.
  std::shared_ptr<Trackable> tracked() const;

  bool is_same(const Metric& other) const { return impl_ == other.impl_; }
  const std::shared_ptr<MetricImpl>& impl() const { return impl_; }

  friend STRATA_API Json to_config(const Metric& metric);

 private:
  static Metric named(const std::string& name, Json identifier);
  friend STRATA_API Metric resolve(const std::string& name, const keras::Shape& y_true,
                                   const keras::Shape& y_pred);

  std::shared_ptr<MetricImpl> impl_;
};

/// A metric of yours: make<Above>(arguments of its constructor...).
template <std::derived_from<MetricImpl> T, typename... Arguments>
Metric make(Arguments&&... arguments) {
  return Metric(std::make_shared<T>(std::forward<Arguments>(arguments)...));
}

/// The metric that `name` stands for with these shapes: the class itself where the name leaves it
/// open ("accuracy": BinaryAccuracy, SparseCategoricalAccuracy or CategoricalAccuracy).
/// @throws Error kInvalidArgument: no such metric.
STRATA_API Metric resolve(const std::string& name, const keras::Shape& y_true,
                          const keras::Shape& y_pred);

/// Renames metrics whose name came before in the list: "auc", "auc_1", "auc_2".
STRATA_API void make_names_unique(std::vector<Metric>& metrics);

/// As compile_config has it: the name that it was made from, or the object.
/// @throws Error kUnimplemented: one of yours without do_config, or a function of yours.
STRATA_API Json to_config(const Metric& metric);
/// @throws Error  kDataLoss: not a metric. kUnimplemented: a class or option that we do not have.
STRATA_API Metric metric_from_config(const Json& json);

}  // namespace strata::metrics
