#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/config.h"
#include "strata/keras/layer.h"

namespace strata::keras {

/// Options of every layer.
struct LayerOptions {
  std::string name = {};   ///< Empty: Keras's, by class: dense, dense_1, ...
  DTypePolicy dtype = {};  ///< The dtype of weights and arithmetic.
  bool trainable = true;
};

struct WeightOptions {
  initializers::Initializer initializer = "glorot_uniform";
  regularizers::Regularizer regularizer = {};
  constraints::Constraint constraint = {};
  bool trainable = true;
  /// The aggregation of a weight that is not trainable.
  VariableAggregation aggregation = VariableAggregation::kMean;
  std::optional<at::ScalarType> dtype = {};  ///< Unset: the layer's.
  /// The order of the dimensions in memory, outermost first, if another than the shape's is faster:
  /// a convolution's kernel has Keras's shape in libtorch's memory order. Empty: the shape's own.
  std::vector<int64_t> memory_order = {};
};

/// A weight with its Keras attributes.
struct Weight {
  std::string name;  ///< "kernel"
  Variable variable;
  regularizers::Regularizer regularizer;
  constraints::Constraint constraint;
  bool trainable;  ///< As it was created; a frozen layer's is not trained either.
};

/// The inputs that a built layer takes. Source: keras.InputSpec.
struct InputSpec {
  std::optional<int64_t> ndim = {};
  int64_t min_ndim = 0;
  std::map<int64_t, int64_t> axes = {};  ///< Axis (may be negative) to size.
};

/// The implementation of a Layer: derive from it (or from UnaryLayerImpl, for one input and one
/// output) for layers of your own.
///
/// In a derived class, `build` makes the weights from the inputs' shapes; `call` computes, on every
/// replica at once, so it changes no member; inner layers are passed to `track`.
class STRATA_API LayerImpl : public std::enable_shared_from_this<LayerImpl> {
 public:
  explicit LayerImpl(LayerOptions options = {});
  virtual ~LayerImpl();
  LayerImpl(const LayerImpl&) = delete;
  LayerImpl& operator=(const LayerImpl&) = delete;

  /// Keras's class name: "Dense". It defines groups in files and default names.
  virtual std::string_view class_name() const = 0;
  /// Keras's module of the class.
  virtual std::string_view module() const { return "keras.layers"; }
  /// Keras's options: name, trainable and dtype, then `describe`'s.
  Json config() const;

  const std::string& name() const;
  const DTypePolicy& dtype() const { return options_.dtype; }

  /// Makes the weights, once, in the current scope; further calls do nothing.
  /// @param options  The call's (Call::options): they may identify an input.
  /// @throws Error kFailedPrecondition: inside `run`. kInvalidArgument: shapes that do not match.
  void ensure_built(const std::vector<Shape>& inputs, const Json& options = {});
  bool built() const { return built_; }
  /// Shapes it was built with.
  const std::vector<Shape>& build_shapes() const { return build_shapes_; }

  /// Values, and masks if there are any: one for each output, or none.
  struct Outputs {
    Tensors values;
    Tensors masks = {};
  };

  /// Checks the inputs, casts floating ones to the dtype of the arithmetic, computes.
  /// @throws Error kInvalidArgument: shapes that do not match, in Keras's words.
  ///         kFailedPrecondition: inside `run`, and not built.
  Outputs operator()(const Tensors& inputs, const Call& call);

  std::vector<Shape> output_shapes(const std::vector<Shape>& inputs,
                                   const Json& options = {}) const;
  std::vector<at::ScalarType> output_dtypes(const std::vector<at::ScalarType>& inputs) const;

  /// Its own weights, in Keras's order: the order of creation, trainable ones first.
  std::vector<Weight> own_weights() const;
  /// Its own weights and those of inner layers, each once. Frozen ones count as not trainable.
  std::vector<Weight> weights() const;
  std::vector<Variable> trainable_variables() const;
  std::vector<Variable> non_trainable_variables() const;
  int64_t count_params() const;

  bool trainable() const { return options_.trainable; }
  /// Freezes or unfreezes it and all inner layers. Takes effect at the next `compile`.
  void set_trainable(bool trainable);

  /// The inner layers, in the order of tracking, with their names in files ("cell").
  const std::vector<std::pair<std::string, Layer>>& sublayers() const { return sublayers_; }

  /// The penalties of all weights with a regularizer, in and below this layer, on this replica;
  /// undefined without any.
  at::Tensor regularization_loss() const;

