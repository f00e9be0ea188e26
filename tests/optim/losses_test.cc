#include "strata/optim/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <vector>

#include "kernels/kernel_threads.h"
#include "optim/losses/cross_entropy_kernels.h"
#include "strata/core/error.h"
#include "support/expect_error.h"

namespace strata::losses {
namespace {

using at::Tensor;

using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

struct NamedLoss {
  std::string name;
  Function call;
};

std::vector<NamedLoss> dense_losses() {
  return {
      {"categorical_crossentropy", [](auto& t, auto& p) { return categorical_crossentropy(t, p); }},
      {"categorical_crossentropy logits",
       [](auto& t, auto& p) {
         return categorical_crossentropy(t, p, {.from_logits = true, .label_smoothing = 0.1});
       }},
      {"binary_crossentropy", [](auto& t, auto& p) { return binary_crossentropy(t, p); }},
      {"binary_crossentropy logits",
       [](auto& t, auto& p) { return binary_crossentropy(t, p, {.from_logits = true}); }},
      {"categorical_focal_crossentropy",
       [](auto& t, auto& p) { return categorical_focal_crossentropy(t, p); }},
      {"binary_focal_crossentropy",
       [](auto& t, auto& p) { return binary_focal_crossentropy(t, p); }},
      {"mean_squared_error", mean_squared_error},
      {"mean_absolute_error", mean_absolute_error},
      {"mean_absolute_percentage_error", mean_absolute_percentage_error},
      {"mean_squared_logarithmic_error", mean_squared_logarithmic_error},
      {"huber", [](auto& t, auto& p) { return huber(t, p, 0.5); }},
      {"log_cosh", log_cosh},
      {"kl_divergence", kl_divergence},
      {"poisson", poisson},
      {"hinge", hinge},
      {"squared_hinge", squared_hinge},
      {"categorical_hinge", categorical_hinge},
      {"cosine_similarity", cosine_similarity},
  };
}

Tensor gradient(const Tensor& of, const Tensor& to, bool create_graph = false) {
  return torch::autograd::grad({of}, {to}, {}, create_graph, create_graph)[0];
}

TEST(LossesTest, BatchesOfNoRowsGiveNoValues) {
  for (const auto& [name, loss] : dense_losses()) {
    const Tensor y_pred = at::rand({0, 4}).set_requires_grad(true);
    const Tensor values = loss(at::rand({0, 4}), y_pred);
    EXPECT_EQ(values.sizes(), at::IntArrayRef({0})) << name;
    EXPECT_EQ(gradient(values.sum(), y_pred).sizes(), y_pred.sizes()) << name;
  }
  for (const bool from_logits : {false, true}) {
    const Tensor y_pred = at::rand({0, 4}).set_requires_grad(true);
    const Tensor values = sparse_categorical_crossentropy(at::empty({0}, at::kLong), y_pred,
                                                          {.from_logits = from_logits});
    EXPECT_EQ(values.sizes(), at::IntArrayRef({0}));
    EXPECT_EQ(gradient(values.sum(), y_pred).sizes(), y_pred.sizes());
  }
  EXPECT_EQ(reduce(at::empty({0})).item<float>(), 0);
}

TEST(LossesTest, GradientsAgreeWithDifferences) {
  at::manual_seed(3);
  for (const auto& [name, loss] : dense_losses()) {
    const Tensor y_true = at::softmax(at::randn({3, 4}, at::kDouble), -1);
    const Tensor start = at::softmax(at::randn({3, 4}, at::kDouble), -1);
    const Tensor y_pred = start.clone().set_requires_grad(true);
    const Tensor analytic = gradient(loss(y_true, y_pred).sum(), y_pred);
    for (int64_t i = 0; i < 12; ++i) {
      const double step = 1e-6;
      Tensor up = start.clone(), down = start.clone();
      up.view(-1)[i] += step;
      down.view(-1)[i] -= step;
      const double numeric =
          (loss(y_true, up).sum() - loss(y_true, down).sum()).item<double>() / (2 * step);
      EXPECT_NEAR(analytic.reshape(-1)[i].item<double>(), numeric, 1e-4) << name << i;
    }
  }
}

TEST(LossesTest, OtherShapesAreRefused) {
  for (const auto& [name, loss] : dense_losses()) {
    EXPECT_THROW(loss(at::rand({3, 1}), at::rand({3, 4})), Error) << name;
    EXPECT_THROW(loss(at::rand({4, 3}), at::rand({3, 4})), Error) << name;
  }
  expect_error(
      [] {
        mean_squared_error(at::rand({3}), at::rand({3, 4}));
      },
      ErrorCode::kInvalidArgument,
      "[losses] mean_squared_error: got y_true of shape [3] and y_pred of shape [3, 4]; expected "
      "equal "
      "shapes");
  expect_error([] { mean_squared_error(at::rand({3}), at::zeros({3}, at::kLong)); },
               ErrorCode::kInvalidArgument,
               "[losses] mean_squared_error: got y_pred of dtype Long; expected a floating dtype");
  expect_error([] { mean_squared_error(at::rand({}), at::rand({})); }, ErrorCode::kInvalidArgument,
               "[losses] mean_squared_error: got a scalar y_pred; expected [batch, ...]");
  expect_error(
      [] {
        huber(at::rand({3, 1}), at::rand({3, 1}), 0);
      },
      ErrorCode::kInvalidArgument, "[losses] huber: got delta 0; expected a positive one");
  expect_error(
      [] {
        binary_crossentropy(at::rand({3, 1}), at::rand({3, 1}), {.label_smoothing = 2});
      },
      ErrorCode::kInvalidArgument,
      "[losses] binary_crossentropy: got label_smoothing 2; expected a value in [0, 1]");
  expect_error([] { reduce(at::rand({3}), at::rand({2})); }, ErrorCode::kInvalidArgument,
               "[losses] reduce: got sample_weight of shape [2] for values of shape [3]; expected "
               "one weight for each "
               "example or each value");
  // A column beside a vector is the same thing.
  EXPECT_EQ(mean_squared_error(at::rand({3}), at::rand({3, 1})).sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(binary_crossentropy(at::ones({3, 1}), at::rand({3, 1})).sizes(), at::IntArrayRef({3}));
}

TEST(ReduceTest, ZeroWeightsGiveZero) {
  EXPECT_EQ(reduce(at::ones({3}), at::zeros({3}), Reduction::kMeanWithSampleWeight).item<float>(),
            0);
  const Tensor values = at::arange(6, at::kFloat).reshape({2, 3});
  EXPECT_TRUE(at::equal(reduce(values, at::tensor({1.0F, 2.0F}), Reduction::kNone),
                        values * at::tensor({1.0F, 2.0F}).unsqueeze(1)));
}

// The fused pass against ATen's operators.

Tensor naive(const Tensor& labels, const Tensor& logits) {
  return -at::log_softmax(logits, -1).gather(-1, labels.to(at::kLong).unsqueeze(-1)).squeeze(-1);
}

TEST(SparseCrossentropyTest, EqualsTheUnfusedOperators) {
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t classes : {1, 2, 10, 31, 32, 100, 256, 257, 2100}) {
      for (const int64_t rows : {1, 7, 130}) {
        if (rows * classes > 40000) continue;
        const Tensor labels = at::randint(classes, {rows}, at::kLong);
        const Tensor logits = at::randn({rows, classes}, dtype).mul_(4).set_requires_grad(true);
        const Tensor weight = at::rand({rows}, dtype);
        const double tolerance = dtype == at::kFloat ? 2e-6 : 1e-13;
        const Tensor expected = naive(labels, logits);
        const Tensor expected_gradient = gradient((expected * weight).sum(), logits);
        for (const at::ScalarType label_type :
             {at::kLong, at::kInt, at::kByte, at::kFloat, at::kShort}) {
          if (label_type == at::kByte && classes > 256) continue;
          const Tensor got =
              sparse_categorical_crossentropy(labels.to(label_type), logits, {.from_logits = true});
          EXPECT_TRUE(at::allclose(got, expected, tolerance, tolerance)) << classes;
          EXPECT_TRUE(at::allclose(gradient((got * weight).sum(), logits), expected_gradient,
                                   tolerance, tolerance))
              << classes;
        }
        {
          const at::NoGradGuard no_grad;
          EXPECT_TRUE(at::equal(
              sparse_categorical_crossentropy(labels, logits, {.from_logits = true}),
              sparse_categorical_crossentropy(labels, logits.detach(), {.from_logits = true})));
        }
        const Tensor mean =
            sparse_categorical_crossentropy(labels, logits, {.from_logits = true}).mean();
        EXPECT_TRUE(at::allclose(gradient(mean, logits),
                                 gradient(naive(labels, logits).mean(), logits), tolerance,
                                 tolerance));
      }
    }
  }
}

TEST(SparseCrossentropyTest, DecompositionsGiveTheSame) {
  const auto call = [](const char* name, std::vector<c10::IValue> stack, bool decomposed) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    if (decomposed) {
      op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, stack);
    } else {
      op.callBoxed(&stack);
    }
    return stack;
  };
  const Tensor logits = at::randn({4, 5, 300}), labels = at::randint(300, {4, 5}, at::kInt);
  labels[2][3] = -1;
  for (const c10::IValue& ignored : {c10::IValue(-1), c10::IValue()}) {
    const Tensor kept = ignored.isNone() ? labels.clamp_min(0) : labels;
    const std::vector<c10::IValue> inputs = {logits, kept, ignored, true};
    const auto own = call("strata::softmax_cross_entropy", inputs, false);
    const auto want = call("strata::softmax_cross_entropy", inputs, true);
    const auto meta = call("strata::softmax_cross_entropy",
                           {logits.to(at::kMeta), kept.to(at::kMeta), ignored, true}, false);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(at::allclose(own[i].toTensor(), want[i].toTensor(), 1e-5, 1e-6)) << i;
      EXPECT_EQ(own[i].toTensor().sizes(), meta[i].toTensor().sizes()) << i;
    }
    const Tensor scale = at::randn({4, 5});
    for (const char* name : {"strata::scale_rows", "strata::scale_rows_"}) {
      const Tensor first = own[1].toTensor().clone(), second = own[1].toTensor().clone();
      EXPECT_TRUE(at::equal(call(name, {first, scale}, false)[0].toTensor(),
                            call(name, {second, scale}, true)[0].toTensor()));
    }
  }
}

