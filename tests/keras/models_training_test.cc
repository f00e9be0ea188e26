#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keras/golden_models.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/temp_folder.h"

// Models that real Keras saved in the middle of training: the next step is Keras's.
namespace strata::keras {
namespace {

using namespace golden;  // NOLINT

data::Example batch_of(const Json& golden) {
  std::vector<at::Tensor> fields = tensors_of(golden.at("inputs"));
  for (const at::Tensor& target : tensors_of(golden.at("targets"))) fields.push_back(target);
  return data::Example(fields);
}

TEST(KerasModelsTrainingTest, TheNextStepIsThatOfKeras) {
  int compiled = 0;
  for (const Json& each : golden_models().at("models").as_array()) {
    if (each.find("next_outputs") == nullptr) continue;
    const std::string name = each.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const Model model = load_model(golden_file(each.at("file").as_string()));
      ASSERT_NE(model.compiled(), nullptr);
      const Json* iterations = each.find("iterations");  // not 3 where gradients overflowed
      EXPECT_EQ(model.optimizer().iterations(), iterations == nullptr ? 3 : iterations->as_int());
      const Logs logs = model.train_on_batch(batch_of(each));
      const double loss = each.at("next_loss").as_double();
      EXPECT_NEAR(logs.at("loss"), loss, tolerance_of(each) * std::abs(loss)) << name;
      expect_close(compute(model, tensors_of(each.at("inputs"))),
                   tensors_of(each.at("next_outputs")), tolerance_of(each), name);
      ++compiled;
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  EXPECT_GE(compiled, 6);
}

TEST(KerasModelsTrainingTest, StateGoesThroughOurFilesAndStrategies) {
  const strata::test::TempFolder folder;
  for (const Json& each : golden_models().at("models").as_array()) {
    if (each.find("next_outputs") == nullptr) continue;
    const std::string name = each.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const std::string path = join_path(folder.path(), name + ".keras");
      MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}});
      const Model model =
          strategy.scope([&] { return load_model(golden_file(each.at("file").as_string())); });
      save_model(model, path);
      const Model again = load_model(path);
      again.train_on_batch(batch_of(each));
      expect_close(compute(again, tensors_of(each.at("inputs"))),
                   tensors_of(each.at("next_outputs")), tolerance_of(each), name);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// Keras writes the optimizer inside, and the state of both.
TEST(KerasModelsTrainingTest, ALossScaleThatKerasDoesNotWriteDownIsThereAgain) {
  const strata::test::TempFolder folder;
  const Json& golden = golden_model("mixed_float16");
  const auto scale = [](const Model& model) {
    for (const auto& [name, value] : model.optimizer().slots()) {
      if (name == "dynamic_scale") return value.item<double>();
    }
    return 0.0;
  };
  const Model model = load_model(golden_file(golden.at("file").as_string()));
  EXPECT_EQ(scale(model), 16384) << "after an overflow";
  EXPECT_EQ(model->layers()[0]->dtype().name(), "mixed_float16");
  const std::string path = join_path(folder.path(), "again.keras");
  save_model(model, path);
  EXPECT_EQ(scale(load_model(path)), 16384);
}

TEST(KerasModelsTrainingTest, MixedFloat16GetsALossScale) {
  set_dtype_policy("mixed_float16");
  // From zeros: random weights' gradients overflow half of the time at the first scale.
  const Sequential model(Input({3}), {layers::Dense(2, {.kernel_initializer = "zeros"})});
  set_dtype_policy("float32");
  const auto adam = std::make_shared<optimizers::Adam>();
  const auto is_scaled = [&] {
    return dynamic_cast<optimizers::LossScaleOptimizer*>(&model.optimizer()) != nullptr;
  };
  model.compile({.optimizer = adam, .loss = "mse", .auto_scale_loss = false});
  EXPECT_FALSE(is_scaled());
  model.compile({.optimizer = adam, .loss = "mse"});
  EXPECT_TRUE(is_scaled());
  EXPECT_TRUE(adam->scales_dynamically());
  model.train_on_batch(data::Example({at::ones({4, 3}), at::ones({4, 2})}));
  EXPECT_EQ(adam->iterations(), 1) << "it is the same optimizer";
  model.compile({.optimizer = optimizers::LossScaleOptimizer(optimizers::SGD()), .loss = "mse"});
  EXPECT_TRUE(is_scaled()) << "and not twice";
}

}  // namespace
}  // namespace strata::keras
