#include "suites/keras_models.h"

#include <ATen/TensorOperators.h>

#include <optional>

#include "strata/core/error.h"
#include "strata/keras/layers.h"
#include "strata/keras/sequential.h"
#include "suites/model_sizes.h"
#include "suites/step_data.h"

namespace strata::bench {
namespace {

/// Adds a vector that is learnt to each position.
class PositionsImpl : public keras::UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Positions"; }

 private:
  void describe(keras::ConfigWriter&) const override {}  // it has no options
  void build(const keras::Shape& input) override {
    positions_ = add_weight("positions", {input[1], input[2]}, {.initializer = "uniform"});
  }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return x + cast(positions_->value(), x);
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }

  std::optional<Variable> positions_;
};

using Tensor = keras::SymbolicTensor;

keras::Model make_dense() {
  return keras::Sequential(keras::Input({784}), {layers::Dense(1024, "relu"),
                                                 layers::Dense(1024, "relu"), layers::Dense(10)});
}

/// Attention and a feed-forward network, each added to its input and normalized then.
Tensor transformer_block(const Tensor& x) {
  const layers::LayerNormalizationOptions norm{.epsilon = kNormEpsilon};
  const Tensor attended = layers::MultiHeadAttention(kHeads, kTransformerWidth / kHeads)(
      x, x, {.use_causal_mask = true});
  const Tensor h = layers::LayerNormalization(norm)(layers::Add()({x, attended}));
  const Tensor wide = layers::Dense(4 * kTransformerWidth, "gelu")(h);
  return layers::LayerNormalization(norm)(
      layers::Add()({h, layers::Dense(kTransformerWidth)(wide)}));
}

keras::Model make_transformer(int64_t tokens) {
  const Tensor words = keras::Input({tokens}, {.dtype = at::kLong});
  Tensor x =
      keras::make_layer<PositionsImpl>()(layers::Embedding(kStepWords, kTransformerWidth)(words));
  for (int i = 0; i < kTransformerDepth; ++i) x = transformer_block(x);
  return {words, layers::Dense(kStepWords)(x)};
}

keras::Model make_lstm(int64_t tokens) {
  const Tensor words = keras::Input({tokens}, {.dtype = at::kLong});
  const Tensor x = layers::LSTM(128)(layers::Embedding(kStepWords, 64)(words));
  return {words, layers::Dense(2)(x)};
}

Tensor normalized_convolution(const Tensor& x, int64_t filters, int64_t kernel, int64_t stride) {
  const Tensor y =
      layers::Conv2D(filters, kernel, {.strides = stride, .padding = "same", .use_bias = false})(x);
  return layers::BatchNormalization({.momentum = 0.9, .epsilon = kNormEpsilon})(y);
}

keras::Model make_resnet20() {
  const auto relu = [](const Tensor& x) { return layers::Activation("relu")(x); };
  const Tensor images = keras::Input({32, 32, 3});
  Tensor x = relu(normalized_convolution(images, 16, 3, 1));
  int64_t width = 16;
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const int64_t stride = filters != width ? 2 : 1;
      const Tensor shortcut = filters != width ? normalized_convolution(x, filters, 1, stride) : x;
      const Tensor first = relu(normalized_convolution(x, filters, 3, stride));
      x = relu(layers::Add()({normalized_convolution(first, filters, 3, 1), shortcut}));
      width = filters;
    }
  }
  return {images, layers::Dense(10)(layers::GlobalAveragePooling2D()(x))};
}

keras::Model make_float_model(const std::string& model, int64_t tokens) {
  if (model == "dense") return make_dense();
  if (model == "transformer") return make_transformer(tokens);
  if (model == "lstm") return make_lstm(tokens);
  STRATA_CHECK(model == "resnet20", kInvalidArgument, "[strata bench] worker: got model ", model,
               "; expected dense, transformer, lstm or resnet20");
  return make_resnet20();
}

}  // namespace

keras::Model make_keras_model(const std::string& model, int64_t tokens) {
  keras::Model net = make_float_model(model, tokens);
  if (keras::dtype_policy().compute_dtype() == at::kFloat) return net;
  return {net.inputs(), {layers::Activation("linear", {.dtype = "float32"})(net.outputs()[0])}};
}

}  // namespace strata::bench
