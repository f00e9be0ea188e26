// A start that cannot succeed ends within its deadline, and says why.
#include <gtest/gtest.h>

#include <chrono>

#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"
#include "support/thread_cluster.h"
#include "wire/tcp/socket_transport.h"

namespace strata::cluster {
namespace {

using test::seconds_since;
using test::soon;
using test::ThreadCluster;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(RendezvousTest, WhoIsAbsentIsNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.start_timeout = 200ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index != 2) (void)task.start();
  });
  for (const int task : {0, 1}) {
    const Status& status = outcomes.at({"worker", task});
    EXPECT_EQ(status.code(), task == 0 ? ErrorCode::kDeadlineExceeded : status.code());
    EXPECT_NE(status.message().find("/job:worker/task:"), std::string::npos) << status.message();
  }
  EXPECT_NE(outcomes.at({"worker", 0}).message().find("/job:worker/task:2 at worker-2:1"),
            std::string::npos)
      << outcomes.at({"worker", 0}).message();
}

TEST(RendezvousTest, ALeaderThatDoesNotComeIsNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 100ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 1) (void)task.start();
  });
  const Status& status = outcomes.at({"worker", 1});
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(
      status.message().starts_with("[cluster] rendezvous: /job:worker/task:1 could not "
                                   "reach the leader /job:worker/task:0 at worker-0:1: "))
      << status.message();
}

TEST(RendezvousTest, DifferentSpecsAreNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 2) {
      task.spec = ClusterSpec({{"worker", {"worker-0:1", "worker-1:7", "worker-2:1"}}});
    }
    (void)task.start();
  });
  const std::string difference =
      "[cluster] rendezvous: got two cluster specs: for /job:worker/task:1 the leader "
      "/job:worker/task:0 has \"worker-1:1\", /job:worker/task:2 has \"worker-1:7\"; give all "
      "tasks "
      "the same one";
  EXPECT_EQ(outcomes.at({"worker", 2}).message(), difference);
  EXPECT_EQ(outcomes.at({"worker", 2}).code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(outcomes.at({"worker", 0}).message().find(difference), std::string::npos);
}

TEST(RendezvousTest, ATaskThatTakesAnotherForTheLeaderIsTold) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 0) {
      // Its own idea: worker 1's address is the chief's.
      task.spec =
          ClusterSpec({{"chief", {"worker-1:1"}}, {"worker", {"worker-0:1", "worker-2:1"}}});
    }
    (void)task.start();
  });
  const std::string& text = outcomes.at({"worker", 0}).message();
  EXPECT_NE(text.find("could not reach the leader /job:chief/task:0 at worker-1:1"),
            std::string::npos)
      << text;
}

TEST(RendezvousTest, TasksOfAnotherJobAreRefused) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 1) task.options.job = "another";
    (void)task.start();
  });
  const Status& status = outcomes.at({"worker", 1});
  EXPECT_EQ(status.code(), ErrorCode::kPermissionDenied) << status.message();
  EXPECT_NE(status.message().find("another"), std::string::npos) << status.message();
}

TEST(RendezvousTest, BadOptionsAreRefused) {
  const auto spec = ThreadCluster::spec_of({{"worker", 2}, {"evaluator", 1}});
  const auto server = [&](const TaskId& task, ServerOptions options = {},
                          const ClusterSpec* other = nullptr) {
    wire::MemoryNetwork network;
    options.transport = network.transport("worker-0");
    Server made(other == nullptr ? spec : *other, task, std::move(options));
  };
  expect_error(
      [&] {
        server({"worker", 2});
      },
      "[cluster] ClusterSpec: got task index 2, but \"worker\" has 2 tasks, "
      "[\"worker-0:1\",\"worker-1:1\"]; expected 0 to 1");
  expect_error(
      [&] {
        server({"worker", 0}, {.liveness = 10ms});
      },
      "[cluster] Server: got a liveness interval of 0.01 s; expected 0.1 s at least");
  expect_error(
      [&] {
        server({"worker", 0}, {.members = {{"evaluator", 0}}});
      },
      str_cat("[cluster] Server: got the member /job:evaluator/task:0; expected tasks of ",
              spec.to_string(), " but the evaluator"));
  expect_error(
      [&] {
        server({"worker", 1}, {.members = {{"worker", 0}}});
      },
      "[cluster] Server: got /job:worker/task:1, which is not among `members`; add it");
  const ClusterSpec no_port = {{"worker", {"worker-0:0", "worker-1:1"}}};
  expect_error(
      [&] {
        server({"worker", 0}, {}, &no_port);
      },
      "[cluster] Server: got port 0 for the leader /job:worker/task:0 at worker-0:0, which "
      "no other task can reach; give it a port");
  const ClusterSpec no_host = {{"worker", {":0", "worker-1:1"}}};
  expect_error(
      [&] {
        server({"worker", 0}, {}, &no_host);
      },
      "[cluster] Server: got \":0\" for the leader /job:worker/task:0, which no other task can "
      "reach; give it a host and a port");
}

