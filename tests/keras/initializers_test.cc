#include "strata/keras/initializers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <array>

#include "keras/leaves.h"
#include "support/expect_error.h"

namespace strata::initializers {
namespace {

using at::Tensor;
using keras::golden::cases_with;
using keras::golden::number;

std::optional<int64_t> seed_of(const Json& options) {
  const Json* seed = options.find("seed");
  return seed == nullptr ? std::nullopt : std::optional(seed->as_int());
}

std::optional<std::vector<int64_t>> axes(const Json& options, const char* key) {
  std::optional<std::vector<int64_t>> values;
  if (const Json* axis = options.find(key)) keras::from_config(*axis, values);
  return values;
}

VarianceScalingOptions scaling_options(const Json& o) {
  VarianceScalingOptions options{.scale = number(o, "scale", 1),
                                 .seed = seed_of(o),
                                 .input_axes = axes(o, "input_axes"),
                                 .output_axes = axes(o, "output_axes")};
  if (const Json* mode = o.find("mode")) options.mode = mode->as_string();
  if (const Json* kind = o.find("distribution")) options.distribution = kind->as_string();
  return options;
}

Initializer make(const std::string& name, const Json& o) {
  if (o.as_object().empty()) return Initializer(name);
  const std::optional<int64_t> seed = seed_of(o);
  const NormalOptions normal{number(o, "mean", 0), number(o, "stddev", 0), seed};
  const ScalingOptions scaling{seed, axes(o, "input_axes"), axes(o, "output_axes")};
  if (name == "Constant") return Constant(number(o, "value", 0));
  if (name == "Identity") return Identity(number(o, "gain", 1));
  if (name == "RandomNormal") return RandomNormal(normal);
  if (name == "TruncatedNormal") return TruncatedNormal(normal);
  if (name == "Orthogonal") return Orthogonal({.gain = number(o, "gain", 1), .seed = seed});
  if (name == "VarianceScaling") return VarianceScaling(scaling_options(o));
  if (name == "GlorotNormal") return GlorotNormal(scaling);
  if (name == "HeNormal") return HeNormal(scaling);
  EXPECT_EQ(name, "RandomUniform");
  return RandomUniform(
      {.minval = number(o, "minval", 0), .maxval = number(o, "maxval", 0), .seed = seed});
}

// mean, variance, kurtosis, least, largest
std::array<double, 5> moments(const Tensor& values) {
  const Tensor x = values.to(at::kDouble).flatten();
  const double mean = x.mean().item<double>();
  const Tensor squares = (x - mean).square();
  const double variance = squares.mean().item<double>();
  const double kurtosis =
      variance == 0 ? 0 : squares.square().mean().item<double>() / variance / variance;
  return {mean, variance, kurtosis, x.min().item<double>(), x.max().item<double>()};
}

std::vector<int64_t> shape_of(const Json& draw) {
  std::vector<int64_t> shape;
  keras::from_config(draw.at("shape"), shape);
  return shape;
}

// Both draw some 200,000 numbers: means differ by 4 of 1/450 standard deviations at most, variances
// by 2 %. Where there are bounds, both come near.
TEST(InitializersTest, MomentsEqualKeras) {
  at::manual_seed(4);
  for (const Json& test : cases_with("initializer")) {
    const std::string& name = test.at("initializer").as_string();
    const Initializer initializer = make(name, test.at("options"));
    for (const Json& draw : test.at("draws").as_array()) {
      SCOPED_TRACE(name + test.at("options").dump() + draw.at("shape").dump());
      const Tensor values = initializer(shape_of(draw), at::kFloat);
      const auto got = moments(values);
      std::array<double, 5> wanted{};
      for (size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = draw.at("moments").as_array()[i].as_double();
      }
      const double stddev = std::sqrt(wanted[1]);
      EXPECT_NEAR(got[0], wanted[0], 4 * stddev / std::sqrt(values.numel() / 2.0) + 1e-9);
      EXPECT_NEAR(got[1], wanted[1], 0.02 * wanted[1]);
      EXPECT_NEAR(got[2], wanted[2], 0.03 * wanted[2]);
      const bool unbounded = wanted[2] > 2.8;  // a normal distribution that is not cut
      EXPECT_NEAR(got[3], wanted[3], (unbounded ? 1.5 : 0.01) * stddev);
      EXPECT_NEAR(got[4], wanted[4], (unbounded ? 1.5 : 0.01) * stddev);
    }
  }
}

TEST(InitializersTest, JsonEqualsKeras) {
  for (const Json& test : cases_with("initializer")) {
    const std::string& name = test.at("initializer").as_string();
    SCOPED_TRACE(name + test.at("options").dump());
    const Initializer initializer = make(name, test.at("options"));
    EXPECT_EQ(initializer.class_name(), name);
    if (name == "Identity") {  // Keras forgets the gain
      EXPECT_TRUE(keras::golden::same(to_config(initializer), test.at("json").at("least")));
      continue;
    }
    keras::golden::expect_same_json(initializer, test.at("json"));
  }
}

TEST(InitializersTest, WhatIsReadDrawsAsWhatWasWritten) {
  for (const Initializer& made : std::vector<Initializer>{
           RandomNormal({.mean = 3, .seed = 1}), Identity(2.5), Constant(7),
           Orthogonal({.gain = 2, .seed = -5}), HeNormal({.seed = 1}), Zeros(), Ones(),
           VarianceScaling({.scale = 2, .distribution = "uniform", .seed = 9}),
           HeUniform({.seed = 2, .input_axes = {{1}}, .output_axes = {{0}}})}) {
    Initializer read = "zeros";
    from_config(to_config(made), read);
    EXPECT_TRUE(read({6, 4}, at::kFloat).equal(made({6, 4}, at::kFloat))) << to_config(made).dump();
  }
}

TEST(InitializersTest, NamesAreThoseOfKeras) {
  for (const auto& [name, class_name] :
       keras::golden::leaves().at("names").at("initializers").as_object()) {
    EXPECT_EQ(Initializer(name).class_name(), class_name.as_string()) << name;
  }
}

TEST(InitializersTest, FansFollowKerasShapes) {
  const auto limit = [](const Initializer& initializer, at::IntArrayRef shape) {
    return initializer(shape, at::kDouble).abs().max().item<double>();
  };
  at::manual_seed(1);
  // (kh, kw, in, out): 3 * 3 * 32 inputs, 3 * 3 * 64 outputs
  const std::vector<int64_t> kernel = {3, 3, 32, 64};
  EXPECT_NEAR(limit("he_uniform", kernel), std::sqrt(6.0 / (9 * 32)), 1e-4);
  EXPECT_NEAR(limit("glorot_uniform", kernel), std::sqrt(6.0 / (9 * 96)), 1e-4);
  EXPECT_NEAR(limit("lecun_uniform", {100, 200}), std::sqrt(3.0 / 100), 1e-4);
  EXPECT_NEAR(limit("glorot_uniform", {10000}), std::sqrt(3.0 / 10000), 1e-4);
  EXPECT_LE(limit("he_uniform", {}), std::sqrt(6.0));
  EXPECT_EQ(Initializer("he_uniform")({0, 3}, at::kFloat).numel(), 0);
  // (heads, width, out) with heads and width as inputs
  const Initializer einsum = Initializer("he_uniform").with_fan_axes({0, 1}, {2});
  EXPECT_NEAR(limit(einsum, {8, 16, 200}), std::sqrt(6.0 / 128), 1e-4);
  EXPECT_EQ(einsum.class_name(), "HeUniform");
  // The user's own axes stay.
  const Initializer own = HeUniform({.input_axes = {{0}}, .output_axes = {{1, 2}}});
  EXPECT_NEAR(limit(own.with_fan_axes({0, 1}, {2}), {8, 16, 200}), std::sqrt(6.0 / 8), 1e-4);
  EXPECT_EQ(to_config(Initializer("zeros").with_fan_axes({0}, {1})), to_config(Zeros()));
}

TEST(InitializersTest, OrthogonalIsOrthogonalAndUnbiased) {
  at::manual_seed(2);
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{40, 30}, {30, 40}, {1, 1}, {3, 3, 4, 20}}) {
    const Tensor q = Orthogonal({.gain = 2})(shape, at::kFloat).reshape({-1, shape.back()});
    const Tensor product = q.size(0) < q.size(1) ? q.matmul(q.t()) : q.t().matmul(q);
    EXPECT_TRUE(product.allclose(4 * at::eye(product.size(0)), 1e-5, 1e-5)) << shape;
  }
  // Without the correction of signs the first diagonal element is never positive.
  int positive = 0;
  for (int i = 0; i < 400; ++i) {
    positive += Initializer("orthogonal")({3, 3}, at::kFloat)[0][0].item<double>() > 0;
  }
  EXPECT_NEAR(positive, 200, 50);
}

