#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/conv_lstm.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/wrappers.h"
#include "strata/keras/model.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::Input;
using keras::Shape;
using keras::Tensors;

TEST(RecurrentTest, AllAtOnceEqualsStepByStep) {
  const at::Tensor x = at::randn({3, 6, 4});
  for (bool use_bias : {true, false}) {
    const LSTM fused(5, {.use_bias = use_bias, .return_sequences = true, .return_state = true});
    const Tensors fast = fused.with_states(x);
    const Tensors slow =
        fused.call({x}, {.masks = {at::ones({3, 6}, at::kBool)}});  // a mask goes step by step
    ASSERT_EQ(fast.size(), 3U);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::allclose(fast[i], slow[i], 1e-5, 1e-6));
  }
}

/// `layer`'s outputs for x and mask, and behind them the gradients of x and of its weights.
Tensors values_and_gradients(const keras::Layer& layer, const at::Tensor& x,
                             const at::Tensor& mask) {
  const at::Tensor input = x.detach().clone().set_requires_grad(true);
  keras::Call call;
  if (mask.defined()) call.masks = {mask};
  Tensors all = layer.call({input}, call);
  at::Tensor loss;
  for (const at::Tensor& y : all) {
    const at::Tensor part = (y * at::arange(y.numel(), y.options()).sin().view(y.sizes())).sum();
    loss = loss.defined() ? loss + part : part;
  }
  Tensors leaves{input};
  for (const auto& weight : layer->weights()) leaves.push_back(weight.variable.value());
  for (const at::Tensor& gradient : torch::autograd::grad({loss}, leaves)) all.push_back(gradient);
  return all;
}

TEST(RecurrentTest, HiddenStepsAndTheirAbsenceAgreeWithDouble) {
  // In double precision layers go step by step.
  const auto made = [](int which, bool sequences, bool backwards, bool zero, const char* dtype) {
    if (which == 0) {
      return keras::Layer(LSTM(5, {.return_sequences = sequences,
                                   .return_state = true,
                                   .go_backwards = backwards,
                                   .zero_output_for_mask = zero,
                                   .dtype = dtype}));
    }
    if (which == 3) return keras::Layer(RNN(LSTMCell(5, {.dtype = dtype}), {.dtype = dtype}));
    return keras::Layer(GRU(5, {.reset_after = which == 1,
                                .return_sequences = sequences,
                                .return_state = true,
                                .go_backwards = backwards,
                                .zero_output_for_mask = zero,
                                .dtype = dtype}));
  };
  const at::Tensor x = at::randn({4, 6, 3});
  const at::Tensor lengths = at::tensor({6, 2, 0, 4}, at::kLong).unsqueeze(1);
  const at::Tensor time = at::arange(6).unsqueeze(0);
  const Tensors masks{{},
                      time < lengths,
                      time >= 6 - lengths,
                      at::rand({4, 6}) < 0.5,
                      at::zeros({4, 6}, at::kBool)};
  for (int variant = 0; variant < 32; ++variant) {
    const int which = variant % 4;
    if (which > 1 && variant > 4) continue;
    const bool sequences = (variant & 4) != 0, backwards = (variant & 8) != 0,
               zero = (variant & 16) != 0;
    const keras::Layer layer = made(which, sequences, backwards, zero, "float32");
    const keras::Layer exact = made(which, sequences, backwards, zero, "float64");
    layer->ensure_built({{4, 6, 3}});
    exact->ensure_built({{4, 6, 3}});
    const auto from = layer->weights(), to = exact->weights();
    for (size_t i = 0; i < from.size(); ++i) {
      Variable(to[i].variable).assign(from[i].variable.value().to(at::kDouble));
    }
    for (size_t m = 0; m < masks.size(); ++m) {
      SCOPED_TRACE(testing::Message() << variant << " mask " << m);
      const Tensors got = values_and_gradients(layer, x, masks[m]);
      const Tensors want = values_and_gradients(exact, x.to(at::kDouble), masks[m]);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(at::allclose(got[i].to(at::kDouble), want[i], 1e-4, 1e-5)) << i;
      }
    }
  }
}

