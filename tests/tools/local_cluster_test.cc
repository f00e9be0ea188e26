#include "tools/launch/local_cluster.h"
#include "cluster/cpu_partition.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "strata/cluster/resolvers.h"
#include "support/expect_error.h"
#include "support/made_host.h"
#include "wire/tcp/file_descriptor.h"
#include "wire/tcp/socket_transport.h"

namespace strata::tools {
namespace {

LaunchOptions options_of(std::vector<std::string> words) {
  return read_launch_options(std::move(words));
}

TEST(LocalClusterTest, EachTaskGetsItsTfConfig) {
  const LocalCluster cluster(options_of({"-n", "3", "--chief", "--ps", "1", "--evaluator", "--env",
                                         "A=b", "--no-pin", "sh", "-c", "exit"}),
                             "/certificates");
  ASSERT_EQ(cluster.tasks().size(), 5U);
  std::set<std::string> addresses;
  for (const SupervisedTask& task : cluster.tasks()) {
    const std::string& config = task.child.environment.at("TF_CONFIG");
    const auto found = cluster::resolve_cluster(
        cluster::TfConfigResolver({.environment = cluster::Environment({{"TF_CONFIG", config}})}));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->spec, cluster.spec());
    EXPECT_EQ(found->task.short_name(), task.name);
    EXPECT_EQ(task.serves, task.name.starts_with("ps") || task.name == "evaluator:0");
    EXPECT_EQ(task.child.environment.at("A"), "b");
    EXPECT_EQ(task.child.environment.at("STRATA_TLS_DIR"), "/certificates");
    EXPECT_EQ(task.child.arguments, (std::vector<std::string>{"-c", "exit"}));
    EXPECT_TRUE(task.child.cores.empty());
    if (found->task.job != "evaluator") addresses.insert(cluster.spec().task_address(found->task));
  }
  EXPECT_EQ(addresses.size(), 4U);
}

TEST(LocalClusterTest, WorkersHaveCoresOfTheirOwn) {
  const LocalCluster cluster(options_of({"-n", "1", "--ps", "1", "sh"}));
  EXPECT_FALSE(cluster.tasks()[0].child.cores.empty());
  EXPECT_TRUE(cluster.tasks()[1].child.cores.empty());
  const LocalCluster crowd(
      options_of({"-n", std::to_string(cluster::cores_by_place().size() + 1), "sh"}));
  EXPECT_TRUE(crowd.tasks()[0].child.cores.empty());
}

using Cards = std::vector<std::string>;

// Of each task, its CUDA_VISIBLE_DEVICES on a host where the launcher's own is `visible`.
Cards cards_of(const std::vector<std::string>& words, const std::optional<std::string>& visible,
               const HostTopology& host = {}) {
  Cards cards;
  const LocalCluster cluster(options_of(words), {}, host, visible);
  for (const SupervisedTask& task : cluster.tasks()) {
    const auto found = task.child.environment.find("CUDA_VISIBLE_DEVICES");
    cards.push_back(found == task.child.environment.end() ? "unset" : found->second);
  }
  return cards;
}

/// Four GPUs, two at each of two nodes.
HostTopology four_gpus() {
  test::MadeHost host;
  const std::vector<int> cores = cluster::cores_by_place();
  host.add_node(0, std::to_string(cores.back())).add_node(1, std::to_string(cores.front()));
  host.load_driver("580.82.07");
  for (int i = 0; i < 4; ++i) {
    host.add_gpu(str_cat("0000:", i, "b:00.0"),
                 {.node = i / 2, .minor = i, .uuid = str_cat("GPU-", i)});
  }
  return HostTopology::read(host.root());
}

TEST(LocalClusterTest, WorkersShareTheGpus) {
  EXPECT_EQ(cards_of({"-n", "2", "--ps", "1", "sh"}, "0,1,2"), (Cards{"0,1", "2", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, "GPU-a,7"), (Cards{"GPU-a", "7"}));
  EXPECT_EQ(cards_of({"-n", "3", "sh"}, "0,1"), (Cards{"unset", "unset", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, ""), (Cards{"unset", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "--env", "CUDA_VISIBLE_DEVICES=5", "sh"}, "0,1"),
            (Cards{"5", "5"}));
}

TEST(LocalClusterTest, AllThatHaveADeviceFileAreShared) {
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, std::nullopt, four_gpus()), (Cards{"0,1", "2,3"}));
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, std::nullopt), (Cards{"unset", "unset"}));
  // Numbers are those of the bus, unless the user has said which GPUs.
  const auto order_of = [](const std::optional<std::string>& visible) -> std::string {
    const LocalCluster cluster(options_of({"-n", "1", "sh"}), {}, four_gpus(), visible);
    const auto& environment = cluster.tasks()[0].child.environment;
    return environment.contains("CUDA_DEVICE_ORDER") ? environment.at("CUDA_DEVICE_ORDER") : "";
  };
  EXPECT_EQ(order_of(std::nullopt), "PCI_BUS_ID");
  EXPECT_EQ(order_of("3"), "");
}

