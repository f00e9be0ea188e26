#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/constraints.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/initializers.h"
#include "strata/keras/regularizers.h"
#include "strata/keras/shape.h"
#include "strata/runtime/variable.h"

namespace strata::keras {

namespace detail {
struct Node;
}

/// A tensor of a model's description: it has a shape and a history, and no values. Copies are the
/// same tensor. Source: keras.KerasTensor.
class STRATA_API SymbolicTensor {
 public:
  /// The shape with the batch first: (None, 784).
  const Shape& shape() const;
  at::ScalarType dtype() const;

  /// Makes output `index` of a call; used by layers.
  SymbolicTensor(std::shared_ptr<detail::Node> node, size_t index)
      : node_(std::move(node)), index_(index) {}
  const std::shared_ptr<detail::Node>& node() const { return node_; }
  size_t index() const { return index_; }
  friend bool operator==(const SymbolicTensor&, const SymbolicTensor&) = default;

 private:
  std::shared_ptr<detail::Node> node_;
  size_t index_;
};

struct InputOptions {
  std::string name = {};
  int64_t batch_size = kNone;
  at::ScalarType dtype = at::kFloat;
};

/// Makes a model's input. @param shape  Without the batch: {784}, {28, 28, 1}; kNone for a size
/// that varies.
STRATA_API SymbolicTensor Input(const Shape& shape, const InputOptions& options = {});

class LayerImpl;

using Tensors = std::vector<at::Tensor>;

/// The arguments of a call beside its tensors.
struct Call {
  bool training = false;
  /// The inputs' masks, `[batch, time]` of bool, undefined for an input without one; or empty: no
  /// masks.
  Tensors masks = {};
  /// Options of this call by Keras's names, `{"use_causal_mask": true}`; a tensor among them is
  /// `{"tensor": <its index among the inputs>}`. Null: none.
  Json options = {};

  /// The mask of input `i`; undefined if it has none.
  at::Tensor mask(size_t i = 0) const { return i < masks.size() ? masks[i] : at::Tensor(); }
  /// The option's value, or null.
  const Json* option(std::string_view name) const {
    return options.is_null() ? nullptr : options.find(name);
  }
};

/// A layer as programs use it: a handle; copies are the same layer, with the same weights.
///
///     layers::Dense dense(64, "relu");
///     keras::SymbolicTensor y = dense(keras::Input({784}));   // builds it; a node of a graph
///     at::Tensor z = dense(x);                                // computes
///
/// Weights are made at the first call (or `build`), in the scope of that moment, from the shapes of
/// the inputs; never inside `run`.
/// Threads: made and built by one; called by every replica at once.
/// Source: keras.layers.Layer.
class STRATA_API Layer {
 public:
  explicit Layer(std::shared_ptr<LayerImpl> impl);

  /// Adds a node to a graph, from which keras::Model is made.
  /// @throws Error kInvalidArgument: shapes that do not match, in Keras's words.
  SymbolicTensor operator()(const SymbolicTensor& x) const;
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& xs) const;
  /// The same for layers with several outputs, and calls with options.
  std::vector<SymbolicTensor> call(const std::vector<SymbolicTensor>& xs, Json options = {}) const;

  /// Computes. The mode is that of the calling layer. A call outside any layer trains inside
  /// Strategy::run if gradients are recorded, and otherwise (outside `run`, or under
  /// at::NoGradGuard) is inference; `call` with `.training` sets it.
  at::Tensor operator()(const at::Tensor& x) const;
  at::Tensor operator()(const Tensors& xs) const;
  Tensors call(const Tensors& xs, const Call& call) const;

  const std::string& name() const;
  /// See LayerImpl.
  Tensors losses() const;
  Tensors get_weights() const;
  void set_weights(const Tensors& values) const;
  LayerImpl* operator->() const { return impl_.get(); }
  LayerImpl& operator*() const { return *impl_; }
  const std::shared_ptr<LayerImpl>& impl() const { return impl_; }
  friend bool operator==(const Layer& a, const Layer& b) { return a.impl_ == b.impl_; }

 private:
  std::shared_ptr<LayerImpl> impl_;
};

/// A handle with the class of its layer.
template <typename Impl>
class LayerOf : public Layer {
 public:
  explicit LayerOf(std::shared_ptr<Impl> impl) : Layer(std::move(impl)) {}
  Impl* operator->() const { return static_cast<Impl*>(Layer::operator->()); }
  Impl& operator*() const { return *operator->(); }
};

/// Makes a layer of a user-defined class.
template <typename Impl, typename... Arguments>
LayerOf<Impl> make_layer(Arguments&&... arguments) {
  return LayerOf<Impl>(std::make_shared<Impl>(std::forward<Arguments>(arguments)...));
}

/// Seeds libtorch's generator, from which initializers without a seed of their own draw. The
/// replicas' draws in training depend on their strategy's seed.
/// Source: keras.utils.set_random_seed.
STRATA_API void set_random_seed(uint64_t seed);

/// Restarts the default names of layers: `dense`, `dense_1`, ... Existing layers keep their names.
/// Source: keras.utils.clear_session.
STRATA_API void clear_session();

}  // namespace strata::keras
