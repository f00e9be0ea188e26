#include "strata/keras/layers/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>

#include "keras/graph/node.h"
#include "strata/data/dataset.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/losses.h"
#include "strata/keras/model.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"

namespace strata::layers {
namespace {

using keras::Input;
using keras::kNone;
using keras::Shape;
using keras::Tensors;

TEST(MultiHeadAttentionTest, ModelsAndValuesHaveTheSameOptions) {
  const auto query = Input({4, 6});
  const auto value = Input({5, 6});
  const auto mask = Input({4, 5}, {.dtype = at::kBool});
  const MultiHeadAttention mha(2, 3);
  const auto y = mha(query, value, {.key = value, .attention_mask = mask, .use_causal_mask = true});
  EXPECT_EQ(y.shape(), (Shape{kNone, 4, 6}));
  const keras::Model model({query, value, mask}, {y});
  const at::Tensor q = at::randn({2, 4, 6}), v = at::randn({2, 5, 6});
  const at::Tensor seen = at::rand({2, 4, 5}) < 0.7;
  const at::Tensor got = model(Tensors{q, v, seen});
  EXPECT_TRUE(at::allclose(
      got, mha(q, v, {.key = v, .attention_mask = seen, .use_causal_mask = true}), 1e-6, 1e-6));
  EXPECT_TRUE(at::allclose(got, mha(q, v, {.attention_mask = seen.tril()}), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(got, mha(q, v)));
}

TEST(MultiHeadAttentionTest, GivesScores) {
  const MultiHeadAttention mha(2, 3);
  const auto [y, scores] = mha.with_scores(Input({4, 6}), Input({5, 6}));
  EXPECT_EQ(y.shape(), (Shape{kNone, 4, 6}));
  EXPECT_EQ(scores.shape(), (Shape{kNone, 2, 4, 5}));
  const at::Tensor q = at::randn({2, 4, 6}), v = at::randn({2, 5, 6});
  const auto [values, weights] = mha.with_scores(q, v);
  EXPECT_TRUE(at::allclose(weights.sum(-1), at::ones({2, 2, 4})));
  EXPECT_TRUE(at::allclose(values, mha(q, v), 1e-5, 1e-6));
  const GroupQueryAttention grouped(3, 4, 2);
  EXPECT_EQ(grouped.with_scores(Input({4, 6}), Input({5, 6})).second.shape(),
            (Shape{kNone, 4, 4, 5}));
  const AdditiveAttention additive;
  EXPECT_EQ(additive.with_scores({Input({4, 6}), Input({5, 6})}).second.shape(),
            (Shape{kNone, 4, 5}));
}

TEST(MultiHeadAttentionTest, DropsScoresInTraining) {
  at::manual_seed(1);
  const at::Tensor q = at::randn({2, 4, 6});
  for (const keras::Layer& layer : {keras::Layer(MultiHeadAttention(2, 3, {.dropout = 0.5})),
                                    keras::Layer(GroupQueryAttention(3, 2, 1, {.dropout = 0.5})),
                                    keras::Layer(Attention({.dropout = 0.5}))}) {
    const at::Tensor quiet = layer(Tensors{q, q});
    EXPECT_TRUE(at::allclose(quiet, layer(Tensors{q, q})));
    EXPECT_FALSE(at::allclose(quiet, layer.call({q, q}, {.training = true}).at(0), 1e-3, 1e-3));
  }
}

TEST(MultiHeadAttentionTest, SeesMasksOfAnEmbedding) {
  const auto tokens = Input({kNone}, {.dtype = at::kLong});
  const auto words = Embedding(10, 6, {.mask_zero = true})(tokens);
  const keras::Model model(tokens, MultiHeadAttention(2, 3)(words, words));
  const at::Tensor row = at::tensor({3, 1, 4}, at::kLong).reshape({1, 3});
  const at::Tensor padded = at::tensor({3, 1, 4, 0}, at::kLong).reshape({1, 4});
  EXPECT_TRUE(at::allclose(model(row), model(padded).slice(1, 0, 3), 1e-5, 1e-6));
}

TEST(MultiHeadAttentionTest, NamesTheLayerInErrors) {
  const MultiHeadAttention mha(2, 3, {.name = "heads"});
  expect_error_containing(
      [&] {
        mha(Input({4, 6}), Input({5, 6}), {.key = Input({4, 6})});
      },
      ErrorCode::kInvalidArgument,
      "Layer \"heads\": All dimensions of `value` and `key`, except the last one, must be equal. "
      "Received: value_shape=(None, 5, 6) and key_shape=(None, 4, 6)");
  expect_error_containing([] { MultiHeadAttention(0, 3); }, ErrorCode::kInvalidArgument,
                          "argument `num_heads`, expected a positive integer");
  expect_error_containing([] { GroupQueryAttention(3, 5, 2); }, ErrorCode::kInvalidArgument,
                          "`num_query_heads` must be divisible");
  expect_error_containing(
      [] {
        GroupQueryAttention(3, 4, 2, {.name = "grouped"})(Input({4, 6}), Input({5, 7}));
      },
      ErrorCode::kInvalidArgument,
      "\"grouped\": The last dimension of `query_shape` and `value_shape` must be equal");
  expect_error_containing(
      [] {
        Attention({.name = "scores"})(std::vector{Input({4, 6})});
      },
      ErrorCode::kInvalidArgument,
      "Layer \"scores\": Attention layer accepts inputs list of length 2 or 3");
  expect_error_containing([] { Attention({.score_mode = "sum"}); }, ErrorCode::kInvalidArgument,
                          "Expected one of {'dot', 'concat'}. Received: score_mode=sum");
  expect_error_containing([] { MultiHeadAttention(2, 3, {.sliding_window = 0}); },
                          ErrorCode::kInvalidArgument, "`sliding_window` must be");
}

/// Values and the gradients of all weights and of the query, of a loss.
Tensors values_and_gradients(const keras::Layer& layer, const at::Tensor& query,
                             const std::function<at::Tensor()>& call) {
  const at::Tensor y = call();
  Tensors wanted{query};
  for (const auto& weight : layer->weights()) wanted.push_back(weight.variable.value());
  Tensors all = torch::autograd::grad({y.pow(2).sum() + y.sum()}, wanted);
  all.push_back(y.detach());
  return all;
}

/// Up to rounding errors: a bias of keys has no gradient but those.
void expect_close(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0;
  for (const at::Tensor& each : b) largest = std::max(largest, each.abs().max().item<double>());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 1e-6 * largest)) << i;
  }
}

