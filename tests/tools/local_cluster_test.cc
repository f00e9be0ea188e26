#include "tools/launch/local_cluster.h"
#include "cluster/cpu_partition.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "strata/cluster/resolvers.h"
#include "support/expect_error.h"
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

TEST(LocalClusterTest, WorkersShareTheGpus) {
  const auto cards_of = [](const std::vector<std::string>& words,
                           const std::vector<std::string>& gpus) {
    std::vector<std::string> cards;
    const LocalCluster cluster(options_of(words), {}, gpus);
    for (const SupervisedTask& task : cluster.tasks()) {
      const auto found = task.child.environment.find("CUDA_VISIBLE_DEVICES");
      cards.push_back(found == task.child.environment.end() ? "unset" : found->second);
    }
    return cards;
  };
  using Cards = std::vector<std::string>;
  EXPECT_EQ(cards_of({"-n", "2", "--ps", "1", "sh"}, {"0", "1", "2"}),
            (Cards{"0,1", "2", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, {"GPU-a", "7"}), (Cards{"GPU-a", "7"}));
  EXPECT_EQ(cards_of({"-n", "3", "sh"}, {"0", "1"}), (Cards{"unset", "unset", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "sh"}, {}), (Cards{"unset", "unset"}));
  EXPECT_EQ(cards_of({"-n", "2", "--env", "CUDA_VISIBLE_DEVICES=5", "sh"}, {"0", "1"}),
            (Cards{"5", "5"}));
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
