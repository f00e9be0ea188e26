#include <gtest/gtest.h>

#include <cmath>

#include "keras/golden_models.h"
#include "strata/keras/saving.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/temp_folder.h"

// Models that real Keras saved in the middle of training: the next step is Keras's.
namespace strata::keras {
namespace {

using namespace test;  // NOLINT

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
      EXPECT_EQ(model.optimizer().iterations(), 3);
      const Logs logs = model.train_on_batch(batch_of(each));
      const double loss = each.at("next_loss").as_double();
      EXPECT_NEAR(logs.at("loss"), loss, 1e-5 * std::abs(loss)) << name;
      expect_close(compute(model, tensors_of(each.at("inputs"))),
                   tensors_of(each.at("next_outputs")), 1e-5, name);
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
                   tensors_of(each.at("next_outputs")), 1e-5, name);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::keras