/// Threads that wait for one another take long where other processes run, too.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST(MultiHeadAttentionTest, ValuesAndGradientsAreThoseWithScores) {
  const OneThread one_thread;
  at::manual_seed(4);
  const at::Tensor seen = at::rand({2, 140, 140}) < 0.7;
  seen.diagonal(0, 1, 2).fill_(true);  // one that sees nothing is 0 with scores, as in Keras
  const std::vector<AttentionCall<at::Tensor>> calls = {
      {},
      {.use_causal_mask = true},
      {.attention_mask = seen},
      {.attention_mask = seen, .use_causal_mask = true}};
  const at::Tensor x = at::randn({2, 140, 8}).set_requires_grad(true);
  for (const auto& options : calls) {
    const auto expect_same = [&](const auto& layer) {
      layer->ensure_built({{kNone, 140, 8}, {kNone, 140, 8}});
      expect_close(
          values_and_gradients(layer, x, [&] { return layer(x, x, options); }),
          values_and_gradients(layer, x, [&] { return layer.with_scores(x, x, options).first; }));
    };
    expect_same(MultiHeadAttention(2, 3, {.value_dim = 5}));
    expect_same(MultiHeadAttention(2, 3, {.use_bias = false, .sliding_window = 9}));
    expect_same(GroupQueryAttention(3, 4, 2));
    expect_same(GroupQueryAttention(3, 6, 2, {.sliding_window = 4, .use_gate = true}));
  }
}

TEST(MultiHeadAttentionTest, SelfAttentionProjectsAtOnceAsApart) {
  at::manual_seed(5);
  const MultiHeadAttention mha(4, 8);
  mha->ensure_built({{kNone, 20, 16}, {kNone, 20, 16}});
  const at::Tensor x = at::randn({3, 20, 16}).set_requires_grad(true);
  expect_close(values_and_gradients(mha, x, [&] { return mha(x, x); }),
               values_and_gradients(mha, x, [&] { return mha(x, x.view(x.sizes())); }));
}

