#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/error.h"
#include "suites/core_distance.h"
#include "suites/process.h"
#include "suites/stats.h"
#include "suites/step_cases.h"
#include "suites/step_model_systems.h"
#include "suites/step_systems.h"
#include "tensor/thread_setup.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

std::string log_path() { return (fs::path(testing::TempDir()) / "bench_test.log").string(); }

ProcessSpec shell(const std::string& script) { return {{"/bin/sh", "-c", script}, {}, {}}; }

TEST(BenchEstimateTest, MedianAndOrderStatistics) {
  std::vector<double> values;
  for (int i = 15; i >= 1; --i) values.push_back(i);
  const Estimate result = estimate(values);
  EXPECT_EQ(result.median, 8);
  // P(Binomial(15, 1/2) <= 3) = 0.018, and <= 4 = 0.059: the 4th smallest and largest.
  EXPECT_EQ(result.low, 4);
  EXPECT_EQ(result.high, 12);
}

TEST(BenchEstimateTest, FewValuesGiveTheirRange) {
  const Estimate result = estimate({3, 1, 2});
  EXPECT_EQ(result.median, 2);
  EXPECT_EQ(result.low, 1);
  EXPECT_EQ(result.high, 3);
  EXPECT_EQ(estimate({4, 2}).median, 3);
}

TEST(BenchCoreDistanceTest, TakesTimeAndLeavesTheCallersCores) {
  const std::vector<int> before = tensor::allowed_cores();
  ASSERT_GE(before.size(), 2u);
  const double nanoseconds = core_round_trip(before[0], before[1]);
  EXPECT_GT(nanoseconds, 2);  // more than a message within a core's own cache
  EXPECT_LT(nanoseconds, 1e6);
  EXPECT_EQ(tensor::allowed_cores(), before);
}

TEST(BenchJsonLineTest, EscapesAndKeepsOrder) {
  testing::internal::CaptureStdout();
  JsonLine().add("b", std::string("say \"no\"\\\n")).add("a", 0.5).print();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "{\"b\": \"say \\\"no\\\"\\\\ \", \"a\": 0.5}\n");
}

TEST(BenchProcessTest, LinesInLinesOut) {
  ProcessSpec spec = shell("echo ready; while read -r line; do echo \"$WORD $line\"; done");
  spec.environment = {{"WORD", "got"}};
  BenchProcess process(spec, log_path());
  EXPECT_EQ(process.receive(soon()), "ready");
  process.send("run 3");
  EXPECT_EQ(process.receive(soon()), "got run 3");
  EXPECT_LT(process.cpu_seconds(), 5);
}

TEST(BenchProcessTest, SaysWhyItEnded) {
  BenchProcess process(shell("echo first >&2; echo no such model >&2"), log_path());
  try {
    process.receive(soon());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("it ended: no such model"), std::string::npos)
        << error.what();
  }
}

