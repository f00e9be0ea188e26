#include "strategies/host_share.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "strata/core/error.h"
#include "support/expect_error.h"

namespace strata::detail {
namespace {

using Numbers = std::vector<int>;

/// Cores 0 to 3 at node 0, 4 to 7 at node 1.
HostResources worker_with(const std::vector<HostGpu>& gpus) {
  return {.machine = "m",
          .cores = {0, 1, 2, 3, 4, 5, 6, 7},
          .core_nodes = {0, 0, 0, 0, 1, 1, 1, 1},
          .gpus = gpus};
}

HostGpu gpu(const std::string& card, int node, int device) {
  return {.name = std::to_string(device), .card = card, .node = node, .device = device};
}

TEST(HostShareTest, WorkersThatSeeTheSameGpusDivideThemAndTheCoresNearThem) {
  const HostResources all = worker_with({gpu("a", 1, 0), gpu("b", 0, 1)});
  const HostShare first = share_of({all, all}, 0), second = share_of({all, all}, 1);
  EXPECT_EQ(first.gpus, Numbers{0});
  EXPECT_EQ(second.gpus, Numbers{1});
  EXPECT_EQ(first.cores, (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(second.cores, (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(first.all_cores, 8);
}

TEST(HostShareTest, OfOnesOwnGpusAllAreTaken) {
  // Containers: each calls its GPU 0.
  const std::vector<HostResources> workers = {worker_with({gpu("a", 1, 0)}),
                                              worker_with({gpu("b", 0, 0)})};
  EXPECT_EQ(share_of(workers, 0).gpus, Numbers{0});
  EXPECT_EQ(share_of(workers, 1).gpus, Numbers{0});
  EXPECT_EQ(share_of(workers, 1).cores, (Numbers{0, 1, 2, 3}));
}

TEST(HostShareTest, WithFewerGpusThanWorkersTheyAreTakenInTurn) {
  const HostResources one = worker_with({gpu("a", -1, 0)});
  EXPECT_EQ(share_of({one, one}, 0).gpus, Numbers{0});
  EXPECT_EQ(share_of({one, one}, 1).gpus, Numbers{0});
  EXPECT_EQ(share_of({one, one}, 1).cores, (Numbers{4, 5, 6, 7}));
}

TEST(HostShareTest, ALauncherNamesGpusByTheirPlaceInTheVariable) {
  CudaDriver driver;
  driver.gpus = {{.name = {}, .uuid = "GPU-a", .address = "0000:1a:00.0"},
                 {.name = {}, .uuid = "GPU-b", .address = "0000:3b:00.0"}};
  HostTopology host;
  host.gpus = {{.address = "0000:3b:00.0", .model = {}, .uuid = {}, .node = 1, .usable = true}};
  const std::vector<HostGpu> gpus = describe_gpus(2, "7,GPU-b", driver, host);
  const HostGpu first = {.name = "7", .card = "GPU-a", .node = -1, .device = 0};
  const HostGpu second = {.name = "GPU-b", .card = "GPU-b", .node = 1, .device = 1};
  EXPECT_EQ(gpus, (std::vector<HostGpu>{first, second}));
  EXPECT_EQ(gpus_named(gpus, {"7"}), std::vector<HostGpu>{first});
  EXPECT_EQ(gpus_named(gpus, {"8"}), gpus);
  // A driver that says something else than libtorch names none.
  EXPECT_EQ(describe_gpus(1, std::nullopt, driver, host),
            (std::vector<HostGpu>{{.name = "0", .card = "0", .node = -1, .device = 0}}));
  // One that was named keeps its number.
  HostResources worker = worker_with(gpus);
  worker.gpus = gpus_named(gpus, {"GPU-b"});
  EXPECT_EQ(share_of({worker}, 0).gpus, Numbers{1});
}

TEST(HostShareTest, TravelsAsJson) {
  const HostResources resources = worker_with({gpu("a", 1, 0)});
  const HostResources read = HostResources::from_json(resources.to_json());
  EXPECT_EQ(read.core_nodes, resources.core_nodes);
  EXPECT_EQ(read.gpus, resources.gpus);
  const GpusInUse use = GpusInUse::from_json(
      GpusInUse{.machine = "m", .gpus = resources.gpus, .may_share = true}.to_json());
  EXPECT_EQ(use.gpus, resources.gpus);
  EXPECT_TRUE(use.may_share);
}

GpusInUse use(const std::string& machine, const HostGpu& gpu, bool may_share = false) {
  return {.machine = machine, .gpus = {gpu}, .may_share = may_share};
}

TEST(SharedGpuTest, TheFirstPairIsFound) {
  const auto found = find_shared_gpu(
      {use("m", gpu("a", 0, 0)), use("m", gpu("b", 0, 0)), use("m", gpu("a", 0, 3))});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->first, 0U);
  EXPECT_EQ(found->second, 2U);
  EXPECT_EQ(found->card, "a");
  EXPECT_EQ(found->of_first, 0);
  EXPECT_EQ(found->of_second, 3);
}

TEST(SharedGpuTest, OtherMachinesAndThoseThatAllowItAreNone) {
  const HostGpu a = gpu("a", 0, 0);
  EXPECT_FALSE(find_shared_gpu({use("m", a), use("n", a)}));
  EXPECT_FALSE(find_shared_gpu({use("", a), use("", a)}));  // unknown
  EXPECT_FALSE(find_shared_gpu({use("m", a, true), use("m", a, true)}));
  EXPECT_TRUE(find_shared_gpu({use("m", a, true), use("m", a)}));
  EXPECT_TRUE(find_shared_gpu({use("m", a, true), use("m", a, true), use("m", a)}));
  EXPECT_FALSE(find_shared_gpu({{.machine = "m", .gpus = {a, a}, .may_share = false}}));
}

TEST(SharedGpuTest, TheEnvironmentAllowsIt) {
  ::setenv("STRATA_SHARED_GPUS", "allow", 1);
  EXPECT_TRUE(shared_gpus_allowed());
  ::setenv("STRATA_SHARED_GPUS", "yes", 1);
  expect_error([] { (void)shared_gpus_allowed(); },
               "[multi_worker] STRATA_SHARED_GPUS: got 'yes'; expected allow or refuse");
  ::unsetenv("STRATA_SHARED_GPUS");
  EXPECT_FALSE(shared_gpus_allowed());
}

}  // namespace
}  // namespace strata::detail
