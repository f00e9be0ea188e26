#include "collective/planner/measure_links.h"

#include <gtest/gtest.h>

#include "collective/planner/planner.h"
#include "wire/wires.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

std::vector<LinkModel> measured(wire::Wires& wires, const Placement& placement) {
  const int n = placement.num_ranks();
  wire::Mesh mesh(wires, n);
  std::vector<LinkModel> models(static_cast<size_t>(n));
  std::vector<Thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back("rank", [&, rank] {
      std::vector<std::shared_ptr<wire::Connection>> peers;
      for (int other = 0; other < n; ++other) {
        peers.push_back(other == rank ? nullptr : mesh.handle(rank, other));
      }
      models[static_cast<size_t>(rank)] =
          measure_links(rank, placement, peers, mesh.transport(rank), wire::soon());
    });
  }
  threads.clear();
  return models;
}

TEST(MeasureLinksTest, FindsWhatAModelledLinkHas) {
  wire::MemoryWires wires({.link = {.latency = 3ms, .bytes_per_second = 20e6}});
  const std::vector<LinkModel> models = measured(wires, Placement::blocks({1, 1, 1, 1}));
  for (const LinkModel& model : models) EXPECT_EQ(model, models[0]);  // all plan alike
  // Threads of a busy machine wake up late, never early; a memory link is never faster than it
  // says.
  EXPECT_GE(models[0].across_hosts.latency, 2.9e-3);
  EXPECT_LE(models[0].across_hosts.latency, 30e-3);
  EXPECT_GT(models[0].across_hosts.bytes_per_second, 1e6);
  EXPECT_EQ(models[0].in_host, LinkModel::typical().in_host);  // nobody to measure it with
  EXPECT_GT(models[0].reduce_bytes_per_second, 1e8);
  EXPECT_GT(models[0].message_seconds, 0);
  EXPECT_EQ(models[0].ranks_per_processor, 1);  // such a line hides whether they share any

  const Planner planner(Placement::blocks({1, 1, 1, 1}), models[3]);
  EXPECT_EQ(planner.choose({.elements = 64}).algorithm, "exchange");
}

TEST(MeasureLinksTest, OneHostAndOneRank) {
  wire::SocketWires wires;
  const std::vector<LinkModel> models = measured(wires, Placement::blocks({1, 1}, 2));
  EXPECT_EQ(models[0], models[1]);
  EXPECT_GT(models[0].in_host.latency, 0);
  EXPECT_LT(models[0].in_host.latency, 1);
  EXPECT_GT(models[0].in_host.bytes_per_second, 1e6);
  EXPECT_EQ(models[0].across_hosts, LinkModel::typical().across_hosts);
  EXPECT_GT(models[0].message_seconds, 0);
  EXPECT_LT(models[0].message_seconds, 1e-4);
  EXPECT_EQ(measured(wires, Placement::blocks({1})).size(), 1u);
}

}  // namespace
}  // namespace strata::collective
