// The numbers of a study, from given measurements.
#include "tools/study/study_point.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/expect_error.h"
#include "tools/study/part_clock.h"
#include "tools/study/progress_lines.h"
#include "tools/study/study_report.h"

namespace strata::tools {
namespace {

using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Measurement measured(const Configuration& configuration, std::vector<double> rates) {
  Measurement m{.configuration = configuration, .images_per_second = std::move(rates)};
  m.input_seconds = 0.001;
  m.parts = StepParts{.forward = 0.01, .backward = 0.02, .communication = 0.003, .update = 0.004};
  m.loss = 6.9;
  m.parameters = 1000;
  m.parameter_bytes = 4000;
  for (int i = 0; i < configuration.servers; ++i) m.server_bytes.push_back(1'000'000 * (i + 1));
  m.processor = "a processor";
  m.cores = 8;
  return m;
}

Configuration with(StudyStrategy strategy, int replicas, int servers = 0) {
  Configuration c;
  c.strategy = strategy;
  c.replicas = replicas;
  c.servers = servers;
  c.batch = 4;
  c.image_size = 32;
  return c;
}

/// Rates by strategy, replicas, servers and data; what was asked, in order.
class GivenRates final : public StudyRunner {
 public:
  explicit GivenRates(std::map<std::string, std::vector<double>> rates)
      : rates_(std::move(rates)) {}
  Measurement measure(const Configuration& c) override {
    const std::string key = str_cat(word_of(c.strategy), " ", c.replicas, " ", c.servers,
                                    c.is_synthetic() ? "" : " real");
    asked.push_back(key);
    const std::vector<double>& rates = rates_.at(key);
    if (c.repeat > 1) return measured(c, rates);
    return measured(c, {rates.at(next_[key]++ % rates.size())});  // one after the other
  }

  TensorflowRate measure_in_tensorflow(const Configuration& c) override {
    const std::string key = str_cat("TensorFlow ", word_of(c.strategy), " ", c.replicas);
    asked.push_back(key);
    EXPECT_EQ(c.repeat, 1);
    const std::vector<double>& rates = rates_.at(key);
    return {.images_per_second = rates.at(next_[key]++ % rates.size()), .version = "2.21.0"};
  }

  std::vector<std::string> asked;

