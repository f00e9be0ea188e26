#include <gtest/gtest.h>

#include "keras/golden_models.h"
#include "keras/ops/operation.h"
#include "keras_files/keras_archive.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/printing.h"
#include "strata/keras/saving.h"
#include "support/temp_folder.h"

// Models that real Keras saved: read, computed, written, read.
namespace strata::keras {
namespace {

using namespace golden;  // NOLINT

class Scratch : public strata::test::TempFolder {
 public:
  std::string path(const std::string& name) const { return join_path(TempFolder::path(), name); }
};

TEST(KerasModelsTest, PredictWhatKerasPredicts) {
  ASSERT_GE(golden_models().at("models").as_array().size(), 16u);
  for (const Json& each : golden_models().at("models").as_array()) {
    const std::string name = each.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const Model model = load_model(golden_file(each.at("file").as_string()), {.compile = false});
      expect_close(compute(model, tensors_of(each.at("inputs"))), tensors_of(each.at("outputs")),
                   tolerance_of(each), name);
      std::vector<std::string> names;
      for (const Layer& layer : model.layers()) {
        if (detail::as_operation(layer) == nullptr) names.push_back(layer.name());
      }
      std::vector<std::string> expected;
      for (const Json& layer : each.at("layers").as_array()) expected.push_back(layer.as_string());
      EXPECT_EQ(names, expected);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST(KerasModelsTest, AreTheSameAfterAnotherTurn) {
  const Scratch scratch;
  for (const Json& each : golden_models().at("models").as_array()) {
    const std::string name = each.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const Model model = load_model(golden_file(each.at("file").as_string()), {.compile = false});
      const std::string path = scratch.path(name + ".keras");
      save_model(model, path);
      const Model again = load_model(path);
      EXPECT_EQ(model_to_config(again).dump(), model_to_config(model).dump());
      const Tensors inputs = tensors_of(each.at("inputs"));
      const Tensors before = compute(model, inputs);
      const Tensors after = compute(again, inputs);
      ASSERT_EQ(before.size(), after.size());
      for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
      // The groups are those that Keras made.
      const auto reference =
          keras_files::load_keras_archive(golden_file(each.at("file").as_string()));
      const auto actual = keras_files::load_keras_archive(path);
      const auto expect_groups = [](const auto& self, const keras_files::WeightsGroup& a,
                                    const keras_files::WeightsGroup& b,
                                    const std::string& at) -> void {
        ASSERT_EQ(a.vars.size(), b.vars.size()) << at;
        for (size_t i = 0; i < a.vars.size(); ++i) {
          EXPECT_TRUE(a.vars[i].equal(b.vars[i])) << at << "/vars/" << i;
        }
        for (const auto& [key, group] : b.groups) {
          if (group.num_bytes() == 0 || key == "optimizer" || key == "seed_generator") continue;
          ASSERT_TRUE(a.groups.contains(key)) << at << '/' << key;
          self(self, a.groups.at(key), group, at + '/' + key);
        }
      };
      expect_groups(expect_groups, actual.weights, reference.weights, "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST(KerasModelsTest, WeightsAloneGoThroughEveryKindOfFile) {
  const Scratch scratch;
  for (const Json& each : golden_models().at("models").as_array()) {
    const std::string name = each.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const std::string file = golden_file(each.at("file").as_string());
      const Model model = load_model(file, {.compile = false});
      const Tensors inputs = tensors_of(each.at("inputs"));
      const Tensors expected = compute(model, inputs);
      std::vector<std::string> paths = {file};
      for (const char* ending : {".weights.h5", ".safetensors"}) {
        paths.push_back(scratch.path(name + ending));
        save_weights(model, paths.back());
      }
      for (const std::string& path : paths) {
        const Model fresh = model_from_config(model_to_config(model));
        load_weights(fresh, path);
        const Tensors got = compute(fresh, inputs);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << path;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// The operations behind a mask, which are in no file of ours, put `left` before `right` in Keras's
// count. In any other order the two would trade weights, and nothing would say so.
TEST(KerasModelsTest, EqualLayersBesideAMaskKeepTheirWeights) {
  const SymbolicTensor x = Input({5, 3});
  const SymbolicTensor left = layers::Dense(3, {.name = "left"})(x);
  const SymbolicTensor right = layers::Dense(3, {.name = "right"})(x);
  const SymbolicTensor last = layers::LSTM(2)(layers::Masking()(left));
  const SymbolicTensor mean = layers::GlobalAveragePooling1D()(layers::Activation("tanh")(right));
  const Model model({x}, {mean, last}, "branches");

  const Json& golden = golden_model("branches");
  const std::string file = golden_file(golden.at("file").as_string());
  load_weights(model, file);
  expect_close(compute(model, tensors_of(golden.at("inputs"))), tensors_of(golden.at("outputs")),
               1e-5, "branches");

  const Scratch scratch;
  save_model(model, scratch.path("ours.keras"));
  const auto reference = keras_files::load_keras_archive(file).weights;
  const auto actual = keras_files::load_keras_archive(scratch.path("ours.keras")).weights;
  for (const char* group : {"layers/dense", "layers/dense_1", "layers/lstm/cell"}) {
    ASSERT_NE(actual.find(group), nullptr) << group;
    EXPECT_EQ(actual.find(group)->name, reference.find(group)->name);
    EXPECT_TRUE(actual.find(group)->vars[0].equal(reference.find(group)->vars[0])) << group;
  }
  expect_close(compute(load_model(scratch.path("ours.keras")), tensors_of(golden.at("inputs"))),
               tensors_of(golden.at("outputs")), 1e-5, "branches of ours");
}

TEST(KerasModelsTest, LegacyFiles) {
  const Json& mlp = golden_models().at("models").as_array()[0];
  const Model model = load_model(golden_file("keras_models_legacy_mlp.h5"), {.compile = false});
  expect_close(compute(model, tensors_of(mlp.at("inputs"))),
               tensors_of(golden_models().at("legacy_mlp")), 1e-5, "legacy");
  for (const Json& each : golden_models().at("models").as_array()) {
    if (each.at("name").as_string() != "merging") continue;
    const Model merging =
        load_model(golden_file("keras_models_legacy_merging.h5"), {.compile = false});
    expect_close(compute(merging, tensors_of(each.at("inputs"))), tensors_of(each.at("outputs")),
                 1e-5, "legacy merging");
  }
}

TEST(KerasModelsTest, SummaryIsThatOfKeras) {
  for (const Json& each : golden_models().at("models").as_array()) {
    const std::string name = each.at("name").as_string();
    try {
      const Model model = load_model(golden_file(each.at("file").as_string()));
      for (const Json& wanted : each.at("summaries").as_array()) {
        const Json& options = wanted.at("options");
        const auto flag = [&](const char* key) {
          return options.find(key) != nullptr && options.at(key).as_bool();
        };
        SummaryOptions actual{.console_width = 100,
                              .expand_nested = flag("expand_nested"),
                              .show_trainable = flag("show_trainable")};
        if (const Json* length = options.find("line_length")) actual.line_length = length->as_int();
        EXPECT_EQ(summary(model, actual), wanted.at("text").as_string()) << name;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::keras
