#include "collective/planner/planner.h"
#include "collective/placements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/expect_error.h"

namespace strata::collective {
namespace {

LinkModel links_of(double bytes_per_second, double latency) {
  return {.in_host = {.latency = 10e-6, .bytes_per_second = 3e9},
          .across_hosts = {.latency = latency, .bytes_per_second = bytes_per_second},
          .message_seconds = 4e-6,
          .reduce_bytes_per_second = 8e9};
}

/// The least price of all algorithms with all numbers of segments, without the planner's short
/// cuts.
double least_price(const Planner& planner, int64_t elements) {
  const Request request{.placement = planner.placement(), .order = planner.options().order};
  const Algorithms algorithms = Algorithms::standard();
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm* algorithm : algorithms.offered(request)) {
    const Schedule whole = algorithm->make(request);
    for (const int segments : {1, 2, 3, 4, 6, 8, 16, 32, 64}) {
      least = std::min(least, price(segmented(whole, segments), planner.placement(),
                                    planner.links(), {.elements = elements}));
    }
  }
  return least;
}

double price_of_choice(const Planner& planner, int64_t elements) {
  const Choice choice = planner.choose({.elements = elements});
  return price(*choice.schedule, planner.placement(), planner.links(), {.elements = elements});
}

TEST(PlannerTest, LargeBuffersFillShapedLinks) {
  constexpr int64_t kBytes = 25'000'000;
  for (const double rate : {125e6, 12.5e6}) {
    for (const int n : {4, 8}) {
      for (const Order order : {Order::kFixed, Order::kAny}) {
        const Planner planner(one_each(n), links_of(rate, 100e-6), {.order = order});
        const double lines = 2.0 * (n - 1) / n * kBytes / rate;
        const double seconds = price_of_choice(planner, kBytes / 4);
        EXPECT_LE(seconds, (lines + 2 * 100e-6) / 0.97) << n << " ranks, " << rate << " bytes/s\n"
                                                        << planner.describe(Collective::kAllReduce);
        EXPECT_GE(seconds, lines + 100e-6) << "cannot be";
      }
    }
  }
}

TEST(PlannerTest, SmallBuffersAreTwiceAsFastAsOnTheRing) {
  for (const double rate : {125e6, 12.5e6}) {
    const Planner planner(one_each(8), links_of(rate, 100e-6));
    const Planner ring(one_each(8), links_of(rate, 100e-6),
                       {.order = Order::kAny, .implementation = "RING"});
    EXPECT_EQ(ring.choose({.elements = 256}).algorithm, "ring");
    EXPECT_GE(price_of_choice(ring, 256), 2 * price_of_choice(planner, 256));
  }
}

TEST(PlannerTest, AutoIsTheBestOrNearlySoAtEverySize) {
  for (const double latency : {5e-3, 100e-6, 10e-6}) {
    for (const Placement& placement :
         {one_each(2), one_each(4), one_each(5), one_each(8), one_each(8, 4),
          Placement::blocks({3, 3, 2}), Placement::blocks({2, 2, 2, 2}, 2)}) {
      for (const Order order : {Order::kFixed, Order::kAny}) {
        const Planner planner(placement, links_of(125e6, latency), {.order = order});
        for (double elements = 1; elements < (1 << 26); elements *= 2.7) {
          const auto count = static_cast<int64_t>(elements);
          ASSERT_LE(price_of_choice(planner, count), least_price(planner, count) / 0.9)
              << count << " elements, " << latency << " s, " << placement.num_ranks() << " ranks\n"
              << planner.describe(Collective::kAllReduce);
        }
      }
    }
  }
}

TEST(PlannerTest, OnLinksOfFiveMillisecondsRoundsAreWhatCounts) {
  const Planner planner(one_each(8), links_of(125e6, 5e-3));
  EXPECT_EQ(planner.choose({.elements = 256}).algorithm, "exchange");    // one round
  EXPECT_EQ(planner.choose({.elements = 8 << 20}).algorithm, "direct");  // two
  for (int64_t elements = 16; elements < (1 << 25); elements *= 2) {
    const Choice chosen = planner.choose({.elements = elements});
    const Choice best = planner.choose_exhaustively({.elements = elements});
    const double seconds = price_of_choice(planner, elements);
    EXPECT_LE(seconds, best.seconds * 1.03) << chosen.algorithm << ", best " << best.algorithm;
  }
}

/// The longest message between hosts, in bytes.
int64_t longest_message(const Planner& planner, int64_t elements) {
  const Choice choice = planner.choose({.elements = elements});
  const Schedule& schedule = *choice.schedule;
  int64_t longest = 0;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Step& step : schedule.ranks[rank]) {
      if (step.kind != Step::Kind::kSend) continue;
      const std::vector<int>& hosts = planner.placement().host_of_rank;
      if (hosts[rank] == hosts[static_cast<size_t>(step.peer)]) continue;
      longest = std::max(longest, 4 * schedule.range(elements, step.chunk, step.chunks).size());
    }
  }
  return longest;
}