 private:
  std::map<std::string, std::vector<double>> rates_;
  std::map<std::string, size_t> next_;
};

StudyOptions options_of(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"--network", "trivial"};
  all.insert(all.end(), words.begin(), words.end());
  return read_study_options(all);
}

std::vector<StudyPoint> run(const StudyOptions& options, StudyRunner& runner,
                            std::vector<StudyPoint>* told = nullptr) {
  return run_study(options, runner, [&](const StudyPoint& point) {
    if (told != nullptr) told->push_back(point);
  });
}

TEST(StudyPointTest, TheFastestNumberOfServersCounts) {
  GivenRates rates({{"parameter_server 1 1", {100}},
                    {"parameter_server 1 2", {90}},
                    {"parameter_server 2 1", {150}},
                    {"parameter_server 2 2", {180}},
                    {"parameter_server 4 1", {200}},
                    {"parameter_server 4 2", {190, 250, 240}}});
  std::vector<StudyPoint> told;
  const auto points = run(options_of({"--sweep", "replicas=1,2,4", "ps=1,2"}), rates, &told);
  std::string best;
  for (const StudyPoint& point : points) {
    if (!point.best) continue;
    const Configuration& c = point.measurement.configuration;
    best += str_cat(c.replicas, ":", c.servers, " ", *point.speedup, " ", *point.efficiency, "\n");
  }
  EXPECT_EQ(best, "1:1 1 1\n2:2 1.8 0.9\n4:2 2.4 0.6\n");
  EXPECT_EQ(points.size(), 6U);
  EXPECT_EQ(told.size(), 6U);
  EXPECT_DOUBLE_EQ(*points[2].speedup, 1.5);  // 2 replicas, 1 server: against the best of 1
  EXPECT_DOUBLE_EQ(*points[1].efficiency, 0.9);
}

TEST(StudyPointTest, EachStrategyIsComparedWithItself) {
  GivenRates rates({{"mirrored 1 0", {100}},
                    {"mirrored 2 0", {150}},
                    {"multi_worker 1 0", {50}},
                    {"multi_worker 2 0", {100}}});
  const auto points =
      run(options_of({"--sweep", "replicas=1,2", "strategy=mirrored,multi_worker"}), rates);
  EXPECT_DOUBLE_EQ(*points[1].efficiency, 0.75);
  EXPECT_DOUBLE_EQ(*points[3].efficiency, 1);
}

TEST(StudyPointTest, SeveralReplicasAloneHaveNoEfficiency) {
  GivenRates rates({{"mirrored 2 0", {150}}, {"mirrored 4 0", {240}}});
  StudyOptions options = options_of({"--replicas", "2", "--strategy", "mirrored"});
  EXPECT_FALSE(run(options, rates)[0].speedup);
  options.replicas = {2, 4};  // without 1: a replica is half of the pair
  const auto points = run(options, rates);
  EXPECT_DOUBLE_EQ(*points[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(*points[1].speedup, 3.2);
  EXPECT_DOUBLE_EQ(*points[1].efficiency, 0.8);
}

TEST(StudyPointTest, RealImagesAreComparedWithSyntheticOnes) {
  GivenRates rates({{"mirrored 1 0 real", {80}}, {"mirrored 1 0", {100}}});
  StudyOptions options = options_of({"--data", "folder", "--strategy", "mirrored"});
  EXPECT_NEAR(*run(options, rates)[0].input_loss(), 0.2, 1e-12);
  options.compare_input = false;
  rates.asked.clear();
  EXPECT_FALSE(run(options, rates)[0].input_loss());
  EXPECT_EQ(rates.asked, std::vector<std::string>{"mirrored 1 0 real"});
}

TEST(StudyPointTest, TheLimitIsMeasuredInTurns) {
  GivenRates rates({{"multi_worker 2 0", {90, 45, 180}}, {"independent 2 0", {100, 50, 100}}});
  StudyOptions options = options_of({"--replicas", "2", "--strategy", "multi_worker", "--limit"});
  options.base.repeat = 3;
  const auto points = run(options, rates);
  EXPECT_EQ(rates.asked,
            (std::vector<std::string>{"multi_worker 2 0", "multi_worker 2 0", "independent 2 0",
                                      "multi_worker 2 0", "independent 2 0", "multi_worker 2 0",
                                      "independent 2 0"}));
  EXPECT_DOUBLE_EQ(points[0].vs_limit->median, 0.9);
  EXPECT_DOUBLE_EQ(points[0].vs_limit->low, 0.9);
  EXPECT_DOUBLE_EQ(points[0].vs_limit->high, 1.8);
}

TEST(StudyPointTest, TensorFlowIsMeasuredInTurnsWhereItCanDoTheSame) {
  GivenRates rates({{"mirrored 1 0", {30, 60}},
                    {"TensorFlow mirrored 1", {20, 30}},
                    {"parameter_server 1 1", {10}}});
  StudyOptions options =
      read_study_options({"--network", "resnet50", "--sweep", "strategy=mirrored,parameter_server",
                          "--tensorflow", "python3"});
  options.base.repeat = 2;
  const auto points = run(options, rates);
  EXPECT_EQ(rates.asked, (std::vector<std::string>{
                             "mirrored 1 0", "mirrored 1 0", "TensorFlow mirrored 1",
                             "mirrored 1 0", "TensorFlow mirrored 1", "parameter_server 1 1"}));
  EXPECT_EQ(points[0].tensorflow->version, "2.21.0");
  EXPECT_DOUBLE_EQ(points[0].tensorflow->images_per_second, 25);
  EXPECT_DOUBLE_EQ(points[0].tensorflow->quotient.median, 1.75);
  EXPECT_DOUBLE_EQ(points[0].tensorflow->quotient.low, 1.5);
  EXPECT_FALSE(points[1].tensorflow);
}

TEST(StudyPointTest, JsonHasEverythingAndIsReadAgain) {
  StudyPoint point{.measurement =
                       measured(with(StudyStrategy::kParameterServer, 2, 2), {80, 100, 90})};
  point.speedup = 1.5;
  point.efficiency = 0.75;
  point.synthetic_rate = 120;
  point.vs_limit = Spread{.median = 0.9, .low = 0.8, .high = 0.95};
  point.tensorflow = BesideTensorflow{.version = "2.21.0",
                                      .images_per_second = 60,
                                      .quotient = {.median = 1.5, .low = 1.4, .high = 1.6}};
  const Json json = Json::parse(point.to_json().dump());
  for (const char* name : {"network",
                           "strategy",
                           "replicas",
                           "servers",
                           "placement",
                           "synchronous",
                           "batch",
                           "dtype",
                           "data",
                           "image_size",
                           "classes",
                           "optimizer",
                           "learning_rate",
                           "device",
                           "threads",
                           "warmup",
                           "steps",
                           "repeat",
                           "images_per_second",
                           "low",
                           "high",
                           "samples",
                           "step_seconds",
                           "input_seconds",
                           "part_seconds",
                           "loss",
                           "parameters",
                           "parameter_bytes",
                           "server_bytes",
                           "processor",
                           "cores",
                           "best",
                           "speedup",
                           "efficiency",
                           "synthetic_images_per_second",
                           "input_loss",
                           "vs_limit",
                           "tensorflow"}) {
    EXPECT_NE(json.find(name), nullptr) << name;
  }
  EXPECT_DOUBLE_EQ(json.at("images_per_second").as_double(), 90);
  EXPECT_DOUBLE_EQ(json.at("step_seconds").as_double(), 8.0 / 90);
  EXPECT_DOUBLE_EQ(json.at("input_loss").as_double(), 0.25);
  EXPECT_EQ(StudyPoint::from_json(json).to_json().dump(), json.dump());
}

TEST(StudyPointTest, AResultThatLacksAMemberIsRefused) {
  expect_error_containing([] { StudyPoint::from_json(Json::parse(R"({"network": "trivial"})")); },
                          ErrorCode::kDataLoss, "strategy");
  Json json = StudyPoint{.measurement = measured(with(StudyStrategy::kMirrored, 1), {1})}.to_json();
  json.set("samples", Json::array());
  expect_error([&] { StudyPoint::from_json(json); }, ErrorCode::kDataLoss,
               "[strata study] got a result without samples; expected at least one");
}

TEST(MeasurementTest, ATrainingThatDivergedHasNoLoss) {
  Measurement m = measured(with(StudyStrategy::kMirrored, 1), {1});
  m.loss = std::nan("");
  const Json json = Json::parse(m.to_json().dump());
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_TRUE(std::isnan(Measurement::from_json(json).loss));
}

TEST(MeasurementTest, SpreadsAndSums) {
  EXPECT_DOUBLE_EQ(spread_of({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_DOUBLE_EQ(spread_of({7}).high, 7);
  const Configuration c = with(StudyStrategy::kIndependent, 2);
  EXPECT_EQ(added({measured(c, {10, 20}), measured(c, {1, 2})}).images_per_second,
            (std::vector<double>{11, 22}));
}

TEST(PartClockTest, CutsAStepAtTheSpansThatTheLibraryReports) {
  const PartClock::Time began = {};
  PartClock clock(began);
  clock.forward_ended(began + 10ms);
  clock.add_span("gradients of SGD, bucket 1 of 2", began + 15ms, began + 20ms);  // beside backward
  clock.add_span("backward", began + 10ms, began + 30ms);
  clock.add_span("gradients of SGD, bucket 2 of 2", began + 29ms, began + 37ms);
  const StepParts parts = clock.step_ended(began + 40ms);
  EXPECT_NEAR(parts.forward, 0.010, 1e-9);
  EXPECT_NEAR(parts.backward, 0.020, 1e-9);
  EXPECT_NEAR(parts.communication, 0.007, 1e-9);
  EXPECT_NEAR(parts.update, 0.003, 1e-9);
}

TEST(PartClockTest, PushesAndPullsAreCommunication) {
  const PartClock::Time began = {};
  PartClock clock(began);
  clock.forward_ended(began + 1ms);
  clock.add_span("backward", began + 1ms, began + 3ms);
  clock.add_span("push and pull of optimizer 1/Float", began + 4ms, began + 9ms);
  const StepParts parts = clock.step_ended(began + 10ms);
  EXPECT_NEAR(parts.communication, 0.005, 1e-9);
  EXPECT_NEAR(parts.update, 0.002, 1e-9);
}

TEST(PartClockTest, WithoutOtherProcessesNothingIsExposed) {
  const PartClock::Time began = {};
  PartClock clock(began);
  clock.forward_ended(began + 1ms);
  clock.add_span("gradients of SGD, bucket 1 of 1", began + 1ms, began + 2ms);
  clock.add_span("backward", began + 1ms, began + 3ms);
  const StepParts parts = clock.step_ended(began + 4ms);
  EXPECT_EQ(parts.communication, 0);
  EXPECT_NEAR(parts.update, 0.001, 1e-9);
}

TEST(ProgressLinesTest, HaveTheFormOfTfCnnBenchmarks) {
  ProgressLines lines(10);
  EXPECT_EQ(ProgressLines::header(), "Step\tImg/sec\ttotal_loss");
  for (const double seconds : {0.1, 0.2, 0.1, 0.1}) lines.add_step(seconds);
  // Rates 100, 50, 100, 100: a standard error of 10.8, no median deviation.
  EXPECT_EQ(lines.line(4, 6.9077), "4\timages/sec: 80.0 +/- 10.8 (jitter = 0.0)\t6.908");
  EXPECT_EQ(lines.total(),
            std::string(64, '-') + "\ntotal images/sec: 80.00\n" + std::string(64, '-'));
}

std::vector<StudyPoint> some_points() {
  GivenRates rates({{"mirrored 1 0", {100, 90, 110}},
                    {"mirrored 2 0", {150}},
                    {"parameter_server 1 1", {80}},
                    {"parameter_server 1 2", {70}},
                    {"parameter_server 2 1", {100}},
                    {"parameter_server 2 2", {120}}});
  StudyOptions options =
      options_of({"--sweep", "replicas=1,2", "ps=1,2", "strategy=mirrored,parameter_server"});
  auto points = run(options, rates);
  points[1].vs_limit = Spread{.median = 0.93, .low = 0.9, .high = 0.95};
  points[1].synthetic_rate = 200;
  points[1].tensorflow = BesideTensorflow{.version = "2.21.0",
                                          .images_per_second = 60,
                                          .quotient = {.median = 2.5, .low = 2.4, .high = 2.6}};
  return points;
}

TEST(StudyReportTest, TheTableHasEveryNumber) {
  const std::string table = study_table(some_points());
  EXPECT_TRUE(contains(table,
                       "trivial, mirrored, 32 images of 227 x 227 a replica, float32, synthetic\n"
                       "a processor, 8 cores, 1000 parameters\n"))
      << table;
  EXPECT_TRUE(contains(table, "100.00 (90.00 to 110.00)      1.00   100.0 %\n")) << table;
  EXPECT_TRUE(contains(table, "150.00 (150.00 to 150.00)      1.50    75.0 %\n")) << table;
  EXPECT_TRUE(contains(table, "2      2*       120.00")) << table;
  EXPECT_TRUE(
      contains(table, "forward 10.00, backward 20.00, exposed communication 3.00, update 4.00 ms"));
  EXPECT_TRUE(contains(table, "1.00 to 2.00 MB a server"));
  EXPECT_TRUE(contains(table, "synthetic 200.00 images/s: real images cost 25.0 %"));
  EXPECT_TRUE(contains(table, "0.930 of two processes that share nothing (0.900 to 0.950)"));
  EXPECT_TRUE(
      contains(table, "2.50 of TensorFlow 2.21.0 (2.40 to 2.60), which trains 60.00 images/s\n"));
}

TEST(StudyReportTest, ThePageHasChartsAndFetchesNothing) {
  const std::string page = study_html(some_points());
  EXPECT_TRUE(contains(page, "Images/s, median and spread"));
  EXPECT_TRUE(contains(page, "Efficiency against ideal"));
  EXPECT_TRUE(contains(page, "Time of a step by part"));
  EXPECT_TRUE(contains(page, "Images/s by parameter servers"));
  EXPECT_TRUE(contains(page, "<td>150.00 to 150.00</td><td>1.50</td><td>75.0 %</td>")) << page;
  EXPECT_TRUE(contains(page, "<td>25.0 %</td><td>0.930</td><td>2.50</td>"));
  EXPECT_TRUE(
      contains(page, "<td>2.00</td><td>1.50</td>"));  // MB of the fullest and the mean server
  EXPECT_FALSE(contains(page, "<script"));
  EXPECT_FALSE(contains(page, "src="));
  EXPECT_FALSE(contains(page, "href="));
}

TEST(StudyReportTest, TheTableOfThePageHasNoEmptyColumns) {
  GivenRates rates({{"mirrored 1 0", {100}}, {"mirrored 2 0", {150}}});
  const std::string page =
      study_html(run(options_of({"--sweep", "replicas=1,2", "strategy=mirrored"}), rates));
  EXPECT_TRUE(contains(page, "<th>efficiency</th><th>step, ms</th><th>input, ms</th></tr>"));
  EXPECT_FALSE(contains(page, "servers</th>"));
}

TEST(StudyReportTest, NamesAreEscaped) {
  auto points = some_points();
  for (StudyPoint& point : points) point.measurement.processor = "<b>&";
  EXPECT_TRUE(contains(study_html(points), "&lt;b>&amp;, 8 cores"));
}

}  // namespace
}  // namespace strata::tools