TEST(RecurrentTest, DropsTheSameInputsAtEveryStep) {
  at::manual_seed(3);
  // The state is the input, through an identity.
  const SimpleRNN layer(50, {.activation = "linear",
                             .use_bias = false,
                             .kernel_initializer = "identity",
                             .recurrent_initializer = "zeros",
                             .dropout = 0.5,
                             .return_sequences = true});
  const at::Tensor y = layer.call({at::ones({4, 3, 50})}, {.training = true}).at(0);
  EXPECT_TRUE(at::equal(y.select(1, 0), y.select(1, 2)));
  EXPECT_TRUE(((y == 0) | (y == 2)).all().item<bool>());
  const double kept = (y != 0).to(at::kDouble).mean().item<double>();
  EXPECT_GT(kept, 0.3);
  EXPECT_LT(kept, 0.7);
  EXPECT_TRUE(at::equal(layer(at::ones({4, 3, 50})), at::ones({4, 3, 50})));
}

TEST(RecurrentTest, RecurrentDropoutLeavesTheFirstStepAlone) {
  at::manual_seed(3);
  for (const auto& layer :
       {keras::Layer(LSTM(20, {.recurrent_dropout = 0.5, .return_sequences = true})),
        keras::Layer(GRU(20, {.recurrent_dropout = 0.5, .return_sequences = true})),
        keras::Layer(
            GRU(20, {.recurrent_dropout = 0.5, .reset_after = false, .return_sequences = true}))}) {
    const at::Tensor x = at::randn({2, 3, 4});
    const at::Tensor quiet = layer(x);
    const at::Tensor noisy = layer.call({x}, {.training = true}).at(0);
    EXPECT_TRUE(at::allclose(quiet.select(1, 0), noisy.select(1, 0), 1e-5, 1e-6));
    EXPECT_FALSE(at::allclose(quiet.select(1, 1), noisy.select(1, 1), 1e-2, 1e-3));
  }
}

TEST(RecurrentTest, StatefulGoesOnWhereItStopped) {
  const at::Tensor x = at::randn({2, 6, 3});
  LSTM whole(4, {.name = "whole"});
  const at::Tensor expected = whole(x);
  LSTM parts(4, {.stateful = true, .name = "parts"});
  parts->ensure_built({{2, 3, 3}});
  const auto from = whole->weights(), to = parts->weights();
  ASSERT_EQ(from.size(), 3U);
  ASSERT_EQ(to.size(), 3U) << "states are no weights";
  for (size_t i = 0; i < 3; ++i) Variable(to[i].variable).assign(from[i].variable.value());
  parts(x.slice(1, 0, 3));
  EXPECT_TRUE(at::allclose(parts(x.slice(1, 3, 6)), expected, 1e-5, 1e-6));
  parts.reset_states();
  EXPECT_FALSE(at::allclose(parts(x.slice(1, 3, 6)), expected, 1e-2, 1e-3));
  expect_error_containing(
      [&] {
        parts(at::zeros({3, 3, 3}));
      },
      ErrorCode::kInvalidArgument, "Layer \"parts\": If an RNN is stateful, the batch size");
  expect_error_containing([&] { whole.reset_states(); }, ErrorCode::kFailedPrecondition,
                          "not stateful");
  expect_error_containing(
      [&] {
        LSTM(4, {.stateful = true})(Input({3, 3}));
      },
      ErrorCode::kInvalidArgument,
      "the batch size must be static. Found dynamic batch size: sequence.shape=(None, 3, 3)");
  set_logical_devices("cpu", 2);
  MirroredStrategy strategy(
      {.devices = {"cpu:0", "cpu:1"}, .replicas = {.threads_per_replica = 1}});
  expect_error_containing(
      [&] { strategy.scope([] {
              LSTM(4, {.stateful = true})->ensure_built({{2, 3, 3}});
            }); },
      ErrorCode::kUnimplemented, "stateful=True under a strategy with 2 replicas");
}