TEST(MultiHeadAttentionTest, AQueryThatSeesNothingGivesTheMean) {
  at::manual_seed(6);
  const MultiHeadAttention mha(1, 4);
  const at::Tensor x = at::randn({1, 6, 4});
  at::Tensor seen = at::ones({1, 6, 6}, at::kBool);
  const at::Tensor all = mha(x, x, {.attention_mask = seen});
  seen.select(1, 2).fill_(false);
  const at::Tensor got = mha(x, x, {.attention_mask = seen});
  // With a query of zeros all keys count alike.
  const at::Tensor zeros = at::zeros({1, 6, 4});
  const at::Tensor mean = mha(zeros, x);
  EXPECT_TRUE(at::allclose(got.select(1, 2), mean.select(1, 2), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(got.select(1, 3), all.select(1, 3), 1e-5, 1e-6));
}

TEST(AttentionLayerTest, ValuesAndGradientsAreThoseWithScores) {
  at::manual_seed(7);
  const Attention layer({.use_scale = true});
  layer->ensure_built({{kNone, 70, 5}, {kNone, 140, 5}});
  const at::Tensor q = at::randn({2, 70, 5}).set_requires_grad(true), v = at::randn({2, 140, 5});
  for (const bool causal : {false, true}) {
    const ScoreCall options{.use_causal_mask = causal};
    expect_close(values_and_gradients(layer, q,
                                      [&] {
                                        return layer({q, v}, options);
                                      }),
                 values_and_gradients(layer, q, [&] {
                   return layer.with_scores({q, v}, options).first;
                 }));
  }
}

/// Losses of a small transformer's training.
std::vector<double> losses_of_transformer(bool with_scores) {
  at::manual_seed(9);
  const at::Tensor tokens = at::randint(1, 30, {24, 40});
  const at::Tensor labels = tokens.cumsum(1).remainder(7);
  const auto input = Input({40}, {.dtype = at::kLong});
  keras::SymbolicTensor x = Embedding(30, 16)(input);
  for (int block = 0; block < 2; ++block) {
    const auto normed = LayerNormalization()(x);
    const MultiHeadAttention mha(2, 8);
    const AttentionCall<keras::SymbolicTensor> causal{.use_causal_mask = true};
    x = add({x, with_scores ? mha.with_scores(normed, normed, causal).first
                            : mha(normed, normed, causal)});
    const auto inner = Dense(32, {.activation = "gelu"})(LayerNormalization()(x));
    x = add({x, Dense(16)(inner)});
  }
  keras::Model model(input, Dense(7)(x));
  keras::Tensors weights;
  at::manual_seed(10);
  for (const at::Tensor& weight : model.get_weights()) {
    weights.push_back(at::randn(weight.sizes()) * 0.2);
  }
  model.set_weights(weights);
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
  const data::Dataset rows = data::Dataset::from_tensor_slices({tokens, labels}).batch(8);
  return model.fit(rows, {.epochs = 5, .verbose = 0})["loss"];
}

TEST(MultiHeadAttentionTest, ATransformerTrainsAlikeInTilesAndWithScores) {
  const auto tiles = losses_of_transformer(false);
  const auto scores = losses_of_transformer(true);
  ASSERT_EQ(tiles.size(), scores.size());
  for (size_t i = 0; i < tiles.size(); ++i) EXPECT_NEAR(tiles[i], scores[i], 2e-3 * scores[i]);
  EXPECT_LT(tiles.back(), tiles.front());
}

TEST(MergingTest, FunctionsEqualLayers) {
  const auto a = Input({4});
  const auto b = Input({4});
  EXPECT_EQ(add({a, b}).shape(), (Shape{kNone, 4}));
  EXPECT_EQ(Multiply()({a, b}).shape(), (Shape{kNone, 4}));
  EXPECT_EQ(concatenate({a, b}).shape(), (Shape{kNone, 8}));
  EXPECT_EQ(dot({a, b}, 1).shape(), (Shape{kNone, 1}));
  const at::Tensor x = at::randn({3, 4}), y = at::randn({3, 4});
  EXPECT_TRUE(at::equal(add(Tensors{x, y}), x + y));
  EXPECT_TRUE(at::equal(subtract(Tensors{x, y}), x - y));
  EXPECT_TRUE(at::equal(multiply(Tensors{x, y}), x * y));
  EXPECT_TRUE(at::equal(average(Tensors{x, y}), (x + y) / 2));
  EXPECT_TRUE(at::equal(maximum(Tensors{x, y}), at::maximum(x, y)));
  EXPECT_TRUE(at::equal(minimum(Tensors{x, y}), at::minimum(x, y)));
  EXPECT_TRUE(at::equal(concatenate(Tensors{x, y}), at::cat({x, y}, 1)));
  EXPECT_TRUE(at::allclose(dot(Tensors{x, y}, 1), (x * y).sum(1, true), 1e-5, 1e-6));
  EXPECT_EQ(add({a, b}).node()->layer.name().substr(0, 3), "add");
}

TEST(MergingTest, NamesTheLayerInErrors) {
  const auto a = Input({4});
  const auto b = Input({5});
  expect_error_containing(
      [&] {
        add({a, b}, {.name = "sum"});
      },
      ErrorCode::kInvalidArgument,
      "Layer \"sum\": Inputs have incompatible shapes. Received shapes (4,) and (5,)");
  expect_error_containing(
      [&] {
        subtract({a, a, a});
      },
      ErrorCode::kInvalidArgument, "A `Subtract` layer should be called on exactly 2 inputs");
  expect_error_containing(
      [&] {
        concatenate({Input({4, 2}), Input({5, 3})}, {.name = "joined"});
      },
      ErrorCode::kInvalidArgument,
      "Layer \"joined\": A `Concatenate` layer requires inputs with matching shapes except for "
      "the concatenation axis. Received: input_shape=[(None, 4, 2), (None, 5, 3)]");
  expect_error_containing(
      [&] {
        dot({a, b}, 1);
      },
      ErrorCode::kInvalidArgument,
      "Incompatible input shapes: axis values 4 (at axis 1) != 5 (at axis 1)");
  expect_error_containing(
      [&] {
        dot({a, a}, 0);
      },
      ErrorCode::kInvalidArgument, "Cannot perform batch_dot over axis 0");
  expect_error_containing(
      [&] {
        add(Tensors{at::zeros({2, 3}), at::zeros({3, 3})});
      },
      ErrorCode::kInvalidArgument, "Cannot merge tensors with different batch sizes");
}

TEST(EinsumDenseTest, ProductsOfMatricesAreEinsums) {
  at::manual_seed(8);
  struct Example {
    std::string equation;
    Shape input, output;
    std::optional<std::string> bias;
  };
  const std::vector<Example> examples = {{"abc,cde->abde", {5, 6}, {5, 2, 3}, "de"},
                                         {"abcd,cde->abe", {5, 2, 3}, {5, 7}, "e"},
                                         {"ab,bc->ac", {5}, {4}, {}},
                                         {"ab,bcd->acd", {5}, {4, 3}, "d"},
                                         {"abc,bc->ab", {5, 6}, {5}, {}},
                                         {"abc,cb->ab", {5, 6}, {5}, {}},
                                         {"abc,cd->adb", {5, 6}, {4, 5}, "d"}};
  for (const Example& each : examples) {
    SCOPED_TRACE(each.equation);
    EinsumDense layer(each.equation, each.output,
                      {.bias_axes = each.bias, .bias_initializer = "ones"});
    Shape batched = each.input;
    batched.insert(batched.begin(), 3);
    const at::Tensor x = at::randn(batched).set_requires_grad(true);
    layer(x);
    const at::Tensor kernel = layer->weights()[0].variable.value();
    const auto einsum = [&] {
      const at::Tensor y = at::einsum(each.equation, {x, kernel});
      return each.bias ? y + layer->weights()[1].variable.value() : y;
    };
    expect_close(values_and_gradients(layer, x, [&] { return layer(x); }),
                 values_and_gradients(layer, x, einsum));
  }
}

TEST(EinsumDenseTest, NamesTheLayerInErrors) {
  expect_error_containing([] { EinsumDense("ab-bc", {4}); }, ErrorCode::kInvalidArgument,
                          "Invalid einsum equation 'ab-bc'");
  expect_error_containing(
      [] { EinsumDense("ab,bc->ac", {4}, {.bias_axes = "z", .name = "product"})(Input({3})); },
      ErrorCode::kInvalidArgument,
      "Layer \"product\": Bias dimension 'z' was requested, but is not part of the output spec "
      "'ac'");
  expect_error_containing(
      [] {
        EinsumDense("abc,cd->abd", {3, 4})(Input({2, 5}));
      },
      ErrorCode::kInvalidArgument,
      "Input shape and output shape do not match at shared dimension 'b'");
  expect_error_containing(
      [] {
        EinsumDense("ab,bc->ac", {4})(Input({2, 5}));
      },
      ErrorCode::kInvalidArgument, "expected an input of 2 dimensions");
}

}  // namespace
}  // namespace strata::layers