TEST(BenchProcessTest, WaitsHaveADeadline) {
  BenchProcess process(shell("read -r line"), log_path());
  try {
    process.receive(std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  }
}

TEST(BenchRunningSystemTest, TheSlowestProcessCounts) {
  const SystemSpec spec{"pair", 2, {}, {}};
  const Variant variant{"",
                        {shell("echo ready; while read -r l; do echo ok 0.25 1; done"),
                         shell("echo ready; while read -r l; do echo ok 0.5 1; done")}};
  RunningSystem system(spec, variant, testing::TempDir());
  EXPECT_EQ(system.run(10), 0.5);
  EXPECT_EQ(system.sample().steps_per_second, 2);
}

const StepCase& case_named(std::string_view name) {
  return *std::ranges::find(step_cases(), name, &StepCase::name);
}

TEST(BenchSystemsTest, WhatIsNotInstalledIsMissing) {
  BenchOptions options;
  options.peers_dir = "/nonexistent/peers";
  options.command = "/nonexistent/strata";
  const tools::PortReservation ports(kStepPorts);
  const auto systems =
      step_systems(options, case_named("cnn-loop"), "/nonexistent/data", {0, 1}, ports);
  ASSERT_EQ(systems.size(), 18);
  for (const SystemSpec& system : systems) {
    const bool always_present =
        system.name.rfind("strata", 0) == 0 || system.name == "independent-2";
    EXPECT_EQ(system.missing.empty(), always_present) << system.name;
    if (system.name == "jax-1") {
      EXPECT_EQ(system.missing,
                "not installed in /nonexistent/peers/jax; run scripts/install_peers.sh jax");
    }
  }
  EXPECT_EQ(step_systems(options, case_named("run"), "/nonexistent/data", {0, 1}, ports).size(), 2);
}

TEST(BenchProcessTest, MemoryHasAPeakThatCanBeReset) {
  // 40 MB for a moment, then little.
  BenchProcess process(
      shell(
          "echo ready; read -r line; x=$(head -c 40000000 /dev/zero | tr '\\0' a); x=; echo done; "
          "read -r line"),
      log_path());
  process.receive(soon());
  const BenchProcess::Memory before = process.memory();
  EXPECT_GT(before.peak, 100e3);
  EXPECT_GE(before.peak, before.files);
  process.send("go");
  process.receive(soon());
  const double peak = process.memory().peak;
  EXPECT_GT(peak, before.peak + 30e6);
  process.reset_peak_memory();
  EXPECT_LE(process.memory().peak, peak);
}

TEST(BenchModelCasesTest, ComparesSystemsThatThereAre) {
  BenchOptions options;
  options.peers_dir = "/nonexistent/peers";
  options.command = "/nonexistent/strata";
  options.against = {"other"};
  int models = 0;
  for (const StepCase& each : step_cases()) {
    if (!each.trains_model) continue;
    ++models;
    const auto systems = step_model_systems(options, each, "/nonexistent/data", {0, 1});
    std::set<std::string> names;
    for (const SystemSpec& system : systems) {
      EXPECT_TRUE(names.insert(system.name).second) << each.name << ": " << system.name;
      const bool ours = system.name.rfind("strata", 0) == 0 || system.name.rfind("other", 0) == 0 ||
                        system.name == "independent-2";
      EXPECT_EQ(system.missing.empty(), ours) << each.name << ": " << system.name;
      for (const Variant& variant : system.variants) {
        const size_t processes = system.name == "independent-2" || system.name == "ddp-2" ? 2 : 1;
        EXPECT_EQ(variant.processes.size(), processes) << each.name << ": " << system.name;
      }
    }
    for (const Ratio& ratio : step_model_ratios(each, true)) {
      EXPECT_TRUE(names.contains(ratio.tested)) << each.name << ": " << ratio.tested;
      EXPECT_TRUE(names.contains(ratio.baseline)) << each.name << ": " << ratio.baseline;
    }
    EXPECT_EQ(names.contains("strata-1-float32"), each.bf16) << each.name;
    EXPECT_EQ(names.contains("torch-1-eager-attention"), each.name == "transformer-512");
  }
  EXPECT_EQ(models, 7);
}

TEST(BenchModelCasesTest, HasThePeakOfAsManyCoresAsTheLimitOfEachSystem) {
  BenchOptions options;
  options.peers_dir = "/nonexistent/peers";
  options.command = "/nonexistent/strata";
  auto systems = step_model_systems(options, step_cases().back(), "/nonexistent/data", {0, 1});
  add_peaks(systems);
  for (const SystemSpec& system : systems) {
    const bool peak = system.name.starts_with("peak-");
    const bool one_core = system.name.find("-1") != std::string::npos;
    EXPECT_EQ(system.limit, peak ? "" : (one_core ? "peak-1" : "peak-2")) << system.name;
    const Variant& variant = system.variants.front();
    if (peak) {
      EXPECT_EQ(variant.processes.size(), one_core ? 1 : 2) << system.name;
    }
    for (const ProcessSpec& process : variant.processes) {
      const auto& argv = process.argv;
      EXPECT_EQ(std::ranges::find(argv, "--peak") != argv.end(), peak) << system.name;
    }
  }
  EXPECT_EQ(std::ranges::count(systems, "peak-1", &SystemSpec::name), 1);
  EXPECT_EQ(std::ranges::count(systems, "peak-2", &SystemSpec::name), 1);
}

}  // namespace
}  // namespace strata::bench