TEST(RecurrentTest, StatefulConvolutionsGoOnWhereTheyStopped) {
  const at::Tensor x = at::randn({2, 6, 5, 3});
  ConvLSTM1D whole(4, 3, {.name = "whole_images"});
  const at::Tensor expected = whole(x);
  ConvLSTM1D parts(4, 3, {.stateful = true, .name = "image_parts"});
  parts->ensure_built({{2, 3, 5, 3}});
  parts.set_weights(whole.get_weights());
  parts(x.slice(1, 0, 3));
  EXPECT_TRUE(at::allclose(parts(x.slice(1, 3, 6)), expected, 1e-5, 1e-6));
  parts.reset_states();
  EXPECT_FALSE(at::allclose(parts(x.slice(1, 3, 6)), expected, 1e-2, 1e-3));
  expect_error_containing([&] { whole.reset_states(); }, ErrorCode::kFailedPrecondition,
                          "\"whole_images\": reset_states() of a layer that is not stateful");
  expect_error_containing(
      [&] {
        ConvLSTM1D(4, 3, {.stateful = true})(Input({3, 5, 3}));
      },
      ErrorCode::kInvalidArgument, "the batch size must be static");
}

TEST(RecurrentTest, ConvolutionsDropInTrainingAlone) {
  at::manual_seed(2);
  const at::Tensor x = at::ones({64, 3, 6, 2});
  const ConvLSTM1D none(3, 3, {.name = "keeps"});
  const ConvLSTM1D some(3, 3, {.dropout = 0.5, .recurrent_dropout = 0.3, .name = "drops"});
  const at::Tensor expected = none(x);
  some->ensure_built({{64, 3, 6, 2}});
  some.set_weights(none.get_weights());
  EXPECT_TRUE(at::equal(some(x), expected));
  const at::Tensor dropped = some.call({x}, {.training = true})[0];
  // Rows of the input are equal, and what is dropped of each is not.
  EXPECT_GT((dropped - dropped[0]).abs().max().item<double>(), 1e-3);
}

TEST(RecurrentTest, TakesInitialStates) {
  const auto x = Input({6, 3});
  const auto h = Input({4});
  const auto c = Input({4});
  LSTM lstm(4, {.return_sequences = true});
  const keras::Model model({x, h, c}, {lstm(x, {.initial_state = {h, c}})});
  const at::Tensor values = at::randn({2, 6, 3});
  const Tensors states{at::randn({2, 4}), at::randn({2, 4})};
  const at::Tensor expected = lstm(values, {.initial_state = states});
  EXPECT_TRUE(at::equal(model(Tensors{values, states[0], states[1]}), expected));
  EXPECT_FALSE(at::allclose(expected, lstm(values)));
  expect_error_containing([&] { lstm(values, {.initial_state = {states[0]}}); },
                          ErrorCode::kInvalidArgument, "got 1 initial states; expected 2");
  expect_error_containing(
      [&] {
        lstm(values, {.initial_state = {states[0], at::zeros({2, 5})}});
      },
      ErrorCode::kInvalidArgument, "initial state 1 has shape (2, 5); expected (2, 4)");
}

TEST(RecurrentTest, HandsStatesFromAnEncoderToADecoder) {
  const auto source = Input({5, 3});
  const auto target = Input({4, 3});
  GRU encoder(6, {.return_state = true});
  const auto encoded = encoder.with_states(source);
  ASSERT_EQ(encoded.size(), 2U);
  const auto decoded = GRU(6, {.return_sequences = true})(target, {.initial_state = {encoded[1]}});
  const keras::Model model({source, target}, {decoded});
  EXPECT_EQ(model(Tensors{at::randn({2, 5, 3}), at::randn({2, 4, 3})}).sizes(),
            (at::IntArrayRef{2, 4, 6}));
  expect_error_containing([&] { encoder(source); }, ErrorCode::kInvalidArgument, "has 2 outputs");
}