TEST(InitializersTest, SeedsRepeatAndTheGlobalGeneratorGoesOn) {
  for (const char* name : {"random_normal", "truncated_normal", "random_uniform", "orthogonal",
                           "glorot_normal", "he_uniform"}) {
    const Initializer global = name;
    at::manual_seed(3);
    const Tensor first = global({20, 5}, at::kFloat), second = global({20, 5}, at::kFloat);
    EXPECT_FALSE(first.equal(second)) << name;
    at::manual_seed(3);
    EXPECT_TRUE(global({20, 5}, at::kFloat).equal(first)) << name;
  }
  const Initializer seeded = HeNormal({.seed = 1}), other = HeNormal({.seed = 2});
  at::manual_seed(3);
  const Tensor before = at::rand({4});
  at::manual_seed(3);
  const Tensor values = seeded({20, 5}, at::kFloat);
  EXPECT_TRUE(at::rand({4}).equal(before));  // the global one was not touched
  EXPECT_TRUE(seeded({20, 5}, at::kFloat).equal(values));
  EXPECT_FALSE(other({20, 5}, at::kFloat).equal(values));
}

TEST(InitializersTest, DtypesAreKept) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const char* name : {"zeros", "constant", "identity", "orthogonal", "truncated_normal",
                             "random_uniform", "he_normal"}) {
      EXPECT_EQ(Initializer(name)({4, 4}, dtype).scalar_type(), dtype) << name;
    }
  }
  const Initializer seeded = HeNormal({.seed = 1});
  EXPECT_TRUE(seeded({8, 8}, at::kBFloat16).equal(seeded({8, 8}, at::kFloat).to(at::kBFloat16)));
  EXPECT_EQ(Initializer("ones")({2}, at::kLong).sum().item<int64_t>(), 2);
}

