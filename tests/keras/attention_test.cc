#include "strata/keras/layers/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keras/graph/node.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/einsum_dense.h"
#include "strata/keras/layers/embedding.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/model.h"
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
