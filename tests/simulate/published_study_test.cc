#include "simulate/published_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "simulate/study_report.h"
#include "support/expect_error.h"

namespace strata::simulate {
namespace {

TEST(PublishedStudyTest, TheStudysEfficienciesAreThose) {
  double worst = 0;
  size_t count = 0;
  for (const PublishedSystem& system : published_study("cscs")) {
    count += system.points.size();
    for (const PublishedPoint& point : system.points) worst = std::max(worst, point.efficiency);
  }
  EXPECT_EQ(count, 21);
  EXPECT_LT(worst, 0.96);
  const auto efficiency = [](size_t system, size_t point) {
    return 100 * published_study("cscs")[system].points[point].efficiency;
  };
  // As the study's text says.
  EXPECT_NEAR(efficiency(0, 2), 92.07, 0.01);
  EXPECT_NEAR(efficiency(1, 2), 93.45, 0.01);
  EXPECT_NEAR(efficiency(1, 5), 50.96, 0.01);
  EXPECT_NEAR(efficiency(2, 2), 94.44, 0.03);
  EXPECT_NEAR(efficiency(2, 5), 88.55, 0.01);
}

TEST(PublishedStudyTest, FourNumbersExplainThem) {
  const std::vector<SimulatedPoint> points = simulate_study("cscs", fitted_numbers());
  ASSERT_EQ(points.size(), 21);
  EXPECT_LE(100 * rms(points), 1.7);
  for (const SimulatedPoint& point : points) {
    EXPECT_LE(100 * std::abs(point.error()), 5.5)
        << point.system->name << ", " << point.published.gpus << " GPUs";
  }
}

TEST(PublishedStudyTest, TheNumbersAreAMinimum) {
  const double least = rms(simulate_study("cscs", fitted_numbers()));
  for (const double factor : {0.85, 1.15}) {
    for (int which = 0; which < 4; ++which) {
      FittedNumbers other = fitted_numbers();
      double* const numbers[] = {&other.overhead, &other.overhead_per_doubling,
                                 &other.daint_bytes_per_second, &other.p2_xlarge_bytes_per_second};
      *numbers[which] *= factor;
      EXPECT_GT(rms(simulate_study("cscs", other)), least) << which << " times " << factor;
    }
  }
}

TEST(PublishedStudyTest, TheKneesAreOneServersLine) {
  // Evenly filled servers take most of the knee away.
  for (const SimulatedPoint& point : simulate_study("cscs", fitted_numbers())) {
    const bool knee = (point.system->name == "daint" && point.published.gpus == 128) ||
                      (point.system->name == "p2.xlarge" && point.published.gpus >= 64);
    if (!knee) continue;
    const auto hot = std::ranges::max_element(point.simulated.servers, {}, &ServerLoad::bytes);
    EXPECT_EQ(hot->largest, "affine/weights");
    EXPECT_GT(point.simulated.hot_server_seconds, point.scenario.network.backward_seconds());
    Scenario sharded = point.scenario;
    sharded.placement = PlacementRule::kSharded;
    EXPECT_GT(simulate(sharded).efficiency, point.published.efficiency + 0.3);
  }
}

TEST(PublishedStudyTest, StratasSumsOnTheSameLinesReach85PercentAt128) {
  for (const SimulatedPoint& point : simulate_study("cscs", fitted_numbers())) {
    if (point.published.gpus != 128) continue;
    EXPECT_GE(with_all_reduce(point).efficiency, 0.85) << point.system->name;
  }
}

TEST(PublishedStudyTest, ReportsHaveEveryPoint) {
  const std::string text = study_text("cscs", fitted_numbers());
  EXPECT_NE(text.find("RMS 1."), std::string::npos) << text;
  EXPECT_NE(text.find("affine/weights"), std::string::npos) << text;
  EXPECT_EQ(study_json("google", fitted_numbers()).at("points").as_array().size(), 20);
  const std::string svg = study_svg("cscs", fitted_numbers());
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n")) << svg;
}

TEST(PublishedStudyTest, AnUnknownStudyIsRefused) {
  expect_error([] { published_study("frobnicate"); },
               "[simulate] study: got frobnicate; expected one of cscs, google, talk");
}

}  // namespace
}  // namespace strata::simulate
