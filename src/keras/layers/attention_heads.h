#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keras/layers/kernel_weights.h"
#include "keras/layers/layer_class.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/core.h"

/// What MultiHeadAttention and GroupQueryAttention have in common.
namespace strata::layers {

/// True for an option of a call that is `true`.
bool asked(const Json* option);

/// Which of the inputs is what. A mask that is a constant of the call is none of them.
struct Places {
  size_t key = 1;
  std::optional<size_t> attention_mask = {};
  std::optional<size_t> query_mask = {};
  std::optional<size_t> value_mask = {};
  std::optional<size_t> key_mask = {};
  bool has_key = false;
};

Places places(size_t count, const Json& options);

/// What the two layers share: projections to heads, attention, projection back.
class HeadsImpl : public keras::LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  /// Of the call that it was built for.
  Places build_places() const { return places(build_shapes().size(), build_options()); }

 protected:
  struct Heads {
    at::Tensor query;  ///< `[batch, target..., heads, size]`
    at::Tensor key;    ///< Of as many heads, or of a number that divides it.
    at::Tensor value;
  };
  /// What each step of the query may see: that which all of these let it see. Undefined: all.
  struct Seen {
    at::Tensor queries;  ///< `[batch, queries]`
    at::Tensor keys;     ///< `[batch, keys]`
    at::Tensor mask;     ///< `[batch, (1 or heads,) queries, keys]` or with less in front.
    bool causal = false;
    std::optional<int64_t> window;
  };
  struct Settings {
    double dropout;
    double scale;
    std::optional<int64_t> sliding_window;
    std::vector<int64_t> axes;  ///< Those that are attended over.
  };
  virtual Settings settings() const = 0;
  /// What three projections give; of self-attention in one operator where there is one.
  static Heads project_with(const EinsumDense& query_dense, const EinsumDense& key_dense,
                            const EinsumDense& value_dense, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value);
  virtual Heads project(const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value) = 0;
  /// `query` is the layer's input: for the gate.
  virtual at::Tensor finish(const at::Tensor& heads, const at::Tensor& query) = 0;
  /// Of the layer's outputs; that of its projections is their own.
  virtual regularizers::Regularizer activity_regularizer() const { return {}; }
  /// An explicit mask of the query counts only where none came with it.
  virtual bool takes_query_mask() const = 0;
  virtual void build_heads(const keras::Shape& query, const keras::Shape& key,
                           const keras::Shape& value) = 0;

  void build(const std::vector<keras::Shape>& inputs) override;
  void check(const std::vector<keras::Shape>& inputs) const;
  void check_key(const keras::Shape& value, const keras::Shape& key) const;
  keras::Tensors call(const keras::Tensors& inputs, const keras::Call& call) override;

 private:
  /// With keys and values repeated for all heads of the query.
  static Heads for_each_query_head(Heads heads);
  /// By the masks of steps.
  Seen masks_of_steps(const keras::Tensors& inputs, const Places& at,
                      const keras::Call& call) const;
  /// In one tensor; undefined: all is seen.
  static at::Tensor joined(const Seen& seen, const Heads& heads);
  /// keras.ops.dot_product_attention: a row that sees nothing is the mean of all values.
  static at::Tensor attend(const Heads& heads, const Seen& seen, double scale);
  /// keras.layers.Softmax with a mask: a row that sees nothing is 0.
  static std::pair<at::Tensor, at::Tensor> attend_with_scores(const Heads& heads,
                                                              const at::Tensor& seen,
                                                              const Settings& settings,
                                                              bool training);

  bool supports_masking() const override { return true; }
};

/// What each of the projections is made from.
template <typename Options>
EinsumDenseOptions dense_options(const Options& options, const std::string& name,
                                 const std::string& bias_axes, const keras::DTypePolicy& dtype) {
  EinsumDenseOptions dense;
  if (options.use_bias) dense.bias_axes = bias_axes;
  dense.kernel_initializer = options.kernel_initializer;
  dense.bias_initializer = options.bias_initializer;
  dense.kernel_regularizer = options.kernel_regularizer;
  dense.bias_regularizer = options.bias_regularizer;
  dense.activity_regularizer = options.activity_regularizer;
  dense.kernel_constraint = options.kernel_constraint;
  dense.bias_constraint = options.bias_constraint;
  dense.name = name;
  dense.dtype = dtype;
  if (name == "gate") dense.activation = "sigmoid";
  return dense;
}

template <typename Config, typename Options>
void visit_heads(Config& config, Options& options) {
  config("dropout", options.dropout);
  config("use_bias", options.use_bias);
  visit_kernel_and_bias(config, options);
  config("seed", options.seed);
}
/// New options, which older versions of Keras refuse: written only where they say something.
template <typename Options>
void write_new_options(keras::ConfigWriter& config, const Options& options) {
  if (options.use_gate) config("use_gate", true);
  if (options.sliding_window) config("sliding_window", *options.sliding_window);
}
template <typename Options>
void read_new_options(keras::ConfigReader& config, Options& options) {
  config("use_gate", options.use_gate);
  config("sliding_window", options.sliding_window);
  config.ignore("flash_attention");
}

inline void check_window(const std::optional<int64_t>& window, const char* layer) {
  STRATA_CHECK(!window || *window > 0, kInvalidArgument, "[layers] ", layer,
               ": `sliding_window` must be `None` or a positive integer. Received: sliding_window=",
               window.value_or(0));
}

}  // namespace strata::layers