TEST(RendezvousTest, AnAddressInUseIsQuoted) {
  const std::vector<int> ports = test::free_ports(2);
  const ClusterSpec spec = {
      {"worker", {str_cat("127.0.0.1:", ports[0]), str_cat("127.0.0.1:", ports[1])}}};
  const auto other = wire::make_socket_transport();
  (void)other->listen(wire::Address::parse(spec.task_address("worker", 0)),
                      {"strata", "/job:other/task:0", 0, ""});
  expect_error_containing(
      [&] {
        Server server(spec, {"worker", 0});
      },
      ErrorCode::kAlreadyExists,
      str_cat("[cluster] /job:worker/task:0 cannot listen at ", spec.task_address("worker", 0),
              ": "));
}

TEST(RendezvousTest, ANameThatIsNotKnownIsQuoted) {
  const ClusterSpec spec = {{"worker", {"no-such-host.invalid:1", "127.0.0.1:0"}}};
  const auto start = steady_clock::now();
  expect_error_containing(
      [&] {
        Server server(spec, {"worker", 1}, {.start_timeout = 300ms});
      },
      ErrorCode::kDeadlineExceeded,
      "[cluster] rendezvous: /job:worker/task:1 could not reach the leader /job:worker/task:0 at "
      "no-such-host.invalid:1: ");
  EXPECT_LT(seconds_since(start), 10);
  const ClusterSpec own = {{"worker", {"127.0.0.1:1", "no-such-host.invalid:1"}}};
  expect_error_containing(
      [&] {
        Server server(own, {"worker", 1}, {.start_timeout = 300ms});
      },
      ErrorCode::kInvalidArgument,
      "[cluster] /job:worker/task:1 cannot listen at no-such-host.invalid:1: ");
  const ClusterSpec any = {{"worker", {"no-such-host.invalid:1", ":0"}}};
  expect_error_containing(
      [&] {
        Server server(any, {"worker", 1}, {.start_timeout = 300ms});
      },
      ErrorCode::kInvalidArgument,
      "[cluster] /job:worker/task:1 finds no way to the leader /job:worker/task:0 at "
      "no-such-host.invalid:1: the name \"no-such-host.invalid\" is not known: ");
}

TEST(RendezvousTest, ATaskWithoutAnAddressListensWhereTheLeaderCanBeReached) {
  const std::vector<int> ports = test::free_ports(1);
  const ClusterSpec spec = {{"worker", {str_cat("127.0.0.1:", ports[0]), ":0"}}};
  Thread leader("leader", [&] {
    Server server(spec, {"worker", 0}, {.start_timeout = 30s});
    server.shutdown(soon());
  });
  Server server(spec, {"worker", 1}, {.start_timeout = 30s});
  const std::string address = server.members()[1].address;
  EXPECT_TRUE(address.starts_with("127.0.0.1:")) << address;
  EXPECT_FALSE(address.ends_with(":0")) << address;
  server.shutdown(soon());
  server.shutdown(soon());  // once is enough
}

}  // namespace
}  // namespace strata::cluster