TEST(LocalClusterTest, EachGetsAsManyGpusAsAsked) {
  const std::string four = "0,1,2,3";
  EXPECT_EQ(cards_of({"-n", "2", "--gpus-per-task", "1", "sh"}, four), (Cards{"0", "1"}));
  EXPECT_EQ(cards_of({"-n", "2", "--gpus-per-task", "2", "sh"}, four), (Cards{"0,1", "2,3"}));
  EXPECT_EQ(cards_of({"-n", "2", "--gpus-per-task=0", "sh"}, four), (Cards{"", ""}));
  expect_error(
      [&] {
        (void)cards_of({"-n", "3", "--gpus-per-task", "2", "sh"}, four);
      },
      "[strata launch] got --gpus-per-task 2 for 3 workers, and this machine has 4 GPUs "
      "for them (0, 1, 2, 3); expected 6 at least: ask for fewer, start fewer workers, or "
      "let several use one with --share-gpus");
  expect_error(
      [&] {
        (void)cards_of({"-n", "1", "--gpus-per-task", "1", "sh"}, std::nullopt);
      },
      "[strata launch] got --gpus-per-task 1 for 1 workers, and this machine has 0 GPUs "
      "for them (see strata devices); expected 1 at least: ask for fewer");
}

TEST(LocalClusterTest, SeveralUseOneGpuIfThatIsAskedFor) {
  EXPECT_EQ(cards_of({"-n", "3", "--share-gpus", "sh"}, "0,1"), (Cards{"0", "1", "0"}));
  EXPECT_EQ(cards_of({"-n", "2", "--share-gpus", "sh"}, "0,1,2"), (Cards{"0,1", "2"}));
  EXPECT_EQ(cards_of({"-n", "2", "--share-gpus", "sh"}, ""), (Cards{"unset", "unset"}));
  EXPECT_EQ(cards_of({"-n", "3", "--share-gpus", "--gpus-per-task", "2", "sh"}, "0,1,2"),
            (Cards{"0,1", "2,0", "1,2"}));
  const LocalCluster cluster(options_of({"-n", "2", "--share-gpus", "sh"}), {}, {}, "0");
  EXPECT_EQ(cluster.tasks()[1].child.environment.at("STRATA_SHARED_GPUS"), "allow");
}

TEST(LocalClusterTest, CoresAreNearTheGpus) {
  const HostTopology host = four_gpus();
  const std::vector<int> cores = cluster::cores_by_place();
  EXPECT_EQ(cores_near(host, {"0", "1"}), std::vector<int>{cores.back()});
  EXPECT_EQ(cores_near(host, {"GPU-3"}), std::vector<int>{cores.front()});
  EXPECT_EQ(cores_near(host, {"MIG-x"}), std::vector<int>{});
  if (cores.size() < 2) return;  // nothing to choose
  const LocalCluster cluster(options_of({"-n", "2", "sh"}), {}, host, std::nullopt);
  const auto has = [&](size_t task, int core) {
    const std::vector<int>& own = cluster.tasks()[task].child.cores;
    return std::ranges::find(own, core) != own.end();
  };
  EXPECT_TRUE(has(0, cores.back()) && has(1, cores.front()));
}

TEST(LocalClusterTest, ShellLinesCanBePasted) {
  SupervisedTask task;
  task.child = {.program = "/bin/my prog",
                .arguments = {"--x=1", "it's", ""},
                .environment = {{"A", "b c"}},
                .cores = {0, 2}};
  EXPECT_EQ(LocalCluster::shell_line(task),
            "A='b c' taskset --cpu-list 0,2 '/bin/my prog' --x=1 'it'\\''s' ''");
}

TEST(HeldPortsTest, ATaskCanListenOnAPortThatIsHeld) {
  const PortReservation ports(1);
  for (int start = 0; start < 2; ++start) {  // and again, after its end
    const auto transport = wire::make_socket_transport();
    const wire::Address address = {.host = "127.0.0.1", .port = static_cast<uint16_t>(ports[0])};
    EXPECT_EQ(transport->listen(address, {"strata", "/job:worker/task:0", 0, ""}), address);
    // One at a time.
    const auto other = wire::make_socket_transport();
    expect_error_containing(
        [&] {
          (void)other->listen(address, {"strata", "/job:worker/task:0", 0, ""});
        },
        ErrorCode::kAlreadyExists, address.to_string());
  }
}

// Ports that the system chooses for sockets that name none.
std::set<int> system_ports(int count) {
  std::set<int> ports;
  std::vector<wire::FileDescriptor> sockets;  // held until all are found, or two would be the same
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(sockets.back().get(), any, size), 0);
    EXPECT_EQ(::getsockname(sockets.back().get(), any, &size), 0);
    ports.insert(ntohs(address.sin_port));
  }
  return ports;
}

TEST(HeldPortsTest, TheSystemGivesAHeldPortToNobody) {
  constexpr int kMany = 2000;
  const PortReservation held(kMany);
  std::set<int> ports;
  for (int i = 0; i < kMany; ++i) ports.insert(held[static_cast<size_t>(i)]);
  EXPECT_EQ(ports.size(), static_cast<size_t>(kMany));
  for (const int port : system_ports(kMany)) EXPECT_FALSE(ports.contains(port)) << port;
  const PortReservation more(kMany);
  for (int i = 0; i < kMany; ++i) EXPECT_FALSE(ports.contains(more[static_cast<size_t>(i)]));
}

TEST(FindProgramTest, ErrorsQuoteIt) {
  EXPECT_TRUE(find_program("sh").ends_with("/sh"));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  expect_error([] { (void)find_program("/nowhere/x"); }, ErrorCode::kNotFound,
               "[strata launch] got the program /nowhere/x, which does not exist");
  expect_error([] { (void)find_program("/etc/passwd"); }, ErrorCode::kPermissionDenied,
               "[strata launch] got the program /etc/passwd, which is not executable; chmod +x it");
  expect_error([] { (void)find_program("no-such-program"); }, ErrorCode::kNotFound,
               "[strata launch] got the program no-such-program, which is not in PATH");
  expect_error([] { (void)find_program(""); }, ErrorCode::kNotFound,
               "[strata launch] got the program \"\", an empty name");
}

}  // namespace
}  // namespace strata::tools