/// h' = h + x, a cell of the user's.
class SumCell final : public RNNCellImpl {
 public:
  using RNNCellImpl::RNNCellImpl;
  std::string_view class_name() const override { return "SumCell"; }
  std::vector<int64_t> state_sizes() const override { return {2}; }

 protected:
  void describe(keras::ConfigWriter&) const override {}
  Tensors call(const Tensors& inputs, const Call&) override {
    const at::Tensor h = inputs.at(0) + inputs.at(1);
    return {h, h};
  }
};

TEST(RecurrentTest, RunsCellsOfOnesOwn) {
  const at::Tensor x = at::randn({2, 4, 2});
  const RNN sums(keras::make_layer<SumCell>(), {.return_sequences = true});
  EXPECT_TRUE(at::allclose(sums(x), x.cumsum(1)));
  const RNN stacked({keras::make_layer<SumCell>(), keras::make_layer<SumCell>()});
  EXPECT_TRUE(at::allclose(stacked(x), x.cumsum(1).cumsum(1).select(1, 3)));
  EXPECT_EQ(RNN(keras::make_layer<SumCell>())(Input({keras::kNone, 2})).shape(),
            (Shape{keras::kNone, 2}));
  expect_error_containing([&] { RNN{Dense(3)}; }, ErrorCode::kInvalidArgument,
                          "expected an RNN cell");
}

struct Counter {
  std::string_view name;
  bool matrices_alone;
  int count = 0;
};

/// How often an operator is called while `function` runs; `matrices_alone`: with one of float first.
template <typename Function>
int count_calls(std::string_view name, bool matrices_alone, const Function& function) {
  static thread_local Counter counter;
  counter = {name, matrices_alone};
  auto callback = at::RecordFunctionCallback(
      [](const at::RecordFunction& record) -> std::unique_ptr<at::ObserverContext> {
        if (record.name() != counter.name) return nullptr;
        if (counter.matrices_alone) {
          const at::Tensor& first = record.inputs()[0].toTensor();
          if (first.scalar_type() != at::kFloat || first.dim() != 2) return nullptr;
        }
        ++counter.count;
        return nullptr;
      });
  const auto handle = at::addThreadLocalCallback(
      callback.needsInputs(matrices_alone).scopes({at::RecordScope::FUNCTION}));
  function();
  at::removeCallback(handle);
  return counter.count;
}

TEST(RecurrentTest, ReadsTheCopyOfItsWeightsInSixteenBits) {
  const at::Tensor x = at::randn({3, 4, 5});
  ASSERT_EQ(count_calls("aten::_to_copy", true, [&] { x[0].to(at::kBFloat16); }), 1);
  for (const keras::Layer& layer : {keras::Layer(LSTM(6, {.dtype = "mixed_bfloat16"})),
                                    keras::Layer(GRU(6, {.dtype = "mixed_bfloat16"})),
                                    keras::Layer(SimpleRNN(6, {.dtype = "mixed_bfloat16"}))}) {
    const at::Tensor first = layer(x);
    at::Tensor second;
    // x has three dimensions, so what is counted would be the weights.
    EXPECT_EQ(count_calls("aten::_to_copy", true, [&] { second = layer(x); }), 0) << layer.name();
    EXPECT_TRUE(at::equal(first, second));
    for (const auto& weight : layer->weights()) {
      strata::Variable(weight.variable).assign(weight.variable.value().detach() * 0.5);
    }
    const keras::Layer plain = keras::layer_from_config(keras::to_config(layer));
    plain(x);
    for (size_t i = 0; i < layer->weights().size(); ++i) {
      strata::Variable(plain->weights()[i].variable)
          .assign(layer->weights()[i].variable.value().detach());
    }
    EXPECT_TRUE(at::equal(layer(x), plain(x))) << "after an assignment";
    EXPECT_FALSE(at::equal(layer(x), first));
  }
}

