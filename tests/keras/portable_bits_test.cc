// Training with ReplicaOptions::bits = "portable": the same SHA-256 on every processor. CTest runs
// this with each instruction set that this one has.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "strata/data/dataset.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/model.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/expect_error.h"

namespace strata::keras {
namespace {

using namespace layers;  // NOLINT

constexpr int64_t kSteps = 20;
constexpr int64_t kBatch = 16;

MirroredStrategy portable_replicas() {
  set_logical_devices("cpu", 2);
  return MirroredStrategy({.devices = {"cpu:0", "cpu:1"},
                           .seed = 3,
                           .replicas = {.threads_per_replica = 1, .bits = Bits::kPortable}});
}

Model mlp() {
  return Sequential(Input({28, 28}),
                    {Flatten(), Dense(128, {.activation = "relu"}), Dropout(0.2), Dense(10)});
}

Model cnn() {
  return Sequential(Input({28, 28, 1}), {Conv2D(16, 3, {.activation = "relu"}), MaxPooling2D(),
                                         Conv2D(32, 3, {.activation = "relu"}), MaxPooling2D(),
                                         Flatten(), Dense(64, {.activation = "relu"}), Dense(10)});
}

/// He et al. 2015, section 4.2, n = 3.
Model resnet20() {
  const SymbolicTensor input = Input({32, 32, 3});
  const auto normalized = [](const SymbolicTensor& x) { return BatchNormalization()(x); };
  const auto convolved = [&](const SymbolicTensor& x, int64_t filters, int64_t size,
                             int64_t stride) {
    return normalized(
        Conv2D(filters, size, {.strides = stride, .padding = "same", .use_bias = false})(x));
  };
  SymbolicTensor x = ReLU()(convolved(input, 16, 3, 1));
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const int64_t stride = filters > 16 && block == 0 ? 2 : 1;
      const SymbolicTensor shortcut = stride == 1 ? x : convolved(x, filters, 1, 2);
      SymbolicTensor y = ReLU()(convolved(x, filters, 3, stride));
      y = convolved(y, filters, 3, 1);
      x = ReLU()(Add()({shortcut, y}));
    }
  }
  return Model(input, Dense(10)(GlobalAveragePooling2D()(x)));
}

constexpr int64_t kWords = 100;
constexpr int64_t kTokens = 20;

Model lstm() { return Sequential(Input({kTokens}), {Embedding(kWords, 16), LSTM(32), Dense(10)}); }

Model transformer() {
  const SymbolicTensor input = Input({kTokens});
  SymbolicTensor x = Embedding(kWords, 32)(input);
  for (int layer = 0; layer < 2; ++layer) {
    SymbolicTensor y = LayerNormalization()(x);
    y = MultiHeadAttention(4, 8)(y, y, {.use_causal_mask = true});
    x = Add()({x, y});
    y = Dense(64, {.activation = "gelu"})(LayerNormalization()(x));
    x = Add()({x, Dense(32)(y)});
  }
  return Model(input, Dense(10)(GlobalAveragePooling1D()(x)));
}

struct Case {
  const char* name;
  Model (*make)();
  std::vector<int64_t> shape;  ///< of an element; of one dimension: tokens
  const char* sha256;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

/// Whole numbers of a generator, which are the same everywhere.
data::Example rows(const Case& each) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  std::vector<int64_t> shape = {kSteps * kBatch};
  shape.insert(shape.end(), each.shape.begin(), each.shape.end());
  const bool tokens = each.shape.size() == 1;
  const at::Tensor x = at::randint(0, tokens ? kWords : 256, shape, generator, at::kLong);
  const at::Tensor y = at::randint(0, 10, {kSteps * kBatch}, generator, at::kLong);
  return {tokens ? x : x.to(at::kFloat) / 256, y};
}

class PortableBitsTest : public testing::TestWithParam<Case> {};

TEST_P(PortableBitsTest, TwentyStepsEndInTheSameBitsOnEveryProcessor) {
  MirroredStrategy strategy = portable_replicas();
  at::manual_seed(5);
  const Model model = strategy.scope([] {
    const Model made = GetParam().make();
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.003}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return made;
  });
  const History history =
      model.fit(data::Dataset::from_tensor_slices(rows(GetParam())).batch(kBatch),
                {.epochs = 1, .verbose = 0});
  std::vector<at::Tensor> state;
  for (const Weight& weight : model->weights()) state.push_back(weight.variable.value());
  EXPECT_EQ(tensor::fingerprint(state), GetParam().sha256) << history["loss"][0];
}

INSTANTIATE_TEST_SUITE_P(
    Models, PortableBitsTest,
    testing::Values(Case{"mlp",
                         mlp,
                         {28, 28},
                         "ea4effa8b7148c86871db654491fb9102aa1bfb6c89f4393cc70fc1fc020a0c1"},
                    Case{"cnn",
                         cnn,
                         {28, 28, 1},
                         "3a17d455602b71364cafb0a0c61dfc37fdde2d1c1f7aae83d134ab32c867c2aa"},
                    Case{"resnet20",
                         resnet20,
                         {32, 32, 3},
                         "74a85f4022edd205a6b92d9c02ce1033dc52a909c44bcbedbd7863489c5174bd"},
                    Case{"lstm",
                         lstm,
                         {kTokens},
                         "452ebc8395902d1db5d36fe1d3ab7d4b37b33806a9557316d8701a6e731a9b02"},
                    Case{"transformer",
                         transformer,
                         {kTokens},
                         "f7c0c6870e4eeffd371fe2f0e371ed6f27dd6eccc3aa7d1cb04e1928b46a0e77"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PortableOperatorsTest, AnOperatorWithoutAPortableKernelIsAnErrorThatNamesIt) {
  MirroredStrategy strategy = portable_replicas();
  expect_error_containing([&] { strategy.run([] { at::erfinv(at::ones({3}) / 2); }); },
                          ErrorCode::kUnimplemented, "aten::erfinv");
  strategy.run([] { EXPECT_EQ(at::ones({3}).cumsum(0).sum().item<float>(), 6); });
}

TEST(PortableOperatorsTest, WordsAreChecked) {
  expect_error_containing([] { MirroredStrategy({.replicas = {.bits = "same"}}); },
                          ErrorCode::kInvalidArgument, "expected 'native' or 'portable'");
}

}  // namespace
}  // namespace strata::keras