  /// For custom loops: the losses that `add_loss` and activity regularizers added in the last call
  /// of this layer on this replica, and each weight's penalty. Scalars; `fit` adds their sum to the
  /// mean loss of an example. For layers that another layer has called it has the penalties alone.
  /// Source: keras.layers.Layer.losses.
  Tensors losses() const;

  /// Copies of the weights' values on the CPU, in Keras's order: see `weights`.
  Tensors get_weights() const;
  /// Sets all weights on all replicas, or none if one does not match.
  /// @param values  From get_weights() of Keras or of this library; dtypes are cast.
  /// @throws Error kInvalidArgument: another number or shape; names the weight.
  ///         kFailedPrecondition: inside `run`.
  void set_weights(const Tensors& values);

 protected:
  /// Lists the options in `config`, by Keras's names.
  virtual void describe(ConfigWriter& config) const = 0;
  /// False for classes whose constructor in Keras does not take it.
  virtual bool writes_trainable() const { return true; }

  virtual void build(const std::vector<Shape>& inputs);
  /// In `build`, the options of the call that the layer is built for.
  const Json& build_options() const { return build_options_; }
  virtual Tensors call(const Tensors& inputs, const Call& call) = 0;
  /// Runs `call` and `compute_masks`; override it in layers that compute both together.
  virtual Outputs call_with_masks(const Tensors& inputs, const Call& call);
  /// By default runs `call` on zeros, with batches of two sizes. Strata's layers override it.
  virtual std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                                   const Json& options) const;
  /// By default the dtype of the arithmetic, for every output.
  virtual std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const;
  /// By default the first input's mask if supports_masking(), else none.
  virtual Tensors compute_masks(const Tensors& inputs, const Call& call) const;
  virtual bool supports_masking() const { return false; }
  /// True for layers whose outputs have masks although the inputs have none (Embedding, Masking).
  virtual bool makes_masks() const { return false; }
  /// False: inputs are not cast (token numbers, images in bytes).
  virtual bool autocast() const { return true; }

  /// Makes a weight named "<layer>/<name>". Call it in `build` or a constructor.
  Variable add_weight(std::string name, const Shape& shape, const WeightOptions& options = {});
  /// Lists a weight of an inner layer among its own, too, as Keras does where a wrapper keeps it: in
  /// files it is then in both places, in `weights` once, in this one.
  void share_weight(const Weight& weight) { own_weights_.push_back(weight); }
  /// Adds a scalar, a mean over this replica's examples, to the loss of the current step; in a
  /// custom loop it is in `losses` of the layer that the loop called.
  void add_loss(const at::Tensor& loss) const;
  /// Adds the penalty of an `activity_regularizer` on the layer's output, divided by the batch as
  /// Keras does.
  void add_activity_loss(const regularizers::Regularizer& regularizer, const at::Tensor& y) const;
  /// A weight's value in the dtype of `like`.
  static at::Tensor cast(const at::Tensor& weight, const at::Tensor& like) {
    return weight.scalar_type() == like.scalar_type() ? weight : weight.to(like.scalar_type());
  }

  static at::Tensor cast(const Variable& weight, const at::Tensor& like) {
    return weight.value_as(like.scalar_type());
  }

  template <typename L>
  L track(std::string name, L layer) {
    track_layer(std::move(name), layer);
    return layer;
  }
  /// Removes the layer that was tracked last.
  void untrack_last() { sublayers_.pop_back(); }
  void set_input_spec(std::vector<InputSpec> spec) { input_spec_ = std::move(spec); }

 private:
  friend class Layer;
  class AddedLosses;
  Outputs call_cast(const Tensors& inputs, const Call& call);
  void track_layer(std::string name, const Layer& layer);
  void check_inputs(const std::vector<Shape>& inputs) const;

  LayerOptions options_;
  mutable std::string name_;  // made on first use
  bool built_ = false;
  std::vector<Shape> build_shapes_;
  Json build_options_;
  std::vector<Weight> own_weights_;
  std::vector<std::pair<std::string, Layer>> sublayers_;
  std::vector<InputSpec> input_spec_;
  const std::unique_ptr<AddedLosses> added_losses_;
};

/// A layer with one input and one output.
class STRATA_API UnaryLayerImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

 protected:
  virtual void build(const Shape&) {}
  virtual at::Tensor call(const at::Tensor& x, const Call& call) = 0;
  /// By default found by running `call`.
  virtual Shape compute_output_shape(const Shape& input) const;

 private:
  void build(const std::vector<Shape>& inputs) final;
  Tensors call(const Tensors& inputs, const Call& call) final;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const final;
};

}  // namespace strata::keras