/// A model's output, and the gradients of the weights of its layers.
Tensors output_and_gradients(const keras::Model& model, const std::vector<keras::Layer>& layers,
                             const at::Tensor& words) {
  const at::Tensor y = model(words);
  const at::Tensor loss = (y * at::arange(y.numel(), y.options()).sin().view(y.sizes())).sum();
  Tensors all{y}, leaves;
  for (const keras::Layer& layer : layers) {
    for (const auto& weight : layer->weights()) leaves.push_back(weight.variable.value());
  }
  for (const at::Tensor& each : torch::autograd::grad({loss}, leaves)) {
    all.push_back(each.is_sparse() ? each.to_dense() : each);
  }
  return all;
}

TEST(RecurrentTest, WordsThatComeAgainChangeNothing) {
  // With a layer between them the recurrent layer does not know the embedding's words.
  const char* const kInputsBackward = "strata::recurrent_inputs_backward";
  for (int variant = 0; variant < 32; ++variant) {
    SCOPED_TRACE(variant);
    const bool lstm = variant & 1, mask_zero = variant & 2, backwards = variant & 4;
    const bool sequences = variant & 8, both_ways = variant & 16;
    if (both_ways && backwards) continue;
    const keras::Layer embedding = Embedding(9, 4, {.mask_zero = mask_zero});
    keras::Layer recurrent =
        lstm ? keras::Layer(LSTM(5, {.return_sequences = sequences, .go_backwards = backwards}))
             : keras::Layer(GRU(5, {.return_sequences = sequences, .go_backwards = backwards}));
    if (both_ways) recurrent = Bidirectional(recurrent);
    const auto model_of = [&](bool apart) {
      const keras::SymbolicTensor words = Input({12}, {.dtype = at::kLong});
      keras::SymbolicTensor x = embedding(words);
      if (apart) x = Activation("linear")(x);
      return keras::Model(words, recurrent(x));
    };
    const keras::Model plain = model_of(true), model = model_of(false);
    for (const int64_t kinds : {9, 2}) {
      const at::Tensor words = at::randint(0, kinds, {6, 12}, at::kLong);
      Tensors want, got;
      const auto run = [&](const keras::Model& each, Tensors& results) {
        return count_calls(kInputsBackward, false, [&] {
          results = output_and_gradients(each, {embedding, recurrent}, words);
        });
      };
      EXPECT_EQ(run(plain, want), 0);
      EXPECT_EQ(run(model, got), both_ways ? 2 : 1);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(at::allclose(got[i], want[i], 1e-4, 1e-5)) << i;
      }
    }
  }
}

TEST(RecurrentTest, AnEmbeddingThatOthersTakeHasTheGradientOfEachStep) {
  const keras::SymbolicTensor words = Input({6}, {.dtype = at::kLong});
  const keras::SymbolicTensor x = Embedding(3, 4)(words);
  const keras::Model model({words}, {LSTM(5)(x), x});
  const Tensors outputs = model.call({at::zeros({2, 6}, at::kLong)}, {});
  const auto slopes = torch::autograd::grad({outputs[0].sum()}, {outputs[1]});
  EXPECT_TRUE((slopes[0].abs().sum(-1) > 0).all().item<bool>());
}

