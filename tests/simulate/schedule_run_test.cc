// Real schedules on simulated links: against closed forms, the planner's prices, and one rank for
// all.
#include "simulate/schedule_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "simulate/lockstep.h"
#include "strata/collective/algorithms.h"

namespace strata::simulate {
namespace {

using collective::LinkModel;
using collective::Order;
using collective::Placement;
using collective::Schedule;

constexpr double kRate = 1.25e9;
constexpr double kLatency = 30e-6;

LinkModel lines_alone() {
  return {.in_host = {.latency = 5e-6, .bytes_per_second = 10e9},
          .across_hosts = {.latency = kLatency, .bytes_per_second = kRate}};
}

LinkModel with_processors() {
  LinkModel links = lines_alone();
  links.message_seconds = 3e-6;
  links.reduce_bytes_per_second = 8e9;
  return links;
}

Schedule schedule_of(const std::string& name, const Placement& placement) {
  const collective::Algorithms standard = collective::Algorithms::standard();
  return standard.find(collective::Collective::kAllReduce, name)
      ->make({.placement = placement, .order = name == "ring" ? Order::kAny : Order::kFixed});
}

struct Ran {
  double seconds;
  double between_hosts;
  double in_hosts;
};

Ran run(const Schedule& schedule, const Placement& placement, const LinkModel& links,
        int64_t elements) {
  EventQueue events;
  Fabric fabric(events, placement, links);
  ScheduleRun run(fabric, std::make_shared<const Schedule>(schedule), {.elements = elements},
                  [](int) {});
  for (int rank = 0; rank < placement.num_ranks(); ++rank) run.begin(rank);
  events.run();
  EXPECT_EQ(run.finished_ranks(), placement.num_ranks());
  return {run.finished_at(), fabric.bytes_between_hosts(), fabric.bytes_in_hosts()};
}

Placement ranks(int n, int replicas = 1, int per_host = 1) {
  return Placement::blocks(std::vector<int>(static_cast<size_t>(n), replicas), per_host);
}

TEST(ScheduleRunTest, SchedulesTakeWhatTheirFormulasSay) {
  for (const int n : {2, 4, 8, 16, 32}) {
    for (const double megabytes : {0.1, 6.0}) {
      // Parts are whole multiples of the alignment, for all n.
      const auto elements = static_cast<int64_t>(megabytes * 1e6 / 4) / (64 * n) * (64 * n);
      const double line = 4.0 * static_cast<double>(elements) / kRate;
      const double share = 2.0 * (n - 1) / n * line;
      const double levels = std::log2(n);
      const auto seconds = [&](const char* name) {
        return run(schedule_of(name, ranks(n)), ranks(n), lines_alone(), elements).seconds;
      };
      EXPECT_NEAR(seconds("ring"), 2 * (n - 1) * kLatency + share, 1e-9);
      EXPECT_NEAR(seconds("halving_doubling"), 2 * levels * kLatency + share, 1e-9);
      EXPECT_NEAR(seconds("recursive_doubling"), levels * (kLatency + line), 1e-9);
      EXPECT_NEAR(seconds("direct"), 2 * kLatency + share, 1e-9);
      EXPECT_NEAR(seconds("exchange"), kLatency + (n - 1) * line, 1e-9);
    }
  }
}

TEST(ScheduleRunTest, HierarchicalTakesTheHostsLinesOnce) {
  constexpr int kHosts = 4;
  constexpr int kPerHost = 8;
  const int64_t elements = 64 * 1024 * 32;
  const double bytes = 4.0 * static_cast<double>(elements);
  const double closed =
      2.0 * (kPerHost - 1) / kPerHost * bytes / 10e9 + 2.0 * (kHosts - 1) / kHosts * bytes / kRate;
  const Placement placement = ranks(kHosts * kPerHost, 1, kPerHost);
  const Ran ran = run(schedule_of("hierarchical", placement), placement, lines_alone(), elements);
  EXPECT_GE(ran.seconds, closed);
  EXPECT_LE(ran.seconds, 1.08 * closed);  // latencies, and a first and last part alone
  // Each host's line carries 2(m-1)/m buffers.
  EXPECT_NEAR(ran.between_hosts, kHosts * 2.0 * (kHosts - 1) / kHosts * bytes, 1);
}

TEST(ScheduleRunTest, MovesTheBytesOfTheSchedule) {
  for (const char* name : {"ring", "direct", "halving_doubling", "recursive_doubling", "tree"}) {
    for (const int n : {2, 3, 7, 12}) {
      const Placement placement = ranks(n, 1, 3);
      const Schedule schedule = schedule_of(name, placement);
      const int64_t elements = int64_t{64} * 5 * 7 * 9 * 12 * 16;
      const Ran ran = run(schedule, placement, with_processors(), elements);
      EXPECT_NEAR(ran.between_hosts + ran.in_hosts,
                  traffic(schedule).total * 4.0 * static_cast<double>(elements), 1)
          << name << ", " << n << " ranks";
    }
  }
}

TEST(ScheduleRunTest, AgreesWithThePlannersPrices) {
  for (const char* name : {"ring", "direct", "halving_doubling", "recursive_doubling", "tree"}) {
    for (const int n : {2, 4, 8, 16}) {
      for (const int64_t elements : {4096, 1'048'576}) {
        const Schedule schedule = schedule_of(name, ranks(n));
        const double price =
            collective::price(schedule, ranks(n), with_processors(), {.elements = elements});
        const double seconds = run(schedule, ranks(n), with_processors(), elements).seconds;
        // A rank's short messages share its line here, and are one after the other there.
        const double tolerance = std::string(name) == "tree" ? 0.15 : 0.05;
        EXPECT_NEAR(seconds, price, tolerance * price)
            << name << ", " << n << " ranks, " << elements;
      }
    }
  }
}

TEST(ScheduleRunTest, ARankThatIsLateDelaysAllOfItsSum) {
  EventQueue events;
  Fabric fabric(events, ranks(4), lines_alone());
  const auto schedule = std::make_shared<const Schedule>(schedule_of("ring", ranks(4)));
  ScheduleRun run(fabric, schedule, {.elements = 4 * 64 * 100}, [](int) {});
  for (int rank = 0; rank < 3; ++rank) run.begin(rank);
  events.at(1, [&] { run.begin(3); });
  events.run();
  EXPECT_EQ(run.finished_ranks(), 4);
  EXPECT_GT(run.finished_at(), 1);
}

TEST(LockstepTest, OneRanksStepsAreThoseOfTheSchedule) {
  for (const char* name : {"ring", "direct", "halving_doubling", "recursive_doubling"}) {
    for (const int n : {2, 3, 4, 5, 8, 16, 33, 64}) {
      for (const int replicas : {1, 2, 8}) {
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(n) + " ranks of " +
                     std::to_string(replicas));
        const auto one = steps_of_one_rank(name, n, replicas);
        if (!one) {
          EXPECT_TRUE((n & (n - 1)) != 0 ||
                      (std::string(name) == "recursive_doubling" && replicas > 1));
          continue;
        }
        const Schedule all = schedule_of(name, ranks(n, replicas));
        ASSERT_EQ(one->borders, all.borders);
        ASSERT_EQ(one->ranks[0].size(), all.ranks[0].size()) << to_string(*one) << to_string(all);
        for (size_t i = 0; i < one->ranks[0].size(); ++i) {
          const collective::Step& a = one->ranks[0][i];
          const collective::Step& b = all.ranks[0][i];
          EXPECT_EQ(a.kind, b.kind) << i;
          EXPECT_EQ(a.peer, b.peer) << i;
          EXPECT_EQ(a.chunk, b.chunk) << i;
          EXPECT_EQ(a.chunks, b.chunks) << i;
          EXPECT_EQ(a.stage, b.stage) << i;
        }
      }
    }
  }
}

TEST(LockstepTest, OneRankTakesAsLongAsAll) {
  for (const char* name : {"ring", "direct", "halving_doubling", "recursive_doubling"}) {
    for (const int n : {2, 4, 5, 8, 32, 64}) {
      for (const int replicas : {1, 4}) {
        const auto one = steps_of_one_rank(name, n, replicas);
        if (!one) continue;
        for (const int64_t elements : {64 * 5 * 64, 64 * 5 * 64 * 50}) {
          const Placement placement = ranks(n, replicas);
          const double all =
              run(schedule_of(name, placement), placement, with_processors(), elements).seconds;
          EventQueue events;
          Fabric fabric = Fabric::of_one_rank(events, n, 1, with_processors());
          ScheduleRun alone(fabric, std::make_shared<const Schedule>(*one), {.elements = elements},
                            [](int) {});
          alone.begin(0);
          events.run();
          EXPECT_EQ(alone.finished_ranks(), 1);
          EXPECT_NEAR(alone.finished_at(), all, 1e-9 * all)
              << name << ", " << n << " ranks of " << replicas << ", " << elements;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::simulate
