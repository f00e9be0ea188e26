// The job's secret at parameter servers and workers of a coordinator, over sockets.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "core/thread.h"
#include "ps/coordinator/coordinator.h"
#include "ps/tables_by_wire.h"
#include "strata/ps/worker_server.h"
#include "support/expect_error.h"
#include "wire/tcp/socket_transport.h"

namespace strata {
namespace {

using namespace std::chrono_literals;
using cluster::ServerOptions;
using cluster::TaskId;
using wire::JobSecret;

const std::string kHint = "set STRATA_JOB_SECRET_FILE";

/// As `task` of the job "strata", for `purpose`: without the secret, and with another one.
void expect_closed(const std::string& address, const std::string& task,
                   const std::string& purpose) {
  const std::optional<JobSecret> secrets[] = {std::nullopt, JobSecret::random()};
  for (const auto& secret : secrets) {
    const auto stranger = wire::make_socket_transport({.job_secret = secret});
    expect_error_containing(
        [&] {
          stranger->connect(wire::Address::parse(address),
                            {.job = "strata", .task = task, .generation = 1, .purpose = purpose},
                            wire::Deadline::after(30s));
        },
        ErrorCode::kUnauthenticated, kHint);
  }
}

TEST(JobSecretPsTest, ParameterServersAskForIt) {
  const JobSecret secret = JobSecret::random();
  const std::vector<int> ports = test::free_ports(2);
  const cluster::ClusterSpec spec = {{"ps", {str_cat("127.0.0.1:", ports[0])}},
                                     {"worker", {str_cat("127.0.0.1:", ports[1])}}};
  const ServerOptions with = {.start_timeout = 30s, .job_secret = secret};
  ps::ParameterServer server(spec, {"ps", 0}, {.server = with});
  for (const char* purpose : {"ps", "ps-backup", "control", "data/x"}) {
    expect_closed(spec.task_address("ps", 0), "/job:worker/task:0", purpose);
  }
  expect_error_containing(
      [&] {
        ps::Client(spec, {"worker", 0}, {.server = {.start_timeout = 30s}});
      },
      ErrorCode::kUnauthenticated, kHint);
  ps::Client client(spec, {"worker", 0}, {.server = with});
  const auto rows = client.create_rows({.name = "users", .rows = 10, .width = 2});
  const ps::PulledRows pulled = rows->pull(at::full({1}, 3, at::kLong));
  EXPECT_EQ(pulled.values.sizes(), (at::IntArrayRef{1, 2}));
  client.leave(/*job_done=*/true);
  server.join();
}

TEST(JobSecretPsTest, WithItTheBitsAreTheSame) {
  const JobSecret secret = JobSecret::random();
  const auto plain = test::train_by_wire([](const TaskId&) { return ServerOptions{}; }, false);
  const auto closed = test::train_by_wire(
      [&](const TaskId&) { return ServerOptions{.job_secret = secret}; }, false);
  test::expect_same(plain, closed);
}

TEST(JobSecretPsTest, WorkersOfACoordinatorAskForIt) {
  const JobSecret secret = JobSecret::random();
  const std::vector<int> ports = test::free_ports(2);
  const cluster::ClusterSpec spec = {{"chief", {str_cat("127.0.0.1:", ports[0])}},
                                     {"worker", {str_cat("127.0.0.1:", ports[1])}}};
  ps::FunctionRegistry registry;
  registry.add("twice", [](int64_t x) { return 2 * x; });
  ps::WorkerServer worker(spec, {"worker", 0}, registry, {.server = {.job_secret = secret}});
  for (const char* purpose : {"coordinator", "control"}) {
    expect_closed(spec.task_address("worker", 0), "/job:chief/task:0", purpose);
  }
  Thread serving("worker", [&](const std::stop_token& stop) { worker.join(stop); });
  {
    ps::Coordinator coordinator(spec, {"chief", 0}, registry,
                                {.server = {.start_timeout = 30s, .job_secret = secret}});
    const ps::RemoteValue<> value = coordinator.schedule("twice", {21});
    EXPECT_EQ(value.fetch(wire::Deadline::after(30s)).as_int(), 42);
    coordinator.shutdown(wire::Deadline::after(30s));
  }
  serving.join();
}

}  // namespace
}  // namespace strata
