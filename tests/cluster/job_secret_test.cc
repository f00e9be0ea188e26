// Where a cluster gets the job's secret from, and that its tasks ask for it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <fstream>

#include "cluster/job_secret_environment.h"
#include "cluster/make_transport.h"
#include "core/thread.h"
#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"
#include "wire/server.h"
#include "wire/tcp/socket_transport.h"

namespace strata::cluster {
namespace {

using namespace std::chrono_literals;
using wire::JobSecret;
using Variables = std::map<std::string, std::string, std::less<>>;

constexpr const char* kSecret = "a secret that is long enough";

class JobSecretEnvironmentTest : public testing::Test {
 protected:
  std::string file(mode_t mode) const {
    std::string path = folder_.path() + "/secret";
    std::ofstream(path) << kSecret << "\n";
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::optional<JobSecret> read(Variables variables) {
    return job_secret_from_environment(Environment(std::move(variables)));
  }
  const test::TempFolder folder_;
};

TEST_F(JobSecretEnvironmentTest, OneVariableOrAFile) {
  EXPECT_FALSE(read({{"STRATA_JOB", kSecret}}).has_value());
  EXPECT_EQ(read({{"STRATA_JOB_SECRET", kSecret}})->reveal(), kSecret);
  EXPECT_EQ(read({{"STRATA_JOB_SECRET_FILE", file(0600)}})->reveal(), kSecret);
  expect_error(
      [&] {
        read({{"STRATA_JOB_SECRET", kSecret}, {"STRATA_JOB_SECRET_FILE", file(0600)}});
      },
      "[cluster] job secret: got STRATA_JOB_SECRET and STRATA_JOB_SECRET_FILE; set one of them");
}

TEST_F(JobSecretEnvironmentTest, ErrorsNameTheVariable) {
  expect_error(
      [] {
        read({{"STRATA_JOB_SECRET", "hunter2"}});
      },
      "[cluster] STRATA_JOB_SECRET: [wire] job secret: got one of 7 bytes; expected 16 to "
      "4096; `openssl rand -hex 32` makes a good one");
  expect_error_containing(
      [] {
        read({{"STRATA_JOB_SECRET", ""}});
      },
      ErrorCode::kInvalidArgument, "got one of 0 bytes");
  const std::string open = file(0644);
  expect_error(
      [&] {
        read({{"STRATA_JOB_SECRET_FILE", open}});
      },
      ErrorCode::kPermissionDenied,
      str_cat("[cluster] STRATA_JOB_SECRET_FILE: [wire] job secret: got ", open,
              " with mode 0644, which is open to others; chmod 600 ", open));
  expect_error_containing(
      [] {
        read({{"STRATA_JOB_SECRET_FILE", "/no/such/file"}});
      },
      ErrorCode::kNotFound, "[cluster] STRATA_JOB_SECRET_FILE: ");
}

Environment with(const char* secret) {
  return Environment(Variables{{"STRATA_JOB_SECRET", secret}});
}

// Each way into a cluster (Server, ParameterServer, Client, WorkerServer, Coordinator) makes its
// transport here.
TEST(MakeTransportWithSecretTest, TheOptionCountsAndThenTheEnvironment) {
  const auto listener = make_transport({}, with(kSecret));
  const wire::Address address =
      listener->listen({.host = "127.0.0.1", .port = 0}, wire::hello_of(1));
  Thread server("server", [&](const std::stop_token& stop) {
    listener->wait_until([] { return false; }, wire::soon(), stop);
  });
  const auto gets_in = [&](const ServerOptions& options, const Environment& environment) {
    try {
      make_transport(options, environment)->connect(address, wire::hello_of(0), wire::soon());
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated) << error.what();
      return false;
    }
  };
  const JobSecret right{kSecret};
  const JobSecret wrong = JobSecret::random();
  EXPECT_TRUE(gets_in({}, with(kSecret)));
  EXPECT_FALSE(gets_in({}, with("another one of some length")));
  EXPECT_FALSE(gets_in({}, Environment()));
  EXPECT_TRUE(gets_in({.job_secret = right}, Environment()));
  EXPECT_TRUE(gets_in({.job_secret = right}, with("another one of some length")));
  EXPECT_FALSE(gets_in({.job_secret = wrong}, with(kSecret)));
  server.request_stop();
}

TEST(MakeTransportWithSecretTest, ATransportHasItsOwn) {
  const std::shared_ptr<wire::Transport> transport = wire::make_socket_transport();
  EXPECT_EQ(make_transport({.transport = transport}, with(kSecret)), transport);
  expect_error(
      [&] { make_transport({.job_secret = JobSecret(kSecret), .transport = transport}); },
      "[cluster] Server: got a job secret and a transport; give the secret to the transport "
      "(SocketOptions::job_secret)");
}

TEST(ServerWithSecretTest, TheJobGoesOnAndStrangersAreToldWhatToSet) {
  const wire::LogLines log;
  const std::vector<int> ports = test::free_ports(3);
  const auto address = [&](size_t i) { return str_cat("127.0.0.1:", ports[i]); };
  const ClusterSpec spec = {{"worker", {address(0), address(1)}}};
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::array<Status, 2> outcomes;
  std::array<Thread, 2> threads;
  for (int task = 0; task < 2; ++task) {
    threads[task] = Thread("task", [&, task] {
      try {
        Server server(spec, {"worker", task},
                      {.start_timeout = 30s, .job_secret = JobSecret(kSecret)});
        const auto peer = server.connect({"worker", 1 - task}, "x", wire::soon());
        std::byte last{};
        while (last == std::byte{0}) {
          server.barrier("round", wire::soon());
          if (task == 0) last = static_cast<std::byte>(stop.load());
          wire::Transfer transfer =
              task == 0 ? peer->send({.id = 1}, {&last, 1}) : peer->receive({.id = 1}, {&last, 1});
          server.transport().wait(transfer, wire::soon()).throw_if_error();
          if (task == 0) ++rounds;
        }
        EXPECT_EQ(server.generation(), 1U);
        EXPECT_TRUE(server.newcomers().empty());
        server.shutdown(wire::soon());
      } catch (...) {
        outcomes[task] = Status::from_current_exception();
      }
    });
  }
  const auto go_on = [&] {
    const int until = rounds + 3;
    const wire::Deadline limit = wire::soon();
    while (rounds < until && !limit.passed()) std::this_thread::yield();
    EXPECT_GE(rounds.load(), until) << outcomes[0].message() << "\n" << outcomes[1].message();
  };
  go_on();
  // With the right job and the right names, at both tasks, for both kinds of connections.
  const std::array<std::shared_ptr<wire::Transport>, 2> strangers = {
      wire::make_socket_transport(),
      wire::make_socket_transport({.job_secret = JobSecret::random()})};
  for (const auto& stranger : strangers) {
    for (const size_t at : {0, 1}) {
      for (const char* purpose : {"control", "data/x", "data/collective"}) {
        wire::Hello hello = {.job = "strata",
                             .task = wire::task_name(static_cast<int>(1 - at)),
                             .generation = 1,
                             .purpose = purpose};
        expect_error_containing(
            [&] { stranger->connect(wire::Address::parse(address(at)), hello, wire::soon()); },
            ErrorCode::kUnauthenticated, "set STRATA_JOB_SECRET_FILE");
      }
    }
  }
  // A whole task that was started without it.
  const ClusterSpec with_own_port = {{"worker", {address(0), address(2)}}};
  expect_error_containing(
      [&] {
        Server(with_own_port, {"worker", 1}, {.start_timeout = 30s});
      },
      ErrorCode::kUnauthenticated,
      str_cat("[cluster] rendezvous: /job:worker/task:1 could not reach the leader "
              "/job:worker/task:0 at ",
              address(0), ": "));
  go_on();
  stop = true;
  for (int task = 0; task < 2; ++task) {
    threads[task].join();
    EXPECT_EQ(outcomes[task].message(), "");
  }
  EXPECT_EQ(log.text().find(kSecret), std::string::npos);
}

}  // namespace
}  // namespace strata::cluster
