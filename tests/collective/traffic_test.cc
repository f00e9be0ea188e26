// Steps and bytes of schedules: the formulas, and the tables of docs/algorithms.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "collective/placements.h"
#include "strata/collective/algorithms.h"
#include "support/source_path.h"

namespace strata::collective {
namespace {

using enum Collective;

Traffic traffic_of(Collective collective, const std::string& name, const Placement& placement) {
  const Request request{.collective = collective, .placement = placement, .order = Order::kAny};
  const Algorithms algorithms = Algorithms::standard();
  const Algorithm* const algorithm = algorithms.find(collective, name);
  const bool fits = algorithm && (!algorithm->fits || algorithm->fits(request));
  return fits ? traffic(algorithm->make(request)) : Traffic{};
}

int log2_up(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

TEST(TrafficTest, AllReduceSendsNoMoreThanTheFormulas) {
  for (int n = 2; n <= 33; ++n) {
    const double least = 2.0 * (n - 1) / n;
    const Traffic direct = traffic_of(kAllReduce, "direct", one_each(n));
    EXPECT_NEAR(direct.sent, least, 1e-9);
    EXPECT_NEAR(direct.received, least, 1e-9);
    EXPECT_EQ(direct.stages, 2);
    EXPECT_EQ(direct.messages, 2 * (n - 1));

    const Traffic ring = traffic_of(kAllReduce, "ring", one_each(n));
    EXPECT_NEAR(ring.sent, least, 1e-9);
    EXPECT_NEAR(ring.received, least, 1e-9);
    EXPECT_EQ(ring.stages, 2 * (n - 1));
    EXPECT_EQ(ring.messages, 2 * (n - 1));

    const Traffic halving = traffic_of(kAllReduce, "halving_doubling", one_each(n));
    EXPECT_NEAR(halving.total, least * n, 1e-9);
    EXPECT_EQ(halving.stages, 2 * log2_up(n));
    if (std::has_single_bit(static_cast<unsigned>(n))) {
      EXPECT_NEAR(halving.sent, least, 1e-9);
      EXPECT_NEAR(halving.received, least, 1e-9);
      EXPECT_EQ(halving.messages, 2 * log2_up(n));
    } else {
      EXPECT_LE(halving.sent, least * 1.125 + 1e-9) << n;
    }

    const Traffic exchange = traffic_of(kAllReduce, "exchange", one_each(n));
    EXPECT_EQ(exchange.stages, 1);
    EXPECT_NEAR(exchange.sent, n - 1, 1e-9);
    const Traffic doubling = traffic_of(kAllReduce, "recursive_doubling", one_each(n));
    EXPECT_EQ(doubling.stages, log2_up(n));
    EXPECT_NEAR(doubling.received, log2_up(n), 1e-9);
    const Traffic tree = traffic_of(kAllReduce, "tree", one_each(n));
    EXPECT_NEAR(tree.total, 2 * (n - 1), 1e-9);
    EXPECT_LE(tree.stages, 2 * log2_up(n));
  }
}

// Ranks whose replicas are one subtree of the tree send their sum only.
TEST(TrafficTest, SeveralReplicasARankCostNothing) {
  for (const int replicas : {2, 4, 8}) {
    const Placement placement = Placement::blocks(std::vector<int>(4, replicas));
    for (const char* const name : {"direct", "halving_doubling"}) {
      EXPECT_NEAR(traffic_of(kAllReduce, name, placement).sent, 1.5, 1e-9) << name;
    }
  }
  // (3, 3, 2): two subtrees on two of the ranks. A ring's 4/3 are out of reach in fixed order.
  const Request request{.placement = Placement::blocks({3, 3, 2})};
  const Traffic direct = traffic(Algorithms::standard().find(kAllReduce, "direct")->make(request));
  EXPECT_NEAR(direct.sent, 2, 1e-9);
  EXPECT_NEAR(direct.received, 2, 1e-9);
}

/// What a host's busiest line carries, in buffers.
double sent_by_a_host(const Schedule& schedule, const Placement& placement) {
  std::vector<double> sent(static_cast<size_t>(placement.num_ranks()));
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Step& step : schedule.ranks[rank]) {
      const int host = placement.host_of_rank[rank];
      if (step.kind != Step::Kind::kSend ||
          placement.host_of_rank[static_cast<size_t>(step.peer)] == host) {
        continue;
      }
      const auto chunk = static_cast<size_t>(step.chunk);
      sent[static_cast<size_t>(host)] +=
          static_cast<double>(schedule.borders[chunk + static_cast<size_t>(step.chunks)] -
                              schedule.borders[chunk]) /
          static_cast<double>(schedule.borders.back());
    }
  }
  return *std::max_element(sent.begin(), sent.end());
}

TEST(TrafficTest, BetweenHostsHierarchicalSendsWhatOneRankAHostWould) {
  for (const int hosts : {2, 4, 8}) {
    const Placement placement = one_each(4 * hosts, 4);
    const Algorithms algorithms = Algorithms::standard();
    const auto sent = [&](const char* name) {
      return sent_by_a_host(algorithms.find(kAllReduce, name)->make({.placement = placement}),
                            placement);
    };
    const double least = 2.0 * (hosts - 1) / hosts;
    EXPECT_NEAR(sent("hierarchical"), least, 1e-9);
    EXPECT_NEAR(sent("halving_doubling"), least, 1e-9);
    EXPECT_NEAR(sent("direct"), 4 * least, 1e-9);
  }
}

TEST(TrafficTest, OtherCollectives) {
  for (int n = 2; n <= 33; ++n) {
    const double least = static_cast<double>(n - 1) / n;
    for (const Collective collective : {kReduceScatter, kAllGather}) {
      EXPECT_NEAR(traffic_of(collective, "direct", one_each(n)).sent, least, 1e-9);
      EXPECT_NEAR(traffic_of(collective, "direct", one_each(n)).received, least, 1e-9);
      EXPECT_NEAR(traffic_of(collective, "halving_doubling", one_each(n)).total, least * n, 1e-9);
      EXPECT_EQ(traffic_of(collective, "halving_doubling", one_each(n)).stages, log2_up(n));
    }
    EXPECT_EQ(traffic_of(kAllGather, "ring", one_each(n)).stages, n - 1);
    for (const char* const name : {"tree", "chain", "direct"}) {
      EXPECT_NEAR(traffic_of(kBroadcast, name, one_each(n)).received, 1, 1e-9);
      EXPECT_NEAR(traffic_of(kBroadcast, name, one_each(n)).total, n - 1, 1e-9);
    }
    EXPECT_LE(traffic_of(kBroadcast, "tree", one_each(n)).stages, log2_up(n));
    EXPECT_EQ(traffic_of(kBarrier, "dissemination", one_each(n)).stages, log2_up(n));
    EXPECT_EQ(traffic_of(kBarrier, "direct", one_each(n)).stages, 1);
  }
}

// The proof must find what is wrong, or it proves nothing.
TEST(ProofTest, FindsBrokenSchedules) {
  const Request request{.placement = one_each(4)};
  const Algorithms algorithms = Algorithms::standard();
  const auto broken = [&](const auto& change) {
    Schedule schedule = algorithms.find(kAllReduce, "direct")->make(request);
    change(schedule);
    return find_fault(schedule, request);
  };
  using Kind = Step::Kind;
  const auto first = [](Schedule& s, int rank, Kind kind) {
    auto& steps = s.ranks[static_cast<size_t>(rank)];
    return std::find_if(steps.begin(), steps.end(),
                        [&](const Step& step) { return step.kind == kind; });
  };
  EXPECT_EQ(broken([](Schedule&) {}), "");
  EXPECT_EQ(broken([&](Schedule& s) { s.ranks[1].erase(first(s, 1, Kind::kSend)); }),
            "direct: rank 2, step 3: receives another part than rank 1 sends");
  EXPECT_EQ(broken([](Schedule& s) {
              auto& steps = s.ranks[1];  // its last send
              std::erase_if(steps, [left = 6](const Step& step) mutable {
                return step.kind == Kind::kSend && --left == 0;
              });
            }),
            "direct: rank 0 waits for ever in step 12 for rank 1");
  EXPECT_EQ(broken([&](Schedule& s) { s.ranks[1].erase(first(s, 1, Kind::kReceive)); }),
            "direct: rank 1, step 5: adds a value that is not complete");
  EXPECT_EQ(broken([&](Schedule& s) { --first(s, 2, Kind::kReduce)->last; }),
            "direct: rank 0 ends with a wrong value in chunk 2");
  EXPECT_EQ(broken([&](Schedule& s) { std::swap(s.sources[0], s.sources[1]); }),
            "direct: rank 0 ends with a wrong value in chunk 0");
  EXPECT_EQ(broken([&](Schedule& s) { first(s, 3, Kind::kReduce)->target = 1; }),
            "direct: rank 3, step 6: writes a replica's value");
  EXPECT_EQ(broken([&](Schedule& s) { first(s, 3, Kind::kReceive)->chunk = 0; }),
            "direct: rank 3, step 3: receives another part than rank 2 sends");
  EXPECT_EQ(broken([&](Schedule& s) { first(s, 3, Kind::kSend)->peer = 3; }),
            "direct: rank 3, step 0: no such peer");
  EXPECT_EQ(broken([&](Schedule& s) { first(s, 3, Kind::kReduce)->target = 99; }),
            "direct: rank 3, step 6: no such slot");
  EXPECT_EQ(broken([&](Schedule& s) {
              s.slots[3][static_cast<size_t>(first(s, 3, Kind::kReceive)->target)] =
                  Schedule::Slot::kPartial;
            }),
            "direct: rank 3, step 3: receives another dtype than rank 2 sends");
}

// Receives are posted at the start, so a message must not be sent before its place is free.
TEST(ProofTest, FindsMessagesThatComeTooSoon) {
  using Kind = Step::Kind;
  using Slot = Schedule::Slot;
  const Request request{.placement = one_each(2)};
  const auto schedule = [](int received_in) {
    return Schedule{
        .name = "hasty",
        .borders = {0, 1},
        .sources = {1, received_in},
        .ranks = {{{.kind = Kind::kReceive, .peer = 1, .target = received_in},
                   {.kind = Kind::kReduce, .target = 0, .first = 0, .last = 2},
                   {.kind = Kind::kSend, .peer = 1, .target = 0}},
                  {{.kind = Kind::kSend, .peer = 0, .target = 1},
                   {.kind = Kind::kReceive, .peer = 0, .target = 0}}},
        .slots = {{Slot::kResult, Slot::kValue, Slot::kWhole}, {Slot::kResult, Slot::kValue}}};
  };
  EXPECT_EQ(find_fault(schedule(2), request), "");
  // Into the result, which may be the memory of the value that is to be added.
  EXPECT_EQ(find_fault(schedule(0), request),
            "hasty (in place): rank 0 ends with a wrong value in chunk 0");
  // A second message into scratch that the first one's sum still reads.
  Schedule twice = schedule(2);
  twice.ranks[1].insert(twice.ranks[1].begin(), twice.ranks[1][0]);
  twice.ranks[0].push_back(twice.ranks[0][0]);
  EXPECT_EQ(find_fault(twice, request),
            "hasty: rank 0, step 3: a message from rank 1 can arrive in what is in use");
  // Once rank 1 has the result, the first one has been read.
  std::swap(twice.ranks[1][1], twice.ranks[1][2]);
  EXPECT_EQ(find_fault(twice, request), "");
  // The result comes while rank 1 still sends its value to another from the same memory.
  const Request three{.placement = one_each(3)};
  const Schedule still{.name = "still",
                       .borders = {0, 1},
                       .sources = {1, 2, 3},
                       .ranks = {{{.kind = Kind::kReceive, .peer = 1, .target = 2},
                                  {.kind = Kind::kReceive, .peer = 2, .target = 3},
                                  {.kind = Kind::kReduce, .target = 0, .first = 0, .last = 3},
                                  {.kind = Kind::kSend, .peer = 1, .target = 0},
                                  {.kind = Kind::kSend, .peer = 2, .target = 0}},
                                 {{.kind = Kind::kSend, .peer = 2, .target = 1},
                                  {.kind = Kind::kSend, .peer = 0, .target = 1},
                                  {.kind = Kind::kReceive, .peer = 0, .target = 0}},
                                 {{.kind = Kind::kSend, .peer = 0, .target = 1},
                                  {.kind = Kind::kReceive, .peer = 1, .target = 2},
                                  {.kind = Kind::kReceive, .peer = 0, .target = 0}}},
                       .slots = {{Slot::kResult, Slot::kValue, Slot::kWhole, Slot::kWhole},
                                 {Slot::kResult, Slot::kValue},
                                 {Slot::kResult, Slot::kValue, Slot::kWhole}}};
  EXPECT_EQ(find_fault(still, three),
            "still (in place): rank 1, step 2: a message from rank 0 can arrive in what is still "
            "being sent to rank 2");
  // Rank 0's first message waits for rank 1, which waits for rank 2, which waits for the second.
  const Request from_zero{.collective = Collective::kBroadcast, .placement = one_each(3)};
  Schedule circle{
      .name = "circle",
      .borders = {0, 1},
      .sources = {},
      .ranks = {{{.kind = Kind::kSend, .peer = 1}, {.kind = Kind::kSend, .peer = 2}},
                {{.kind = Kind::kReceive, .peer = 2, .target = 1},
                 {.kind = Kind::kReceive, .peer = 0}},
                {{.kind = Kind::kReceive, .peer = 0}, {.kind = Kind::kSend, .peer = 1}}},
      .slots = {{Slot::kResult}, {Slot::kResult, Slot::kWhole}, {Slot::kResult}}};
  EXPECT_EQ(find_fault(circle, from_zero),
            "circle: one message at a time, rank 1 would wait for ever at its step 0");
  std::swap(circle.ranks[0][0], circle.ranks[0][1]);
  EXPECT_EQ(find_fault(circle, from_zero), "");
}

// ------------------------------------------------------------------------------------------------
// docs/algorithms.md

std::string table() {
  struct Column {
    std::string title;
    Placement placement;
  };
  const std::vector<Column> columns = {{"4 ranks", one_each(4)},
                                       {"8 ranks", one_each(8)},
                                       {"13 ranks", one_each(13)},
                                       {"2 hosts of 4", one_each(8, 4)},
                                       {"replicas (3, 3, 2)", Placement::blocks({3, 3, 2})}};
  std::string text = "| collective | algorithm |";
  std::string rule = "| --- | --- |";
  for (const Column& column : columns) {
    text += " " + column.title + " |";
    rule += " --- |";
  }
  text += "\n" + rule + "\n";
  const Algorithms algorithms = Algorithms::standard();
  for (const Algorithm& algorithm : algorithms.all()) {
    text += "| `" + std::string(collective_name(algorithm.collective)) + "` | `" + algorithm.name +
            (algorithm.fixed_order ? "` |" : "` (any order) |");
    for (const Column& column : columns) {
      const Request request{.collective = algorithm.collective,
                            .placement = column.placement,
                            .order = algorithm.fixed_order ? Order::kFixed : Order::kAny};
      if (algorithm.fits && !algorithm.fits(request)) {
        text += " - |";
        continue;
      }
      const Traffic t = traffic(algorithm.make(request));
      char cell[64];
      std::snprintf(cell, sizeof cell, " %d, %d, %.3g |", t.stages, static_cast<int>(t.messages),
                    t.sent);
      text += cell;
    }
    text += "\n";
  }
  return text;
}

TEST(AlgorithmsDocTest, TableIsDrawnFromTheSchedules) {
  const std::string path = test::source_path("docs/algorithms.md");
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string text = file.str();
  const std::string begin =
      "<!-- drawn from the schedules by tests/collective/traffic_test.cc -->\n";
  const std::string end = "<!-- end -->\n";
  const size_t first = text.find(begin);
  ASSERT_NE(first, std::string::npos);
  const size_t last = text.find(end, first);
  ASSERT_NE(last, std::string::npos);
  const std::string drawn = table();
  if (std::getenv("STRATA_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, first) << begin << drawn << text.substr(last);
    return;
  }
  EXPECT_EQ(text.substr(first + begin.size(), last - first - begin.size()), drawn)
      << "run this test with STRATA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace strata::collective