TEST(SparseCrossentropyTest, ThreadsDoNotChangeBits) {
  const Tensor logits = at::randn({500, 1000}).set_requires_grad(true);
  const Tensor labels = at::randint(1000, {500}, at::kInt), weight = at::rand({500});
  Tensor values, gradients;
  for (int threads = 1; threads <= 7; ++threads) {
    kernels::set_kernel_threads(threads);
    const Tensor got = sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
    const Tensor slope = gradient((got * weight).sum(), logits);
    if (threads == 1) values = got, gradients = slope;
    EXPECT_TRUE(at::equal(got, values)) << threads;
    EXPECT_TRUE(at::equal(slope, gradients)) << threads;
    Tensor bad = labels.to(at::kLong);
    bad[400] = 1000;
    bad[123] = -1;
    expect_error([&] { sparse_categorical_crossentropy(bad, logits, {.from_logits = true}); },
                 ErrorCode::kInvalidArgument,
                 "[losses] sparse_categorical_crossentropy: got label -1 in row 123; expected 0 to "
                 "999, for the 1000 classes of y_pred");
  }
  kernels::set_kernel_threads(0);
}

TEST(SparseCrossentropyTest, TakesStridesMoreAxesAndHalfPrecision) {
  const Tensor labels = at::randint(5, {2, 3}, at::kLong);
  const Tensor logits = at::randn({5, 3, 2}).permute({2, 1, 0}).set_requires_grad(true);
  const Tensor got = sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  EXPECT_EQ(got.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(at::allclose(got, naive(labels, logits), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(gradient(got.sum(), logits),
                           gradient(naive(labels, logits).sum(), logits), 1e-5, 1e-6));
  const Tensor low = logits.detach().to(at::kBFloat16);
  EXPECT_TRUE(at::allclose(
      sparse_categorical_crossentropy(labels, low, {.from_logits = true, .ignore_class = 9})
          .to(at::kFloat),
      got, 0.05, 0.05));
}

TEST(SparseCrossentropyTest, ExtremeLogits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor logits =
      at::tensor({1000.0F, -1000.0F, 0.0F, 0.0F, -infinity, 5.0F}).reshape({2, 3});
  const Tensor losses =
      sparse_categorical_crossentropy(at::tensor({0, 2}, at::kLong), logits, {.from_logits = true});
  EXPECT_EQ(losses[0].item<float>(), 0);
  EXPECT_NEAR(losses[1].item<float>(), 0.0067153, 1e-6);
  EXPECT_EQ(sparse_categorical_crossentropy(at::tensor({1, 1}, at::kLong), logits,
                                            {.from_logits = true})[0]
                .item<float>(),
            2000);
  const Tensor with_nan =
      at::tensor({1.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F}).reshape({1, 3});
  EXPECT_TRUE(std::isnan(
      sparse_categorical_crossentropy(at::zeros({1}, at::kLong), with_nan, {.from_logits = true})
          .item<float>()));
}

TEST(SparseCrossentropyTest, BackwardCanRunAgainWhereTheGraphIsKept) {
  const Tensor labels = at::randint(10, {8}, at::kLong);
  const Tensor logits = at::randn({8, 10}).set_requires_grad(true);
  const Tensor loss = sparse_categorical_crossentropy(labels, logits, {.from_logits = true}).sum();
  const Tensor first =
      torch::autograd::grad({loss}, {logits}, {}, /*retain_graph=*/true)[0].clone();
  const Tensor second = torch::autograd::grad({loss}, {logits}, {}, /*retain_graph=*/true)[0];
  const Tensor third = torch::autograd::grad({loss}, {logits})[0];
  EXPECT_TRUE(at::equal(first, second));
  EXPECT_TRUE(at::equal(first, third));
  EXPECT_THROW(torch::autograd::grad({loss}, {logits}), std::runtime_error);
}

TEST(SparseCrossentropyTest, NamesTheFirstBadLabel) {
  const Tensor logits = at::randn({300, 10});
  Tensor labels = at::zeros({300}, at::kLong);
  labels[203] = 10;
  labels[250] = -1;
  const auto call = [&](const Tensor& y_true, const Tensor& y_pred) {
    return [=] { sparse_categorical_crossentropy(y_true, y_pred, {.from_logits = true}); };
  };
  const std::string message =
      "[losses] sparse_categorical_crossentropy: got label 10 in row 203; expected 0 to 9, for the "
      "10 classes of "
      "y_pred";
  expect_error(call(labels, logits), ErrorCode::kInvalidArgument, message);
  expect_error(call(labels.to(at::kInt), logits), ErrorCode::kInvalidArgument, message);
  expect_error(call(labels, logits.to(at::kBFloat16)), ErrorCode::kInvalidArgument, message);
  expect_error([&] { sparse_categorical_crossentropy(labels, at::softmax(logits, -1)); },
               ErrorCode::kInvalidArgument, message);
  expect_error(call(at::full({2}, -3, at::kLong), at::randn({2, 1000})),
               ErrorCode::kInvalidArgument,
               "[losses] sparse_categorical_crossentropy: got label -3 in row 0; expected 0 to "
               "999, for the 1000 "
               "classes of y_pred");
  expect_error(call(at::zeros({3, 10}), at::randn({3, 10})), ErrorCode::kInvalidArgument,
               "[losses] sparse_categorical_crossentropy: got y_true of shape [3, 10] and y_pred "
               "of shape [3, 10]; "
               "expected one class number for each row of y_pred (one-hot labels: "
               "categorical_crossentropy)");
  expect_error(call(at::zeros({3}), at::zeros({3, 4}, at::kLong)), ErrorCode::kInvalidArgument,
               "[losses] sparse_categorical_crossentropy: got y_pred of dtype Long; expected a "
               "floating dtype");
  expect_error(call(at::zeros({3}), at::zeros({3, 0})), ErrorCode::kInvalidArgument,
               "[losses] sparse_categorical_crossentropy: got y_pred of shape [3, 0]; expected "
               "[batch, ..., classes]");
}

TEST(SparseCrossentropyTest, SecondDifferentiationSaysWhatToDo) {
  const Tensor logits = at::randn({4, 3}).set_requires_grad(true);
  const Tensor loss =
      sparse_categorical_crossentropy(at::zeros({4}, at::kLong), logits, {.from_logits = true})
          .sum();
  const Tensor first = gradient(loss, logits, /*create_graph=*/true);
  expect_error([&] { gradient(first.square().sum(), logits); }, ErrorCode::kUnimplemented,
               "[losses] sparse_categorical_crossentropy: got a second differentiation; it has one "
               "derivative only "
               "(categorical_crossentropy with one-hot labels has all)");
}

TEST(SparseCrossentropyTest, EveryInstructionSetGivesTheSameBitsForEveryCut) {
  at::manual_seed(2);
  for (const int64_t classes : {1, 10, 40, 300, 2500}) {
    const int64_t rows = 141;
    const Tensor logits = at::randn({rows, classes}).mul_(5),
                 labels = at::randint(classes, {rows}, at::kLong);
    const Tensor scale = at::rand({rows});
    Tensor losses, difference, out;
    for (int i = 0; i < kNumCpuIsas; ++i) {
      const auto isa = static_cast<CpuIsa>(i);
      if (!cpu_supports(isa)) continue;
      const CrossEntropyKernels& kernels = cross_entropy_kernels(isa);
      for (const int64_t cut : {rows, int64_t{1}, int64_t{53}}) {
        Tensor l = at::empty({rows}), d = at::empty({rows, classes}),
               o = at::empty({rows, classes});
        for (int64_t begin = 0; begin < rows; begin += cut) {
          const int64_t n = std::min(cut, rows - begin);
          CrossEntropyArguments<float> arguments{};
          arguments.logits = logits.const_data_ptr<float>() + begin * classes;
          arguments.labels = labels.const_data_ptr<int64_t>() + begin;
          arguments.rows = n;
          arguments.classes = classes;
          arguments.losses = l.mutable_data_ptr<float>() + begin;
          arguments.difference = d.mutable_data_ptr<float>() + begin * classes;
          ASSERT_EQ(kernels.forward_f32(arguments), -1);
          kernels.backward_f32(arguments.difference, scale.const_data_ptr<float>() + begin, 1, n,
                               classes, o.mutable_data_ptr<float>() + begin * classes);
        }
        if (!losses.defined()) {
          losses = l;
          difference = d;
          out = o;
        }
        EXPECT_TRUE(at::equal(l, losses)) << classes << " " << i << " " << cut;
        EXPECT_TRUE(at::equal(d, difference)) << classes << " " << i << " " << cut;
        EXPECT_TRUE(at::equal(o, out)) << classes << " " << i << " " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace strata::losses