TEST(PlannerTest, LongMessagesAreCutBetweenSeveralHosts) {
  constexpr int64_t kLarge = 25'000'000 / 4;
  const LinkModel near = links_of(125e6, 100e-6);
  for (const int64_t elements : {int64_t{100'000}, int64_t{1'000'000}, kLarge}) {
    EXPECT_LE(longest_message(Planner(one_each(4), near), elements), 128 << 10) << elements;
    EXPECT_LE(longest_message(Planner(one_each(8), near), elements), 128 << 10) << elements;
  }
  // Of two hosts each has a line of its own to the other; and cuts would cost on long lines.
  EXPECT_GT(longest_message(Planner(one_each(2), near), kLarge), 128 << 10);
  EXPECT_GT(longest_message(Planner(one_each(8), links_of(125e6, 5e-3)), kLarge), 128 << 10);
}

TEST(PlannerTest, RanksThatShareProcessorsSendFewMessages) {
  LinkModel links = links_of(1e9, 40e-6);
  const auto messages = [&](double ranks_per_processor) {
    links.ranks_per_processor = ranks_per_processor;
    const Choice choice = Planner(one_each(8), links).choose({.elements = 256});
    return traffic(*choice.schedule).messages;
  };
  EXPECT_GE(messages(1), 7) << "each to all others";
  EXPECT_EQ(messages(4), 3);
}

TEST(PlannerTest, OtherCollectivesAreChosenToo) {
  const Planner planner(one_each(8), links_of(125e6, 100e-6));
  EXPECT_EQ(planner.choose({.collective = Collective::kBroadcast, .elements = 8}).algorithm,
            "direct");
  constexpr int64_t kLarge = 8 << 20;
  const Choice large = planner.choose({.collective = Collective::kBroadcast, .elements = kLarge});
  EXPECT_LE(price(*large.schedule, planner.placement(), planner.links(), {.elements = kLarge}),
            1.12 * kLarge * 4 / 125e6)
      << large.schedule->name;
  for (const Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather, Collective::kBarrier}) {
    const Choice choice = planner.choose({.collective = collective, .elements = 8 << 10});
    const Request request{.collective = collective, .placement = planner.placement()};
    EXPECT_EQ(find_fault(*choice.schedule, request), "");
    EXPECT_GT(choice.seconds, 0);
  }
}

TEST(PlannerTest, ChoicesAreCorrectSchedules) {
  const Planner planner(Placement::blocks({3, 3, 2}), links_of(125e6, 100e-6));
  for (int64_t elements = 1; elements < (1 << 24); elements *= 16) {
    const Choice choice = planner.choose({.elements = elements});
    EXPECT_EQ(find_fault(*choice.schedule, {.placement = planner.placement()}), "");
    EXPECT_EQ(choice.schedule->name, choice.segments == 1
                                         ? choice.algorithm
                                         : str_cat(choice.algorithm, "/", choice.segments));
  }
}

TEST(PlannerTest, DescribesItsChoice) {
  const Planner planner(one_each(4), {.across_hosts = {.latency = 1e-3, .bytes_per_second = 1e6}});
  EXPECT_EQ(planner.describe(Collective::kBarrier),
            "barrier of 4 replicas on 4 ranks on 4 hosts, fixed order\n"
            "  above           : direct\n");
  const std::string text = planner.describe(Collective::kAllReduce);
  EXPECT_TRUE(text.starts_with("all_reduce of 4 replicas on 4 ranks on 4 hosts, fixed order\n"))
      << text;
  EXPECT_NE(text.find(": exchange"), std::string::npos) << text;
  EXPECT_NE(text.find("  above           : direct"), std::string::npos) << text;
}

TEST(PlannerTest, ImplementationIsObeyedOrRefused) {
  const LinkModel links = links_of(125e6, 100e-6);
  const Planner named(one_each(4), links, {.implementation = "Halving_Doubling"});
  for (const int64_t elements : {1, 1 << 10, 1 << 24}) {
    EXPECT_EQ(named.choose({.elements = elements}).algorithm, "halving_doubling");
  }
  // Where there is no such broadcast it is planned.
  EXPECT_EQ(named.choose({.collective = Collective::kBroadcast, .elements = 8}).algorithm,
            "direct");

  const auto planner = [&](const CommunicationOptions& options) {
    Planner(one_each(4), links, options);
  };
  expect_error(
      [&] { planner({.implementation = "RING"}); },
      "[planner] implementation: RING adds in another order than the fixed tree; set order "
      "= Order::kAny, which gives up equal bits on every placement, or use AUTO");
  expect_error(
      [&] { planner({.implementation = "hierarchical"}); },
      "[planner] implementation: hierarchical does not fit 4 replicas on 4 ranks; use AUTO");
  expect_error([&] { planner({.implementation = "bogus"}); },
               "[planner] implementation: got 'bogus'; expected AUTO, or one of chain, direct, "
               "dissemination, exchange, halving_doubling, hierarchical, recursive_doubling, ring, "
               "scatter, tree (in any case)");
}

/// One's own: everything goes to rank 0 and back.
Schedule star(const Request& request) {
  const int n = request.placement.num_ranks();
  Schedule schedule{.name = "star", .borders = {0, 1}, .sources = {}, .ranks = {}, .slots = {}};
  using enum Step::Kind;
  for (int rank = 0; rank < n; ++rank) {
    std::vector<Step> steps;
    std::vector<Schedule::Slot> slots = {Schedule::Slot::kResult, Schedule::Slot::kValue};
    if (rank == 0) {
      schedule.sources = {1};
      for (int peer = 1; peer < n; ++peer) {
        steps.push_back({.kind = kReceive, .peer = peer, .target = peer + 1, .stage = 1});
        slots.push_back(Schedule::Slot::kWhole);
        schedule.sources.push_back(peer + 1);
      }
      steps.push_back({.kind = kReduce, .target = 0, .first = 0, .last = n, .stage = 1});
      for (int peer = 1; peer < n; ++peer) {
        steps.push_back({.kind = kSend, .peer = peer, .target = 0, .stage = 1});
      }
    } else {
      steps.push_back({.kind = kSend, .peer = 0, .target = 1, .stage = 0});
      steps.push_back({.kind = kReceive, .peer = 0, .target = 0, .stage = 2});
    }
    schedule.ranks.push_back(std::move(steps));
    schedule.slots.push_back(std::move(slots));
  }
  return schedule;
}

TEST(PlannerTest, AlgorithmsOfOnesOwnAreProvedAndPriced) {
  Algorithms algorithms = Algorithms::standard();
  algorithms.add({.name = "star", .make = star});
  const LinkModel links = links_of(125e6, 100e-6);
  const Planner local(one_each(5), links, {.implementation = "star"}, algorithms);
  EXPECT_EQ(local.choose({.elements = 100}).algorithm, "star");

  algorithms.add(
      {.name = "wrong", .make = [](const Request& request) {
         Schedule schedule = star(request);
         schedule.name = "wrong";
         schedule.ranks[0][static_cast<size_t>(request.placement.num_ranks()) - 1].last -= 1;
         return schedule;
       }});
  const Planner wrong(one_each(5), links, {.implementation = "wrong"}, algorithms);
  expect_error_containing(
      [&] { static_cast<void>(wrong.choose({.elements = 100})); }, ErrorCode::kInternal,
      "[planner] algorithm 'wrong' for all_reduce of 5 ranks: wrong: rank 0 ends "
      "with a wrong value in chunk 0");
  expect_error([&] { algorithms.add({.name = "Star", .make = star}); }, ErrorCode::kAlreadyExists,
               "[algorithms] add: there is a Star for all_reduce already; choose another name");
  expect_error(
      [&] { algorithms.add({.name = "nothing"}); },
      "[algorithms] add: got 'nothing'; expected a name and a function that makes schedules");
}

TEST(PlannerTest, PlacementsAndLinksAreChecked) {
  expect_error([] { Planner(Placement{}); }, "[placement] got no rank; expected at least one");
  expect_error(
      [] {
        Planner(Placement::blocks({0, 0}));
      },
      "[placement] got no replica; expected at least one");
  expect_error(
      [] {
        Planner(Placement{.rank_of_replica = {2}, .host_of_rank = {0, 0}});
      },
      "[placement] replica 0 is on rank 2; expected 0 to 1");
  expect_error([] { Placement::blocks({1}, 0); },
               "[placement] blocks: got 0 ranks a host; expected at least 1");
  expect_error(
      [] {
        Planner(Placement::blocks({1, 1}), {.pairs = {{}, {}}});
      },
      "[planner] got 2 links between pairs; expected 4, one for each two of 2 ranks");
}

TEST(PacksTest, AreTensorFlows) {
  using Packs = std::vector<std::vector<size_t>>;
  EXPECT_EQ(packs_of({4, 4, 4, 4, 4}, 8), (Packs{{4, 3, 2}, {1, 0}}));  // 12 and 8 bytes
  EXPECT_EQ(packs_of({4, 4, 4}, 0), (Packs{{2, 1, 0}}));
  EXPECT_EQ(packs_of({}, 8), Packs{});
  EXPECT_EQ(packs_of({1, 100, 1}, 8), (Packs{{2, 1}, {0}}));
  expect_error(
      [] { packs_of({1}, -1); },
      "[communication_options] bytes_per_pack: got -1; expected 0 (all in one pack) or more");
  expect_error([] { packs_of({-3}, 1); },
               "[communication_options] packs_of: got -3 bytes for tensor 0; expected 0 or more");
}

}  // namespace
}  // namespace strata::collective