TEST(RecurrentTest, SkipsPaddedTokensOfAnEmbedding) {
  const keras::Sequential model(Input({keras::kNone}, {.dtype = at::kLong}),
                                {Embedding(10, 3, {.mask_zero = true}),
                                 LSTM(4, {.return_sequences = true}), GRU(5), Dense(2)});
  const at::Tensor tokens = at::tensor({3, 1, 4}, at::kLong).reshape({1, 3});
  const at::Tensor padded = at::tensor({3, 1, 4, 0, 0}, at::kLong).reshape({1, 5});
  EXPECT_TRUE(at::allclose(model(tokens), model(padded), 1e-5, 1e-6));
}

TEST(RecurrentTest, HasStepsOfAnyCountAndNone) {
  for (const keras::Layer& layer :
       {keras::Layer(LSTM(4, {.return_sequences = true})),
        keras::Layer(GRU(4, {.return_sequences = true})),
        keras::Layer(Bidirectional(SimpleRNN(2, {.return_sequences = true})))}) {
    EXPECT_EQ(layer(Input({keras::kNone, 3})).shape(), (Shape{keras::kNone, keras::kNone, 4}));
    EXPECT_EQ(layer(at::zeros({2, 0, 3})).sizes(), (at::IntArrayRef{2, 0, 4}));
    EXPECT_EQ(layer(at::zeros({0, 5, 3})).sizes(), (at::IntArrayRef{0, 5, 4}));
  }
}

TEST(RecurrentTest, NamesTheLayerInErrors) {
  expect_error_containing(
      [] {
        LSTM(4, {.name = "mine"})
        (Input({3}));
      },
      ErrorCode::kInvalidArgument,
      "Input 0 of layer \"mine\" is incompatible with the layer: expected "
      "ndim=3, found ndim=2, but "
      "received input with shape (None, 3)");
  expect_error_containing([] { GRU(0); }, ErrorCode::kInvalidArgument,
                          "argument `units`, expected a positive integer, got 0");
  const LSTM built(4, {.name = "built"});
  built->ensure_built({{keras::kNone, 5, 3}});
  expect_error_containing(
      [&] {
        built.call({at::zeros({2, 5, 3})}, {.masks = {at::ones({2, 4}, at::kBool)}});
      },
      ErrorCode::kInvalidArgument, "Layer \"built\": got a mask of shape [2, 4]; expected [2, 5]");
  expect_error_containing([] { Bidirectional(LSTM(2), {.merge_mode = "difference"}); },
                          ErrorCode::kInvalidArgument, "Invalid merge mode. Received: difference");
  expect_error_containing([] { Bidirectional(LSTM(2), {.backward_layer = LSTM(2)}); },
                          ErrorCode::kInvalidArgument, "different `go_backwards` value");
  expect_error_containing([] { Bidirectional(Dense(2, "relu")); }, ErrorCode::kInvalidArgument,
                          "with a recurrent layer");
  expect_error_containing([] { TimeDistributed(Dense(2))(Input({4})); },
                          ErrorCode::kInvalidArgument,
                          "at least 3 dimensions, received: (None, 4)");
}

TEST(EmbeddingTest, GradientsAreSparse) {
  const Embedding table(1000, 4);
  const at::Tensor tokens = at::tensor({5, 7, 5}, at::kLong);
  const at::Tensor y = table(tokens);
  const at::Tensor gradient =
      torch::autograd::grad({y.sum()}, {table->weights()[0].variable.value()}).at(0);
  EXPECT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.to_dense().select(0, 5).sum().item<float>(), 8);
}

TEST(EmbeddingTest, NamesTokensThatAreNotInTheTable) {
  const Embedding table(10, 4, {.name = "words"});
  expect_error_containing(
      [&] {
        table(at::tensor({3, 10}, at::kLong));
      },
      ErrorCode::kOutOfRange,
      "Layer \"words\": got tokens from 3 to 10; expected 0 <= token < input_dim = 10");
  expect_error_containing([] { Embedding(0, 4); }, ErrorCode::kInvalidArgument,
                          "`input_dim` must be a positive integer. Received: input_dim=0");
}

}  // namespace
}  // namespace strata::layers
