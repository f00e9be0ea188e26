// Steps against closed forms, one worker against all, and what must hold of any simulation.
#include "simulate/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "simulate/advice.h"
#include "simulate/report.h"
#include "support/expect_error.h"

namespace strata::simulate {
namespace {

/// One layer of one variable, whose bytes are a multiple of all parts.
NetworkTable one_layer(double forward, double backward, int64_t elements) {
  return {.name = "one",
          .source = "made for a test",
          .batch = 32,
          .layers = {{.name = "dense",
                      .forward_seconds = forward,
                      .backward_seconds = backward,
                      .variables = {{.name = "kernel", .shape = {elements}}}}}};
}

Scenario with_servers(int replicas, int servers, PlacementRule rule) {
  Scenario scenario;
  scenario.network = built_in_network("inception3", 0.45, 64);
  scenario.replicas = replicas;
  scenario.strategy = Strategy::kParameterServer;
  scenario.servers = servers;
  scenario.placement = rule;
  scenario.links = {.in_host = {}, .across_hosts = {.latency = 0, .bytes_per_second = 1.25e9}};
  return scenario;
}

Scenario with_sums(int replicas, const std::string& implementation = "AUTO") {
  Scenario scenario;
  scenario.network = built_in_network("resnet50", 0.3, 64);
  scenario.replicas = replicas;
  scenario.implementation = implementation;
  if (implementation == "ring") scenario.order = collective::Order::kAny;
  return scenario;
}

double sum_of_parts(const StepReport& report) {
  return report.compute_seconds + report.straggler_seconds + report.pull_seconds +
         report.push_seconds + report.overhead_seconds;
}

TEST(ScenarioTest, OneReplicaIsTheTable) {
  for (Scenario scenario : {with_sums(1), with_servers(1, 1, PlacementRule::kGreedy)}) {
    scenario.overhead = 0.1;  // of steps of several
    const StepReport report = simulate(scenario);
    EXPECT_NEAR(report.efficiency, 1, 1e-9);
    EXPECT_NEAR(report.step_seconds, scenario.network.step_seconds(), 1e-9);
    EXPECT_NEAR(report.images_per_second, 64 / scenario.network.step_seconds(), 1e-6);
  }
}

TEST(ScenarioTest, ServersIncastIsTheirBytesForEachWorker) {
  constexpr double kForward = 0.01;
  constexpr double kBackward = 0.02;
  constexpr int64_t kElements = 1 << 20;
  constexpr double kRate = 1e9;
  for (const int workers : {2, 7, 32}) {
    for (const bool on_workers : {true, false}) {
      for (const Detail detail : {Detail::kFull, Detail::kGrouped}) {
        Scenario scenario = with_servers(workers, 1, PlacementRule::kGreedy);
        scenario.network = one_layer(kForward, kBackward, kElements);
        scenario.links.across_hosts.bytes_per_second = kRate;
        scenario.servers_on_workers = on_workers;
        scenario.detail = detail;
        const StepReport report = simulate(scenario);
        // The only layer waits for its pull, and its push waits for backward.
        const double incast = 4.0 * kElements * (on_workers ? workers - 1 : workers) / kRate;
        EXPECT_NEAR(report.step_seconds, 2 * incast + kForward + kBackward, 1e-9);
        EXPECT_NEAR(report.pull_seconds, incast, 1e-9);
        EXPECT_NEAR(report.push_seconds, incast, 1e-9);
        EXPECT_NEAR(report.hot_server_seconds, incast, 1e-9);
        EXPECT_NEAR(report.bytes_between_hosts, 2 * incast * kRate, 1);
      }
    }
  }
}

TEST(ScenarioTest, ReplicatedVariablesArePulledBehindTheirPushes) {
  Scenario scenario = with_servers(4, 1, PlacementRule::kRoundRobin);
  scenario.network = one_layer(0.01, 0.02, 1 << 20);
  scenario.servers_on_workers = false;
  scenario.variable_update = VariableUpdate::kDistributedReplicated;
  const StepReport report = simulate(scenario);
  const double incast = 4.0 * (1 << 20) * 4 / 1.25e9;
  EXPECT_NEAR(report.step_seconds, 0.03 + 2 * incast, 1e-9);
}

TEST(ScenarioTest, SumsOfOneBucketTakeTheScheduleBehindBackward) {
  const int64_t elements = 64 * 8 * 1024;
  const double rate = 1e9;
  for (const int workers : {2, 4, 8}) {
    for (const bool overlap : {true, false}) {
      Scenario scenario = with_sums(workers, "direct");
      scenario.network = one_layer(0.01, 0.02, elements);
      scenario.overlap = overlap;
      scenario.links = {.in_host = {},
                        .across_hosts = {.latency = 50e-6, .bytes_per_second = rate}};
      const StepReport report = simulate(scenario);
      const double sum = 2 * 50e-6 + 2.0 * (workers - 1) / workers * 4 * elements / rate;
      EXPECT_NEAR(report.step_seconds, 0.03 + sum, 1e-9);
      EXPECT_NEAR(report.push_seconds, sum, 1e-9);
      EXPECT_NEAR(report.bytes_between_hosts, 2.0 * (workers - 1) * 4 * elements, 1);
    }
  }
}

TEST(ScenarioTest, BackwardHidesAllBucketsButTheLast) {
  Scenario scenario = with_sums(8);
  scenario.links.across_hosts.bytes_per_second = 10e9;
  const StepReport report = simulate(scenario);
  EXPECT_GT(report.buckets.size(), 10);
  const BucketTimes& last = report.buckets.back();
  EXPECT_NEAR(last.ready, scenario.network.step_seconds(), 1e-9);
  EXPECT_NEAR(report.push_seconds, last.end - last.ready, 1e-9);
  EXPECT_LT(report.push_seconds, 0.02 * report.step_seconds);
  scenario.overlap = false;
  EXPECT_GT(simulate(scenario).push_seconds, 3 * report.push_seconds);
}

TEST(ScenarioTest, PartsAddUpToTheStep) {
  Scenario scenario = with_sums(16);
  scenario.stragglers = 0.05;
  scenario.steps = 3;
  scenario.overhead = 0.02;
  scenario.overhead_per_doubling = 0.01;
  const StepReport sums = simulate(scenario);
  EXPECT_NEAR(sum_of_parts(sums), sums.step_seconds, 1e-9);
  EXPECT_GT(sums.straggler_seconds, 0);
  EXPECT_NEAR(sums.overhead_seconds, 0.06 * sums.compute_seconds, 1e-9);
  for (const VariableUpdate update :
       {VariableUpdate::kParameterServer, VariableUpdate::kDistributedReplicated}) {
    for (const Detail detail : {Detail::kFull, Detail::kGrouped}) {
      Scenario servers = with_servers(8, 3, PlacementRule::kGreedy);
      servers.variable_update = update;
      servers.stragglers = 0.05;
      servers.detail = detail;
      const StepReport report = simulate(servers);
      EXPECT_NEAR(sum_of_parts(report), report.step_seconds, 1e-9);
    }
  }
}

TEST(ScenarioTest, OverASwitchLinesAreNotFullAllTheTime) {
  Scenario scenario = with_servers(8, 8, PlacementRule::kSharded);
  scenario.network = built_in_network("resnet50", 1, 64);
  scenario.links.across_hosts = {.latency = 5e-6, .bytes_per_second = 60e6};
  const StepReport fair = simulate(scenario);
  scenario.switch_queue_seconds = 0.05;
  const StepReport report = simulate(scenario);
  EXPECT_GT(report.step_seconds, 1.01 * fair.step_seconds);
  EXPECT_LT(report.step_seconds, 1.15 * fair.step_seconds);
  EXPECT_NEAR(sum_of_parts(report), report.step_seconds, 1e-9);
  EXPECT_NEAR(report.bytes_between_hosts, fair.bytes_between_hosts, 1);
}

TEST(ScenarioTest, OverASwitchOneServersLineIsItsBytes) {
  for (const bool on_workers : {true, false}) {
    Scenario scenario = with_servers(4, 1, PlacementRule::kGreedy);
    scenario.network = one_layer(0.01, 0.02, 16 << 20);
    scenario.links.across_hosts = {.latency = 5e-6, .bytes_per_second = 100e6};
    scenario.servers_on_workers = on_workers;
    const double fair = simulate(scenario).step_seconds;
    scenario.switch_queue_seconds = 0.05;
    // Pulls do not end at the same time, and what is lost is sent again.
    EXPECT_NEAR(simulate(scenario).step_seconds, fair, 0.03 * fair);
  }
}

TEST(ScenarioTest, GroupedServersOnOwnHostsAreExact) {
  for (const int workers : {4, 16, 33}) {
    for (const int servers : {1, 4, 16}) {
      for (const PlacementRule rule :
           {PlacementRule::kGreedy, PlacementRule::kRoundRobin, PlacementRule::kSharded}) {
        for (const VariableUpdate update :
             {VariableUpdate::kParameterServer, VariableUpdate::kDistributedReplicated}) {
          Scenario scenario = with_servers(workers, servers, rule);
          scenario.servers_on_workers = false;
          scenario.variable_update = update;
          scenario.detail = Detail::kFull;
          const StepReport full = simulate(scenario);
          scenario.detail = Detail::kGrouped;
          const StepReport grouped = simulate(scenario);
          EXPECT_NEAR(grouped.step_seconds, full.step_seconds, 1e-6 * full.step_seconds)
              << workers << " workers, " << servers << " servers";
          EXPECT_NEAR(grouped.bytes_between_hosts, full.bytes_between_hosts, 1);
          EXPECT_LT(grouped.events, full.events);
        }
      }
    }
  }
}

TEST(ScenarioTest, GroupedServersOnWorkersAreNearlyExact) {
  for (const int workers : {4, 8, 16}) {
    for (const int servers : {1, workers / 2, workers, 2 * workers}) {
      Scenario scenario = with_servers(workers, servers, PlacementRule::kGreedy);
      scenario.detail = Detail::kFull;
      const double full = simulate(scenario).step_seconds;
      scenario.detail = Detail::kGrouped;
      EXPECT_NEAR(simulate(scenario).step_seconds, full, 0.05 * full)
          << workers << " workers, " << servers << " servers";
    }
  }
}

TEST(ScenarioTest, GroupedSumsAreExact) {
  for (const char* name : {"ring", "direct", "halving_doubling"}) {
    for (const int replicas : {2, 4, 16, 64}) {
      for (const int per_worker : {1, 2}) {
        Scenario scenario = with_sums(replicas, name);
        scenario.replicas_per_worker = per_worker;
        if (scenario.workers() < 2) continue;
        // Parts of the buckets are alike but for their alignment.
        scenario.network = one_layer(0.01, 0.02, 64 * 64 * 256);
        scenario.detail = Detail::kFull;
        const StepReport full = simulate(scenario);
        scenario.detail = Detail::kGrouped;
        const StepReport grouped = simulate(scenario);
        EXPECT_NEAR(grouped.step_seconds, full.step_seconds, 1e-9 * full.step_seconds)
            << name << ", " << replicas << " replicas";
        EXPECT_NEAR(grouped.bytes_between_hosts, full.bytes_between_hosts, 1);
      }
    }
  }
}

TEST(ScenarioTest, AGroupFollowsItsSlowestWorker) {
  Scenario scenario = with_sums(16, "direct");
  scenario.stragglers = 0.03;
  scenario.steps = 5;
  scenario.detail = Detail::kFull;
  const StepReport full = simulate(scenario);
  scenario.detail = Detail::kGrouped;
  const StepReport grouped = simulate(scenario);
  EXPECT_NEAR(grouped.straggler_seconds, full.straggler_seconds, 1e-9);
  EXPECT_NEAR(grouped.step_seconds, full.step_seconds, 0.1 * full.step_seconds);
}

TEST(ScenarioTest, EqualSeedsGiveEqualReports) {
  Scenario scenario = with_sums(8);
  scenario.stragglers = 0.1;
  scenario.steps = 4;
  const StepReport first = simulate(scenario);
  const StepReport second = simulate(scenario);
  EXPECT_EQ(first.step_seconds, second.step_seconds);
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(report_json(scenario, first), report_json(scenario, second));
  scenario.seed = 2;
  EXPECT_NE(simulate(scenario).step_seconds, first.step_seconds);
}

TEST(ScenarioTest, StragglersFollowTheirDistribution) {
  // The largest of n normal numbers is sigma sqrt(2 ln n) above the mean, nearly.
  Scenario scenario = with_servers(256, 1, PlacementRule::kGreedy);
  scenario.stragglers = 0.02;
  scenario.steps = 20;
  const double late = simulate(scenario).straggler_seconds / scenario.network.step_seconds();
  EXPECT_NEAR(late, 0.02 * std::sqrt(2 * std::log(256)), 0.2 * late);
}

TEST(ScenarioTest, FasterLinesAreNeverSlower) {
  std::vector<Scenario> scenarios = {with_sums(8), with_sums(8, "ring"), with_sums(128),
                                     with_servers(16, 4, PlacementRule::kGreedy),
                                     with_servers(16, 4, PlacementRule::kSharded)};
  for (Scenario& scenario : scenarios) {
    double last = 0;
    for (const double rate : {0.1e9, 0.3e9, 1e9, 3e9, 10e9}) {
      scenario.links.across_hosts.bytes_per_second = rate;
      const double efficiency = simulate(scenario).efficiency;
      EXPECT_GE(efficiency, last - 1e-3) << rate;
      EXPECT_LE(efficiency, 1 + 1e-9);
      last = efficiency;
    }
  }
}

TEST(ScenarioTest, TenThousandRanksTakeSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (Scenario scenario : {with_sums(10'000), with_sums(10'000, "ring"),
                            with_servers(10'000, 10'000, PlacementRule::kSharded),
                            with_servers(10'000, 64, PlacementRule::kGreedy)}) {
    const StepReport report = simulate(scenario);
    EXPECT_TRUE(report.grouped);
    EXPECT_GT(report.efficiency, 0);
    EXPECT_LT(report.efficiency, 1);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(240));
}

TEST(ScenarioTest, AdviceNamesTheServerAndWasSimulated) {
  Scenario scenario = with_servers(16, 4, PlacementRule::kGreedy);
  scenario.network = built_in_network("vgg16", 64.0 / 154, 64);
  const StepReport report = simulate(scenario);
  const std::vector<std::string> why = causes(scenario, report);
  ASSERT_FALSE(why.empty());
  EXPECT_NE(why[0].find("fc6/weights is 411 MB"), std::string::npos) << why[0];
  const std::vector<Advice> advice = advise(scenario, report);
  const auto sharded = std::ranges::find(advice, "--placement sharded", &Advice::change);
  ASSERT_NE(sharded, advice.end());
  scenario.placement = PlacementRule::kSharded;
  EXPECT_EQ(sharded->efficiency, simulate(scenario).efficiency);
  EXPECT_GT(sharded->efficiency, report.efficiency + 0.01);
}

TEST(ScenarioTest, WrongScenariosAreRefused) {
  Scenario scenario = with_sums(6);
  scenario.replicas_per_worker = 4;
  expect_error(
      [&] { simulate(scenario); },
      "[simulate] got 6 replicas, 4 a worker; expected a multiple, so that all workers are alike");
  scenario = with_sums(0);
  expect_error(
      [&] { simulate(scenario); },
      "[simulate] got 0 replicas, 1 a worker, 1 workers a host; expected 1 or more of each");
  scenario = with_servers(4, 0, PlacementRule::kGreedy);
  expect_error([&] { simulate(scenario); }, "[simulate] servers: got 0; expected 1 or more");
  scenario = with_sums(4);
  scenario.stragglers = -1;
  expect_error(
      [&] { simulate(scenario); },
      "[simulate] got stragglers -1, overhead 0, 0 a doubling; expected numbers that are not "
      "negative");
  scenario = with_servers(4, 4, PlacementRule::kGreedy);
  scenario.switch_queue_seconds = -1;
  expect_error([&] { simulate(scenario); },
               "[simulate] switch_queue_seconds: got -1; expected a time that is not negative; 0: "
               "no queue");
  scenario.switch_queue_seconds = 0.05;
  scenario.detail = Detail::kGrouped;
  expect_error_containing([&] { simulate(scenario); }, ErrorCode::kInvalidArgument,
                          "parameter servers without a switch's queue");
  scenario = with_servers(300, 4, PlacementRule::kGreedy);
  scenario.switch_queue_seconds = 0.05;
  expect_error(
      [&] { simulate(scenario); },
      "[simulate] switch_queue_seconds: got 300 workers and 4 servers; expected at most 256 of "
      "each, since each packet is simulated; 0 shares lines without packets");
  scenario = with_sums(4);
  scenario.steps = 0;
  expect_error([&] { simulate(scenario); }, "[simulate] steps: got 0; expected 1 or more");
  scenario = with_sums(4);
  scenario.network = {};
  expect_error([&] { simulate(scenario); },
               "[simulate] network: got one without layers; expected a built-in one or a file");
  scenario = with_sums(4, "frobnicate");
  expect_error_containing([&] { simulate(scenario); }, ErrorCode::kInvalidArgument,
                          "[planner] implementation: got 'frobnicate'; expected AUTO, or one of");
  scenario = with_sums(8, "hierarchical");
  scenario.detail = Detail::kGrouped;
  expect_error_containing([&] { simulate(scenario); }, ErrorCode::kInvalidArgument,
                          "[simulate] detail: got grouped for workers that are not alike");
  scenario = with_sums(2000, "tree");
  expect_error_containing([&] { simulate(scenario); }, ErrorCode::kInvalidArgument,
                          "[simulate] got 2000 workers that are not alike; expected at most 1024");
  scenario = with_sums(4);
  scenario.links.ranks_per_processor = 2;
  expect_error(
      [&] { simulate(scenario); },
      "[simulate] links: got 2 ranks a processor; expected 1: simulated ranks have a processor "
      "each");
}

}  // namespace
}  // namespace strata::simulate