TEST(InitializersTest, ReadsASeedGeneratorAsItsSeed) {
  Initializer read = "zeros";
  from_config(Json::parse(R"({"class_name": "HeNormal", "config": {"seed": {
      "module": "keras.random", "class_name": "SeedGenerator",
      "config": {"name": "seed_generator", "seed": 7}, "registered_name": null}}})"),
              read);
  EXPECT_EQ(to_config(read), to_config(HeNormal({.seed = 7})));
}

TEST(InitializersTest, AFunctionOfYours) {
  const Initializer local([](at::IntArrayRef shape, at::ScalarType) { return at::ones(shape); });
  EXPECT_EQ(local.class_name(), "");
  EXPECT_EQ(local({2}, at::kFloat).sum().item<double>(), 2);
  expect_error([&] { local({2}, at::kDouble); },
               "[initializers] the initializer gave shape [2], Float; expected shape [2], Double");
  expect_error_containing([&] { to_config(local); }, ErrorCode::kUnimplemented,
                          "[initializers] to_config: got a user-defined function, which no file of "
                          "Keras's can hold; use one of zeros, ones, constant, ");
}

TEST(InitializersTest, ErrorsSayWhatIsWrong) {
  expect_error_containing([] { Initializer("he"); }, ErrorCode::kInvalidArgument,
                          "[initializers] got 'he'; expected one of zeros, ones, constant, ");
  expect_error(
      [] { Initializer("he_normal")({2}, at::kLong); },
      "[initializers] HeNormal: got dtype Long; expected a floating one for random values");
  expect_error([] { Initializer("identity")({2}, at::kFloat); },
               "[initializers] Identity: got shape [2]; expected that of a matrix");
  expect_error([] { Initializer("orthogonal")({2}, at::kFloat); },
               "[initializers] Orthogonal: got shape [2]; expected at least two dimensions");
  expect_error([] { VarianceScaling({.scale = 0}); },
               "[initializers] VarianceScaling: got scale 0; expected one above 0");
  expect_error([] { VarianceScaling({.mode = "fan"}); },
               "[initializers] VarianceScaling: got mode='fan'; expected 'fan_in', 'fan_out' or "
               "'fan_avg'");
  expect_error([] { VarianceScaling({.distribution = "cauchy"}); },
               "[initializers] VarianceScaling: got distribution='cauchy'; expected "
               "'truncated_normal', 'untruncated_normal' or 'uniform'");
  expect_error([] { HeNormal({.input_axes = {{0}}}); },
               "[initializers] HeNormal: got one of input_axes and output_axes; expected both");
  expect_error(
      [] {
        Initializer("he_normal").with_fan_axes({0}, {2})({2, 2}, at::kFloat);
      },
      "[initializers] got axis 2 for shape [2, 2]; expected one of its 2 axes");
  expect_error(
      [] { RandomUniform({.minval = 1, .maxval = 0}); },
      "[initializers] RandomUniform: got minval 1 and maxval 0; expected minval <= maxval");
  expect_error([] { RandomNormal({.stddev = -1}); },
               "[initializers] RandomNormal: got stddev -1; expected one that is not negative");
  Initializer read = "zeros";
  const auto reading = [&](const char* text) {
    return [&read, text] { from_config(Json::parse(text), read); };
  };
  expect_error_containing(reading(R"("my_initializer")"), ErrorCode::kUnimplemented,
                          "[initializers] from_config: got 'my_initializer'; strata has zeros");
  expect_error_containing(
      reading(R"({"class_name": "function", "config": "mine", "module": "builtins"})"),
      ErrorCode::kUnimplemented, "[initializers] from_config: got 'mine'; strata has zeros");
  expect_error_containing(reading(R"({"class_name": "HeNormal", "config": {"gain": 2}})"),
                          ErrorCode::kUnimplemented,
                          "config of initializer HeNormal: got option 'gain' = 2");
  expect_error_containing(
      reading(R"({"class_name": "HeNormal", "config": {"seed": {"class_name": "Dice"}}})"),
      ErrorCode::kUnimplemented, "got Dice; expected a number or a SeedGenerator");
}

}  // namespace
}  // namespace strata::initializers
