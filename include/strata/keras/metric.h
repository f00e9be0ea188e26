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
#include "strata/optim/metrics.h"
#include "strata/runtime/variable.h"

/// Metrics as objects, for Model::compile and custom loops. The classes are in metrics.h, and in
/// the headers that it includes. Source: keras.metrics 3.15.
namespace strata::metrics {

class Metric;

/// The arguments of a metric's update.
struct MetricInput {
  const at::Tensor& y_true;
  const at::Tensor& y_pred;
  const at::Tensor& sample_weight;  ///< Undefined: 1 for all.
  const at::Tensor& mask;           ///< The predictions that count; undefined: all.
};

/// The implementation of a metric. Derive from it for one of your own, and pass it as make<T>(...):
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

  /// Adds state: `[*shape]` in float64, 0 at first, to which each replica adds its own. Call it in
  /// do_build.
  Variable add_variable(const std::string& name, at::IntArrayRef shape = {});
  /// Adds `value` to this replica's part. Call it in do_update_state.
  static void add(Variable& variable, const at::Tensor& value);
  /// Returns the sum over the replicas, on the CPU. Call it in do_result.
  static at::Tensor read(const Variable& variable);
  /// Adds state that was made elsewhere.
  void register_variable(const std::string& name, const Variable& variable);

 private:
  friend class Metric;
  friend STRATA_API Metric resolve(const std::string& name, const keras::Shape& y_true,
                                   const keras::Shape& y_pred);
  friend STRATA_API Json to_config(const Metric& metric);

  /// Makes the state, once, in the strategy's scope. Shapes have the axis of the batch; unknown
  /// sizes are keras::kNone; both are empty for callers that do not know them.
  virtual void do_build(const keras::Shape& y_true, const keras::Shape& y_pred) = 0;
  /// Called by each replica on its part of a batch, which may have 0 rows; without gradients. The
  /// sum of its additions must not depend on the division of a batch.
  virtual void do_update_state(const MetricInput& input) = 0;
  /// Returns a scalar or a vector. Called outside `run`.
  virtual at::Tensor do_result() const = 0;
  /// Returns the object in Keras's form (keras::make_object); null: it cannot be saved in a
  /// compile_config.
  virtual Json do_config() const { return {}; }

  std::string name_;
  bool built_ = false;
  Json identifier_ = {};  // the user's name of it
  std::vector<std::pair<std::string, Variable>> variables_;
};

/// A metric: a handle; copies are one metric, with one state.
///
/// Make it anywhere except in `run`. Its state is made by `build`, in the scope of the strategy
/// that will update it; training calls that, and outside of every strategy the first update does.
/// Every replica updates its own part in `run`, without waiting for others; a result outside `run`
/// is over all of them.
///
/// Threads: updates in the replicas at the same time; all else outside `run`, one thread at a time.
class STRATA_API Metric {
 public:
  /// Takes Keras's names: "mse", "mean_squared_error", "MeanSquaredError", "AUC"; "accuracy" and
  /// "acc" choose by the shapes, like "crossentropy" among losses. The name is the metric's.
  /// @throws Error kInvalidArgument: no such metric; lists the known ones.
  Metric(const char* name);         // NOLINT(google-explicit-constructor)
  Metric(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// Takes the mean of a loss's values.
  Metric(const losses::Loss& loss);  // NOLINT(google-explicit-constructor)
  /// Takes metrics of custom loops; call their own `update` with values.
  Metric(const Mean& mean);  // NOLINT(google-explicit-constructor)
  Metric(const Sum& sum);    // NOLINT(google-explicit-constructor)
  explicit Metric(std::shared_ptr<MetricImpl> impl);

  const std::string& name() const { return impl_->name_; }
  /// Must be called before it is built: names of variables follow.
  void set_name(std::string name) { impl_->name_ = std::move(name); }

  /// Makes the state in the current scope; a second call does nothing. Some metrics have a state
  /// for each class and need the shapes.
  /// @throws Error  kFailedPrecondition: in `run`. kInvalidArgument: shapes that are missing or do
  /// not match.
  void build(const keras::Shape& y_true = {}, const keras::Shape& y_pred = {});
  bool built() const { return impl_->built_; }

  /// Adds a batch, or a replica's part of one. A batch of 0 rows adds nothing.
  /// @throws Error  kInvalidArgument: shapes do not match. kFailedPrecondition: in a replica before
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
  /// For checkpoints, which take metrics directly; it includes variables made later.
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

/// Makes a user-defined metric: make<Above>(arguments of its constructor...).
template <std::derived_from<MetricImpl> T, typename... Arguments>
Metric make(Arguments&&... arguments) {
  return Metric(std::make_shared<T>(std::forward<Arguments>(arguments)...));
}

/// Returns the metric of `name` for these shapes: the class itself if the name leaves it open
/// ("accuracy": BinaryAccuracy, SparseCategoricalAccuracy or CategoricalAccuracy).
/// @throws Error kInvalidArgument: no such metric.
STRATA_API Metric resolve(const std::string& name, const keras::Shape& y_true,
                          const keras::Shape& y_pred);

/// Renames metrics whose name occurred before in the list: "auc", "auc_1", "auc_2".
STRATA_API void make_names_unique(std::vector<Metric>& metrics);

/// Returns its form in a compile_config: the name that it was made from, or the object.
/// @throws Error kUnimplemented: a user-defined metric without do_config, or function.
STRATA_API Json to_config(const Metric& metric);
/// @throws Error  kDataLoss: not a metric. kUnimplemented: an unknown class or option.
STRATA_API Metric metric_from_config(const Json& json);

/// Options of every metric.
struct MetricOptions {
  std::string name = {};          ///< Empty: Keras's, such as "mean_squared_error".
  std::string dtype = "float32";  ///< Saved in Keras's files; state is kept in float64.
};

/// Makes the class of that name. There is one overload for each kind of options, beside them.
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view class_name,
                                                   const MetricOptions& options);

/// One of Keras's classes; it adds only a constructor to Metric.
template <keras::ClassName kName, typename Options = MetricOptions>
class MetricClass : public Metric {
 public:
  explicit MetricClass(const Options& options = {}) : Metric(make_metric(kName.view(), options)) {}
};

}  // namespace strata::metrics
