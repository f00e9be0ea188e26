// What callbacks decide, against real Keras (tests/golden/keras_callbacks.py).
#include "strata/keras/callbacks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "keras/training/training_run.h"
#include "strata/core/file_system.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata::keras {
namespace {

using callbacks::Mode;
using nlohmann::json;

std::vector<json> cases(const std::string& callback) {
  std::ifstream file(test::source_path("tests/golden/keras_callbacks.json"));
  const json all = json::parse(file);
  std::vector<json> found;
  for (const json& each : all["cases"]) {
    if (each["callback"] == callback) found.push_back(each);
  }
  EXPECT_FALSE(found.empty());
  return found;
}

/// A run whose epochs the test makes up.
class ScriptedRun final : public TrainingRun {
 public:
  ScriptedRun() : TrainingRun(make_model()) {}
  std::vector<std::pair<std::string, Tracked>> state() override { return {}; }
  double rate() const { return model().optimizer().learning_rate(); }

 private:
  static Model make_model() {
    Sequential model(Input({1}), {layers::Dense(1)});
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.5}), .loss = "mse"});
    return model;
  }
};

struct Recorded {
  int64_t stopped = -1;
  std::vector<double> rates;
};

Recorded play(callbacks::Callback& callback, const std::vector<double>& values,
              const std::string& monitor) {
  ScriptedRun run;
  callback.set_run(&run);
  callback.on_train_begin();
  Recorded outcome;
  for (size_t i = 0; i < values.size() && outcome.stopped < 0; ++i) {
    const auto epoch = static_cast<int64_t>(i);
    callback.on_epoch_begin(epoch);
    Logs logs(Logs::Values{{monitor, values[i]}, {"loss", values[i]}});
    callback.on_epoch_end(epoch, logs);
    outcome.rates.push_back(run.rate());
    if (run.stopping()) outcome.stopped = epoch;
  }
  callback.set_run(nullptr);
  return outcome;
}

Mode mode_of(const json& test) {
  return test["mode"] == "auto" ? Mode::kAuto : test["mode"] == "max" ? Mode::kMax : Mode::kMin;
}

TEST(CallbacksGoldenTest, EarlyStoppingStopsWhereKerasDoes) {
  for (const json& test : cases("EarlyStopping")) {
    SCOPED_TRACE(test.dump());
    callbacks::EarlyStoppingOptions options{.monitor = test["monitor"], .mode = mode_of(test)};
    const json& given = test["options"];
    options.patience = given.value("patience", 0);
    options.min_delta = given.value("min_delta", 0.0);
    options.start_from_epoch = given.value("start_from_epoch", 0);
    if (given.contains("baseline")) options.baseline = given["baseline"].get<double>();
    callbacks::EarlyStopping callback(options);
    const Recorded outcome = play(callback, test["values"]["data"], test["monitor"]);
    EXPECT_EQ(outcome.stopped, test["stopped"]);
    EXPECT_EQ(callback.best_epoch(), test["best_epoch"]);
    ASSERT_EQ(callback.best().has_value(), !test["best"].is_null());
    if (callback.best()) {
      EXPECT_DOUBLE_EQ(*callback.best(), test["best"].get<double>());
    }
  }
}

TEST(CallbacksGoldenTest, ReduceLROnPlateauHasTheRatesOfKeras) {
  for (const json& test : cases("ReduceLROnPlateau")) {
    SCOPED_TRACE(test.dump());
    callbacks::ReduceLROnPlateauOptions options{.monitor = test["monitor"], .mode = mode_of(test)};
    const json& given = test["options"];
    options.patience = given.value("patience", options.patience);
    options.factor = given.value("factor", options.factor);
    options.min_delta = given.value("min_delta", options.min_delta);
    options.cooldown = given.value("cooldown", options.cooldown);
    options.min_lr = given.value("min_lr", options.min_lr);
    callbacks::ReduceLROnPlateau callback(options);
    const Recorded outcome = play(callback, test["values"]["data"], test["monitor"]);
    const auto rates = test["rates"].get<std::vector<double>>();
    ASSERT_EQ(outcome.rates.size(), rates.size());
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(outcome.rates[i], rates[i], 1e-6 * rates[i]) << i;  // Keras keeps float32
    }
  }
}

TEST(CallbacksGoldenTest, LearningRateSchedulerSetsTheRatesOfKeras) {
  callbacks::LearningRateScheduler callback(
      [](int64_t epoch, double rate) { return epoch > 2 ? rate * 0.9 : rate; });
  const Recorded outcome = play(callback, std::vector<double>(8, 1.0), "loss");
  const auto rates = cases("LearningRateScheduler")[0]["rates"].get<std::vector<double>>();
  ASSERT_EQ(outcome.rates.size(), rates.size());
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(outcome.rates[i], rates[i], 1e-6);
}

TEST(CallbacksGoldenTest, CSVLoggerWritesTheFileOfKeras) {
  const test::TempFolder folder;
  for (const json& test : cases("CSVLogger")) {
    callbacks::CSVLogger callback(folder.path() + "/log.csv");
    ScriptedRun run;
    callback.set_run(&run);
    callback.on_train_begin();
    int64_t epoch = 0;
    for (const json& row : test["logs"]) {
      Logs logs;
      for (const auto& [name, value] : row.items()) logs.set(name, value);
      callback.on_epoch_end(epoch++, logs);
    }
    EXPECT_EQ(read_file(folder.path() + "/log.csv"), test["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace strata::keras
