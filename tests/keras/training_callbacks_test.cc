// Callbacks that write files: ModelCheckpoint, TensorBoard; and the progress bar's text.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "keras/callbacks/path_pattern.h"
#include "strata/core/file_system.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layers.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/summary/event_reader.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

using data::Dataset;

Dataset rows(int64_t n) {
  const at::Tensor x = (at::arange(3 * n, at::kFloat) * 0.37).sin().reshape({n, 3});
  return Dataset::from_tensor_slices({x, x.sum(1, true)});
}

Model compiled() {
  Sequential model(Input({3}), {layers::Dense(4, {.activation = "tanh", .name = "hidden"}),
                                layers::Dense(1, {.name = "out"})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05}), .loss = "mse"});
  return model;
}

TEST(PathPatternTest, FillsInAsPython) {
  const Logs logs(Logs::Values{{"val_loss", 0.123456}, {"accuracy", 1.0}});
  const auto filled = [&](const std::string& pattern) {
    return callbacks::detail::fill_in(pattern, 3, 7, logs);
  };
  EXPECT_EQ(filled("run/{epoch:02d}-{val_loss:.3f}.keras"), "run/03-0.123.keras");
  EXPECT_EQ(filled("{epoch}-{batch}-{accuracy}"), "3-7-1.0");
  EXPECT_EQ(filled("{val_loss:.2e}"), "1.23e-01");
  expect_error_containing([&] { filled("{loss}"); }, ErrorCode::kInvalidArgument,
                          "there is no 'loss'; there are epoch, batch, accuracy, val_loss");
  expect_error_containing([&] { filled("{val_loss:d}"); }, ErrorCode::kInvalidArgument,
                          "cannot write {val_loss:d}");
}

TEST(ModelCheckpointTest, SavesWhenKerasDoes) {  // rule 48
  const test::TempFolder folder;
  compiled().fit(
      rows(20).batch(2),
      {.epochs = 2,
       .callbacks = {callbacks::ModelCheckpoint(folder.path() + "/{epoch}-{batch}.weights.h5",
                                                {.save_weights_only = true, .save_freq = 4})},
       .verbose = 0});
  EXPECT_EQ(file_system_of(folder.path()).list(folder.path()),
            (std::vector<std::string>{"1-4.weights.h5", "1-8.weights.h5", "2-10.weights.h5",
                                      "2-2.weights.h5", "2-6.weights.h5"}));
}

TEST(ModelCheckpointTest, KeepsTheBestAndItsFileLoads) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/deep/best.keras";
  const Model model = compiled();
  model.fit(
      rows(12).batch(4),
      {.epochs = 3,
       .callbacks = {callbacks::ModelCheckpoint(path, {.monitor = "loss", .save_best_only = true})},
       .verbose = 0});
  const Model loaded = load_model(path);
  const at::Tensor x = (at::arange(12, at::kFloat)).reshape({4, 3});
  EXPECT_TRUE(loaded.predict(x, {.verbose = 0}).allclose(model.predict(x, {.verbose = 0}), 1e-6));
  // Compiled as it was, and it goes on.
  EXPECT_EQ(loaded.optimizer().iterations(), 9);
  EXPECT_GT(loaded.fit(rows(12).batch(4), {.verbose = 0})["loss"][0], 0);
  expect_error_containing([] { callbacks::ModelCheckpoint("model.h5"); },
                          ErrorCode::kInvalidArgument, "expected one that ends in .keras");
}

TEST(TensorBoardTest, WritesKerassTags) {
  const test::TempFolder folder;
  compiled().fit(
      rows(8).batch(2),
      {.epochs = 2,
       .validation_data = rows(4).batch(2),
       .callbacks = {callbacks::TensorBoard(
           folder.path(),
           {.histogram_freq = 1, .write_images = true, .update_freq = 2, .profile_batch = 3})},
       .verbose = 0});
  const auto tags = [&](const std::string& run) {
    std::set<std::string> found;
    for (const auto& event : summary::read_run(folder.path() + "/" + run)) {
      for (const auto& value : event.values) found.insert(value.tag);
    }
    return found;
  };
  EXPECT_EQ(tags("validation"),
            (std::set<std::string>{"epoch_loss", "evaluation_loss_vs_iterations"}));
  EXPECT_EQ(tags("train"),
            (std::set<std::string>{
                "batch_loss", "epoch_learning_rate", "epoch_loss", "hidden/bias/histogram",
                "hidden/bias/image", "hidden/kernel/histogram", "hidden/kernel/image", "keras",
                "out/bias/histogram", "out/kernel/histogram", "out/kernel/image"}));
  const std::string profiles = folder.path() + "/train/plugins/profile";
  ASSERT_EQ(file_system_of(profiles).list(profiles).size(), 1u);
}

TEST(ProgressBarTest, OneLineAnEpochWhereThereIsNoTerminal) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/out";
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                               &std::fclose);
    compiled().fit(
        rows(8).batch(2),
        {.epochs = 2, .callbacks = {callbacks::ProgressBar({.file = file.get()})}, .verbose = 2});
  }
  const std::string text = read_file(path);
  EXPECT_TRUE(text.starts_with("Epoch 1/2\n4/4 - 0s - ")) << text;
  EXPECT_NE(text.find("/step - "), std::string::npos) << text;
  EXPECT_NE(text.find(" examples/s - loss: "), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

}  // namespace
}  // namespace strata::keras
