// Every tests/golden/keras_layers_<family>.json: a layer made from Keras's config computes what
// Keras computed, and describes itself as Keras does.

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/layer_cases.h"

namespace strata::keras {
namespace {

using test::masks;
using test::set_weights;
using test::shapes;
using test::shapes_with_free_batch;
using test::tensors;

/// |got - wanted| <= tolerance |wanted|; where a number is smaller than the typical one of its
/// tensor, relative to that: in float32, sums of larger numbers leave that much.
::testing::AssertionResult close(const at::Tensor& got, const at::Tensor& wanted,
                                 double tolerance) {
  if (!got.defined()) return ::testing::AssertionFailure() << "undefined";
  if (got.sizes() != wanted.sizes()) {
    return ::testing::AssertionFailure() << got.sizes() << " instead of " << wanted.sizes();
  }
  if (wanted.numel() == 0) return ::testing::AssertionSuccess();
  const at::Tensor a = (got.is_sparse() ? got.to_dense() : got).detach().cpu().to(at::kDouble);
  const at::Tensor b = wanted.cpu().to(at::kDouble);
  // What is 0 in exact arithmetic (a key's bias shifts all scores alike) is noise in float32.
  if (std::max(a.abs().max().item<double>(), b.abs().max().item<double>()) < tolerance) {
    return ::testing::AssertionSuccess();
  }
  const double typical = std::max(b.pow(2).mean().sqrt().item<double>(), 1e-3);
  const at::Tensor error = (a - b).abs() / b.abs().clamp_min(typical);
  const double worst = error.max().item<double>();
  if (worst <= tolerance) return ::testing::AssertionSuccess();  // false for NaN
  return ::testing::AssertionFailure() << "off by " << worst << ", relatively:\n"
                                       << a << "\ninstead of\n"
                                       << b;
}

/// Keras's options that files of ours leave out, as older versions of Keras do not know them.
const std::set<std::string, std::less<>> kLeftOut = {"quantization_config",
                                                     "input_axes",
                                                     "output_axes",
                                                     "optional",
                                                     "ragged",
                                                     "renorm",
                                                     "renorm_clipping",
                                                     "renorm_momentum",
                                                     "use_gate",
                                                     "sliding_window",
                                                     "build_config"};

/// What `ours` and `theirs` differ in, or "".
std::string difference(const Json& actual, const Json& expected, const std::string& path) {
  const auto unequal = [&] { return path + ": " + actual.dump() + ", Keras: " + expected.dump(); };
  if (actual.is_object() && expected.is_object()) {
    for (const auto& [key, value] : actual.as_object()) {
      const Json* other = expected.find(key);
      if (other == nullptr) {
        // Every layer of Keras takes this one, some write it only if it is set.
        if (key == "activity_regularizer" && value.is_null()) continue;
        return path + ": Keras has no '" + key + "'";
      }
      const std::string found = difference(value, *other, path + "." + key);
      if (!found.empty()) return found;
    }
    for (const auto& [key, value] : expected.as_object()) {
      if (actual.find(key) == nullptr && !value.is_null() && !kLeftOut.contains(key) &&
          key != "shared_object_id") {
        return path + ": lacks '" + key + "' = " + value.dump();
      }
    }
    return "";
  }
  if (actual.is_array() && expected.is_array()) {
    if (actual.as_array().size() != expected.as_array().size()) return unequal();
    for (size_t i = 0; i < actual.as_array().size(); ++i) {
      const std::string found = difference(actual.as_array()[i], expected.as_array()[i],
                                           path + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
    return "";
  }
  if (actual.is_number() && expected.is_number()) {
    return actual.as_double() == expected.as_double() ? "" : unequal();
  }
  if (actual.is_object() && expected.is_string()) {  // some classes write a policy's name
    const Json* config = actual.find("config");
    if (config != nullptr && config->find("name") != nullptr && config->at("name") == expected)
      return "";
  }
  return actual == expected ? "" : unequal();
}

Tensors parameters(const LayerImpl& layer) {
  Tensors all;
  for (const Weight& weight : layer.weights()) all.push_back(weight.variable.on_replica(0));
  return all;
}

void compare_gradients(const Layer& layer, const Tensors& inputs, const test::LayerResult& result,
                       const Json& test, double tolerance) {
  const Tensors cotangents = tensors(&test.at("output_gradients"));
  at::Tensor total = result.loss;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const at::Tensor part = (result.outputs.values[i] * cotangents[i]).sum();
    total = total.defined() ? total + part : part;
  }
  Tensors wanted, sources;
  std::vector<std::string> names;
  const Tensors by_input = tensors(&test.at("input_gradients"));
  for (size_t i = 0; i < by_input.size(); ++i) {
    if (!by_input[i].defined()) continue;
    wanted.push_back(by_input[i]);
    sources.push_back(inputs[i]);
    names.push_back("input " + std::to_string(i));
  }
  const Tensors by_weight = tensors(&test.at("weight_gradients"));
  const Tensors all = parameters(*layer);
  for (size_t i = 0; i < by_weight.size(); ++i) {
    if (!by_weight[i].defined()) continue;
    wanted.push_back(by_weight[i]);
    sources.push_back(all[i]);
    names.push_back(layer->weights()[i].name);
  }
  if (sources.empty()) return;
  if (!total.requires_grad()) {
    for (const at::Tensor& each : wanted) EXPECT_EQ(each.abs().max().item<double>(), 0);
    return;
  }
  const Tensors got = torch::autograd::grad({total}, sources, {}, std::nullopt, false, true);
  for (size_t i = 0; i < got.size(); ++i) {
    const at::Tensor gradient = got[i].defined() ? got[i] : at::zeros_like(wanted[i]);
    EXPECT_TRUE(close(gradient, wanted[i], tolerance)) << "gradient of " << names[i];
    EXPECT_EQ(gradient.scalar_type(), wanted[i].scalar_type()) << "gradient of " << names[i];
  }
}

Tensors with_gradients(Tensors inputs) {
  for (at::Tensor& x : inputs) {
    if (x.is_floating_point()) x.set_requires_grad(true);
  }
  return inputs;
}

/// The same with a batch of no rows: right shapes, and no NaN anywhere.
void run_empty_batch(const Layer& layer, const Tensors& inputs, const Json& test) {
  Tensors none, no_masks;
  for (const at::Tensor& x : inputs) none.push_back(x.detach().narrow(0, 0, 0).clone());
  for (const at::Tensor& m : masks(test.find("masks"))) {
    no_masks.push_back(m.defined() ? m.narrow(0, 0, 0) : m);
  }
  none = with_gradients(none);
  const test::LayerResult result = test::run_layer(layer, none, test, no_masks);
  at::Tensor total = result.loss;
  const Tensors wanted = tensors(&test.at("outputs"));
  ASSERT_EQ(result.outputs.values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    Shape shape = wanted[i].sizes().vec();
    shape[0] = 0;
    const at::Tensor& y = result.outputs.values[i];
    EXPECT_EQ(to_string(y.sizes().vec()), to_string(shape));
    total = total.defined() ? total + y.sum() : y.sum();
  }
  EXPECT_TRUE(total.isfinite().all().item<bool>());
  Tensors sources;
  for (const Weight& weight : layer->weights()) {
    if (weight.trainable) sources.push_back(weight.variable.on_replica(0));
  }
  if (!sources.empty() && total.requires_grad()) {
    for (const at::Tensor& gradient :
         torch::autograd::grad({total}, sources, {}, std::nullopt, false, true)) {
      EXPECT_TRUE(!gradient.defined() || gradient.sum().isfinite().item<bool>());
    }
  }
  for (const Weight& weight : layer->weights()) {
    EXPECT_TRUE(weight.variable.value().isfinite().all().item<bool>()) << weight.name;
  }
}

void run_case(const Json& test, double tolerance) {
  const Layer layer = layer_from_config(test.at("layer"));
  const Json& expected = test.at("layer");
  EXPECT_EQ(difference(to_config(layer).at("config"), expected.at("config"), "config"), "");
  EXPECT_EQ(to_config(layer).at("class_name"), expected.at("class_name"));
  EXPECT_EQ(to_config(layer).at("module"), expected.at("module"));

  const Tensors inputs = with_gradients(tensors(&test.at("inputs")));
  const std::vector<Shape> input_shapes = shapes_with_free_batch(inputs);
  layer->ensure_built(input_shapes, test.at("call"));
  EXPECT_EQ(layer->output_shapes(input_shapes, test.at("call")), shapes(test.at("output_shapes")));
  if (const Json* free = test.find("free_shapes")) {
    const Layer again = layer_from_config(test.at("layer"));
    again->ensure_built(shapes(free->at("inputs")), test.at("call"));
    EXPECT_EQ(again->output_shapes(shapes(free->at("inputs")), test.at("call")),
              shapes(free->at("outputs")));
  }

  set_weights(*layer, tensors(&test.at("weights")));
  if (::testing::Test::HasFatalFailure()) return;
  const test::LayerResult result = test::run_layer(layer, inputs, test, masks(test.find("masks")));
  const Tensors wanted = tensors(&test.at("outputs"));
  ASSERT_EQ(result.outputs.values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(close(result.outputs.values[i], wanted[i], tolerance)) << "output " << i;
    // int32 of a golden file is read as 64 bits.
    const at::ScalarType got = result.outputs.values[i].scalar_type();
    EXPECT_EQ(got == at::kInt ? at::kLong : got, wanted[i].scalar_type());
  }
  if (const Json* loss = test.find("loss")) {
    ASSERT_TRUE(result.loss.defined());
    EXPECT_TRUE(close(result.loss, at::scalar_tensor(loss->as_double()), tolerance));
  } else {
    EXPECT_FALSE(result.loss.defined());
  }
  const Tensors output_masks = masks(test.find("output_masks"));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor mask =
        i < result.outputs.masks.size() ? result.outputs.masks[i] : at::Tensor();
    if (i < output_masks.size() && output_masks[i].defined()) {
      ASSERT_TRUE(mask.defined()) << "mask of output " << i;
      EXPECT_TRUE(at::equal(mask.to(at::kBool), output_masks[i]));
    } else {
      EXPECT_FALSE(mask.defined()) << "mask of output " << i;
    }
  }
  if (test.find("output_gradients") != nullptr)
    compare_gradients(layer, inputs, result, test, tolerance);
  if (const Json* after = test.find("weights_after")) {
    const std::vector<Weight> weights = layer->weights();
    const Tensors values = tensors(after);
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(close(weights[i].variable.value(), values[i], tolerance))
          << weights[i].name << " after";
    }
  }
  if (test.find("no_empty_batch") == nullptr) run_empty_batch(layer, inputs, test);
}

class LayerGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_test_devices()) GTEST_SKIP() << "no GPU: " << strata::detail::why_no_gpu();
  }
};

TEST_P(LayerGoldenTest, EqualsKeras) {
  const Json golden = test::read_layer_family(GetParam());
  ASSERT_FALSE(golden.at("cases").as_array().empty());
  const Json* tolerance = golden.find("tolerance");
  OneDeviceStrategy strategy({.device = test::test_devices(1)[0]});
  for (const Json& test : golden.at("cases").as_array()) {
    SCOPED_TRACE(test.at("layer").at("class_name").as_string() + " " + test.at("name").as_string());
    try {
      strategy.scope([&] { run_case(test, tolerance == nullptr ? 1e-5 : tolerance->as_double()); });
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::vector<std::string> families() {
  std::vector<std::string> all = test::layer_families();
#ifdef STRATA_TEST_EMULATED_GPU
  std::erase(all, "spectrograms");  // an emulated GPU's memory has no views of complex numbers
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, LayerGoldenTest, ::testing::ValuesIn(families()),
                         [](const auto& info) { return info.param; });

TEST(LayerGoldenFilesTest, AreFound) { EXPECT_FALSE(test::layer_families().empty()); }

}  // namespace
}  // namespace strata::keras
