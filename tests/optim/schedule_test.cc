#include "strata/optim/schedule.h"

#include <gtest/gtest.h>

#include <functional>

#include "optim/golden.h"
#include "strata/core/error.h"
#include "support/expect_error.h"

namespace strata::schedules {
namespace {

using nlohmann::json;

Schedule make(const std::string& name, const json& o) {
  const auto number = [&](const char* key, double otherwise = 0) {
    return o.value(key, otherwise);
  };
  const double rate = number("initial_learning_rate");
  if (name == "ExponentialDecay") {
    return ExponentialDecay{rate, number("decay_steps"), number("decay_rate"),
                            o.value("staircase", false)};
  }
  if (name == "InverseTimeDecay") {
    return InverseTimeDecay{rate, number("decay_steps"), number("decay_rate"),
                            o.value("staircase", false)};
  }
  if (name == "PiecewiseConstantDecay") {
    return PiecewiseConstantDecay{o["boundaries"].get<std::vector<int64_t>>(),
                                  o["values"].get<std::vector<double>>()};
  }
  if (name == "PolynomialDecay") {
    return PolynomialDecay{rate, number("decay_steps"), number("end_learning_rate", 1e-4),
                           number("power", 1), o.value("cycle", false)};
  }
  if (name == "CosineDecay") {
    return CosineDecay{rate, number("decay_steps"), number("alpha"),
                       number("warmup_target", CosineDecay::kNoWarmup), number("warmup_steps")};
  }
  return CosineDecayRestarts{rate, number("first_decay_steps"), number("t_mul", 2),
                             number("m_mul", 1), number("alpha")};
}

TEST(ScheduleTest, EqualsKeras) {
  const json golden = read_golden("keras_schedules.json");
  const auto iterations = golden["iterations"].get<std::vector<int64_t>>();
  for (const json& test : golden["cases"]) {
    const Schedule schedule = make(test["schedule"], test["options"]);
    EXPECT_EQ(schedule.name(), test["schedule"].get<std::string>());
    for (size_t i = 0; i < iterations.size(); ++i) {
      const double wanted = test["values"]["data"][i];
      // Keras computes in float32, where 1 + cos loses digits near its zero.
      EXPECT_NEAR(schedule(iterations[i]), wanted, 1e-5 * std::max(wanted, 0.002))
          << test << iterations[i];
    }
  }
}

TEST(ScheduleTest, TakesConstantsAndFunctions) {
  const Schedule constant = 0.25;
  EXPECT_TRUE(constant.is_constant());
  EXPECT_EQ(constant(1000), 0.25);
  EXPECT_EQ(constant.name(), "Constant");
  const Schedule function(
      [](int64_t iteration) { return 1.0 / static_cast<double>(iteration + 1); });
  EXPECT_FALSE(function.is_constant());
  EXPECT_EQ(function(3), 0.25);
  const Schedule copy = function;
  EXPECT_EQ(copy(1), 0.5);
}

TEST(ScheduleTest, RestartsOnTime) {
  const Schedule schedule = CosineDecayRestarts{.initial_learning_rate = 1, .first_decay_steps = 3};
  for (const int64_t start : {0, 3, 9, 21, 45, 93, 189})
    EXPECT_DOUBLE_EQ(schedule(start), 1) << start;
}

TEST(ScheduleTest, RefusesWhatCannotBe) {
  expect_error(
      [] {
        Schedule(ExponentialDecay{0.1, 0, 0.5});
      },
      "[schedules] ExponentialDecay: got decay_steps 0; expected a positive number of steps");
  expect_error(
      [] {
        Schedule(CosineDecayRestarts{0.1, -1});
      },
      "[schedules] CosineDecayRestarts: got first_decay_steps -1; expected a positive number of "
      "steps");
  expect_error(
      [] {
        Schedule(CosineDecayRestarts{0.1, 1, 0});
      },
      "[schedules] CosineDecayRestarts: got t_mul 0; expected a positive factor");
  expect_error(
      [] {
        Schedule(PiecewiseConstantDecay{{1, 2}, {0.1}});
      },
      "[schedules] PiecewiseConstantDecay: got 2 boundaries and 1 values; expected at least one "
      "boundary "
      "and one value more than boundaries");
  expect_error(
      [] {
        Schedule(PiecewiseConstantDecay{{2, 1}, {1, 2, 3}});
      },
      "[schedules] PiecewiseConstantDecay: got boundaries that do not ascend");
  expect_error([] { Schedule(Schedule::Function()); },
               "[schedules] Schedule: got an empty function");
}

}  // namespace
}  // namespace strata::schedules
