#include <gtest/gtest.h>

#include <bit>

#include "collective/placements.h"
#include "collective/planner/link_model.h"
#include "strata/collective/algorithms.h"
#include "support/expect_error.h"

namespace strata::collective {
namespace {

double price_of(const std::string& algorithm, const Placement& placement, const LinkModel& links,
                int64_t elements, int segments = 1, int64_t partial_bytes = 4) {
  const Request request{.placement = placement, .order = Order::kAny};
  const Algorithms algorithms = Algorithms::standard();
  const Schedule schedule = algorithms.find(Collective::kAllReduce, algorithm)->make(request);
  return price(segmented(schedule, segments), placement, links,
               {.elements = elements, .partial_bytes = partial_bytes});
}

constexpr double kLatency = 1e-3;
constexpr double kRate = 1e8;
const LinkModel kPlain = {.across_hosts = {.latency = kLatency, .bytes_per_second = kRate}};

// The formulas of the literature, with nothing but links; 2^20 elements divide evenly.
TEST(PriceTest, FormulasOfTheLiterature) {
  constexpr int64_t kElements = 1 << 20;
  const double s = kElements * 4 / kRate;
  for (const int n : {2, 4, 8, 16}) {
    const Placement p = one_each(n);
    const double lines = 2.0 * (n - 1) / n * s;
    const double log = std::bit_width(static_cast<unsigned>(n)) - 1;
    EXPECT_NEAR(price_of("ring", p, kPlain, kElements), 2 * (n - 1) * kLatency + lines, 1e-9);
    EXPECT_NEAR(price_of("direct", p, kPlain, kElements), 2 * kLatency + lines, 1e-9);
    EXPECT_NEAR(price_of("halving_doubling", p, kPlain, kElements), 2 * log * kLatency + lines,
                1e-9);
    EXPECT_NEAR(price_of("recursive_doubling", p, kPlain, kElements), log * (kLatency + s), 1e-9);
    EXPECT_NEAR(price_of("exchange", p, kPlain, kElements), kLatency + (n - 1) * s, 1e-9);
    EXPECT_NEAR(price_of("tree", p, kPlain, kElements), 2 * log * (kLatency + s), 1e-9);
  }
}

TEST(PriceTest, HostsShareTheirLine) {
  constexpr int64_t kElements = 1 << 20;
  const double s = kElements * 4 / kRate;
  // Two hosts of four ranks, with nothing to pay within a host: direct sends each rank's half over
  // the host's line, twice; the others what one rank a host would send.
  const Placement p = one_each(8, 4);
  EXPECT_NEAR(price_of("direct", p, kPlain, kElements), kLatency + 4 * s, 1e-9);
  EXPECT_NEAR(price_of("hierarchical", p, kPlain, kElements), kLatency + s, 1e-9);
  EXPECT_NEAR(price_of("halving_doubling", p, kPlain, kElements), kLatency + s, 1e-9);
  EXPECT_NEAR(price_of("ring", p, kPlain, kElements), 8 * kLatency + 14.0 / 8 * s, 8 * kLatency);
}

TEST(PriceTest, MessagesAndSumsCost) {
  LinkModel links = kPlain;
  links.message_seconds = 1e-4;
  EXPECT_NEAR(price_of("exchange", one_each(2), links, 16), kLatency + 2e-4 + 64 / kRate, 1e-9);
  links.message_seconds = 0;
  links.reduce_bytes_per_second = 1e7;  // reads two, writes one
  EXPECT_NEAR(price_of("exchange", one_each(2), links, 1 << 10),
              kLatency + 4096 / kRate + 3 * 4096 / 1e7, 1e-9);
  // In segments most of the sum hides behind the line.
  links.reduce_bytes_per_second = 3e8;
  const double whole = price_of("direct", one_each(2), links, 1 << 20);
  const double cut = price_of("direct", one_each(2), links, 1 << 20, 16);
  const double line = 2 * kLatency + (1 << 22) / kRate;
  EXPECT_NEAR(whole, line + 1.5 * (1 << 22) / 3e8, 1e-9);
  EXPECT_LT(cut, line + 0.1 * (whole - line));
}

TEST(PriceTest, RanksMayShareProcessors) {
  LinkModel links{.message_seconds = 1e-6};
  const auto price_for = [&](const std::string& algorithm, double ranks_per_processor) {
    links.ranks_per_processor = ranks_per_processor;
    return price_of(algorithm, one_each(8), links, 1024);
  };
  // Each rank sends seven messages and receives seven, twice; or a processor does it for all.
  EXPECT_NEAR(price_for("direct", 1), 28e-6, 1e-9);
  EXPECT_NEAR(price_for("direct", 4), 4 * 28e-6, 1e-9);
  EXPECT_NEAR(price_for("direct", 8), 8 * 28e-6, 1e-9);
  // Of the tree's ranks few have something to do at a time.
  EXPECT_LT(price_for("tree", 4), 2 * price_for("tree", 1));
  // Within a host the processors move the bytes, too.
  links = {.in_host = {.bytes_per_second = 1e9}, .ranks_per_processor = 2};
  EXPECT_NEAR(price_of("exchange", one_each(2, 2), links, 1000), 2 * 4e-6, 1e-9);
  links.ranks_per_processor = 1;
  EXPECT_NEAR(price_of("exchange", one_each(2, 2), links, 1000), 4e-6, 1e-9);
}

TEST(PriceTest, PartialSumsMayBeWider) {
  const Placement two_each = Placement::blocks({2, 2});
  const double narrow = price_of("exchange", one_each(2), kPlain, 1 << 20, 1, 8);
  const double wide = price_of("exchange", two_each, kPlain, 1 << 20, 1, 8);
  EXPECT_NEAR(wide - kLatency, 2 * (narrow - kLatency), 1e-9);
}

TEST(LinkModelTest, JsonKeepsEveryBit) {
  LinkModel links = LinkModel::typical();
  links.pairs = {{0.1, 1.0 / 3}, {1e-300, 5}};
  EXPECT_EQ(LinkModel::from_json(links.to_json()), links);
  EXPECT_EQ(LinkModel::from_json(LinkModel().to_json()), LinkModel());
}

TEST(LinkModelTest, BrokenTextIsQuoted) {
  expect_error_containing([] { LinkModel::from_json("{"); }, ErrorCode::kInvalidArgument,
                          "[link_model] from_json: ");
  expect_error_containing(
      [] {
        LinkModel::from_json(R"({"in_host":[1],"across_hosts":[1,2],"pairs":[],)"
                             R"("message_seconds":0,"reduce_bytes_per_second":0})");
      },
      ErrorCode::kInvalidArgument, "got 1 numbers for a link");
  expect_error_containing(
      [] {
        LinkModel::from_json(R"({"in_host":[1,-2],"across_hosts":[1,2],"pairs":[],)"
                             R"("message_seconds":0,"reduce_bytes_per_second":0})");
      },
      ErrorCode::kInvalidArgument, "got -2");
  expect_error_containing(
      [] {
        LinkModel::from_json(R"({"in_host":[1,2],"across_hosts":[1,2],"pairs":[],)"
                             R"("message_seconds":0,"ranks_per_processor":0.5})");
      },
      ErrorCode::kInvalidArgument, "got 0.5 ranks a processor");
}

}  // namespace
}  // namespace strata::collective
