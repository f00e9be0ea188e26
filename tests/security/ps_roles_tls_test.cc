// The table of docs/clusters.md, "Who may do what", over mutual TLS: each task has a certificate of
// its own, and asks for each action. Only where this build has OpenSSL.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "ps/coordinator/call_message.h"
#include "ps/tables/parameter_server.h"
#include "ps/tables/request.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/tls_environment.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/table.h"
#include "strata/ps/worker_server.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"
#include "support/temp_folder.h"
#include "wire/tcp/socket_transport.h"
#include "wire/tls/certificates.h"

namespace strata::ps {
namespace {

using cluster::TaskId;

enum class Wish { kRead, kTrain, kEndJob, kKeepCopies, kCoordinate };

struct Row {
  TaskId task;
  std::vector<Wish> granted;
};

/// Two parameter servers, and worker 0 that serves a coordinator, on 127.0.0.1 with certificates.
class RolesByTlsTest : public testing::Test {
 protected:
  RolesByTlsTest() { wire::write_certificate(authority_, folder_.path(), "authority"); }

  void start(bool with_chief, const TaskId& coordinator = {"chief", 0}) {
    const std::vector<int> ports = test::free_ports(6);
    const auto address = [&](size_t i) { return str_cat("127.0.0.1:", ports[i]); };
    std::map<std::string, std::vector<std::string>> jobs = {{"ps", {address(0), address(1)}},
                                                            {"worker", {address(2), address(3)}},
                                                            {"evaluator", {address(4)}}};
    if (with_chief) jobs["chief"] = {address(5)};
    spec_ = cluster::ClusterSpec(jobs);
    for (int i = 0; i < 2; ++i) {
      const TaskId task = {"ps", i};
      servers_.push_back(std::make_unique<ParameterServer>(
          spec_, task, ParameterServerOptions{.server = {.tls = certificate_of(task)}}));
    }
    const TaskId worker = {"worker", 0};
    worker_.emplace(
        spec_, worker, FunctionRegistry(),
        WorkerOptions{.server = {.tls = certificate_of(worker)}, .coordinator = coordinator});
  }

  wire::TlsOptions certificate_of(const TaskId& task) {
    const std::string name = cluster::certificate_file_name(task);
    const std::string path = str_cat(folder_.path(), "/", name);
    if (certified_.insert(name).second) {
      wire::write_certificate(wire::issue_certificate(authority_, task.to_string()), folder_.path(),
                              name);
    }
    return {.authority_file = str_cat(folder_.path(), "/authority.pem"),
            .certificate_file = str_cat(path, ".pem"),
            .key_file = str_cat(path, ".key")};
  }

  /// Asks `of`, as `task`, what `message` says.
  /// @return what it is refused with, at the door or by the answer; ok: it is not.
  Status ask(const TaskId& task, const TaskId& of, std::string_view purpose, uint32_t channel,
             const std::string& message,
             const std::function<Status(const std::string&)>& status_of) {
    const wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(30));
    try {
      const auto transport = wire::make_socket_transport({.tls = certificate_of(task)});
      const auto connection = transport->connect(
          wire::Address::parse(spec_.task_address(of)),
          {.job = "strata", .task = task.to_string(), .purpose = std::string(purpose)}, deadline,
          {.peer = of.to_string()});
      connection->send_message(channel, message);
      std::optional<std::string> answer;
      const bool came = transport->wait_until(
          [&] { return (answer = connection->try_receive_message(channel)).has_value(); },
          deadline);
      return came ? status_of(*answer) : Status(ErrorCode::kDeadlineExceeded, "no answer");
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
  }

  Status ask_server(const TaskId& task, int server, Request request,
                    std::string_view purpose = kPurpose) {
    request.id = 1;
    return ask(task, {"ps", server}, purpose, kTableChannel, encode(request),
               [](const std::string& answer) {
                 const Reply reply = decode_reply(answer);
                 return Status(reply.code, reply.text);
               });
  }

  Status outcome(const TaskId& task, Wish wish) {
    const TableSpec rows = {.name = "rows", .rows = 4, .width = 1};
    switch (wish) {
      case Wish::kRead:
        return ask_server(task, 0, {.kind = RequestKind::kCounters, .table = "rows"});
      case Wish::kTrain:
        return ask_server(
            task, 0,
            {.kind = RequestKind::kCreate, .table = "rows", .text = table_to_json(rows).dump()});
      case Wish::kEndJob:
        return ask_server(task, 1, {.kind = RequestKind::kLeave, .flag = true});
      case Wish::kKeepCopies:  // server 1 keeps the copies of server 0
        return ask_server(task, 1, {.kind = RequestKind::kBackup}, kBackupPurpose);
      case Wish::kCoordinate:
        return ask(task, {"worker", 0}, kCoordinatorPurpose, kCallChannel,
                   encode(CallMessage{.kind = CallKind::kPing}),
                   [](const std::string&) { return Status(); });
    }
    return {ErrorCode::kInternal, "no such wish"};
  }

  /// In this order: what one task may make, those below may read.
  void expect_table(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (const Wish wish :
           {Wish::kTrain, Wish::kRead, Wish::kEndJob, Wish::kKeepCopies, Wish::kCoordinate}) {
        const bool granted = std::ranges::count(row.granted, wish) > 0;
        const Status status = outcome(row.task, wish);
        EXPECT_EQ(error_code_name(status.code()),
                  error_code_name(granted ? ErrorCode::kOk : ErrorCode::kPermissionDenied))
            << row.task.to_string() << ", wish " << static_cast<int>(wish) << ": "
            << status.message();
      }
    }
  }

  const test::TempFolder folder_;
  const wire::Certificate authority_ = wire::make_authority("job");
  std::set<std::string> certified_;
  cluster::ClusterSpec spec_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::optional<WorkerServer> worker_;
};

TEST_F(RolesByTlsTest, EachTaskMayDoWhatTheTableSays) {
  start(/*with_chief=*/true);
  expect_table({
      {{"chief", 0}, {Wish::kRead, Wish::kTrain, Wish::kEndJob, Wish::kCoordinate}},
      {{"worker", 0}, {Wish::kRead, Wish::kTrain}},
      {{"worker", 1}, {Wish::kRead, Wish::kTrain}},
      {{"ps", 0}, {Wish::kKeepCopies}},
      {{"ps", 1}, {}},  // it has no copies on itself
      {{"evaluator", 0}, {Wish::kRead}},
      // Not in the cluster, though the job's authority has signed for them.
      {{"worker", 2}, {}},
      {{"visitor", 0}, {}},
  });
}

TEST_F(RolesByTlsTest, WithoutAChiefWorker0EndsTheJob) {
  start(/*with_chief=*/false);
  expect_table({
      {{"worker", 0}, {Wish::kRead, Wish::kTrain, Wish::kEndJob}},
      {{"worker", 1}, {Wish::kRead, Wish::kTrain}},
      {{"chief", 0}, {Wish::kCoordinate}},  // named by WorkerOptions::coordinator
  });
}

TEST_F(RolesByTlsTest, TheTaskThatTheWorkersNameCoordinatesAlone) {
  start(/*with_chief=*/true, {"visitor", 0});
  expect_table({
      {{"visitor", 0}, {Wish::kCoordinate}},
      {{"chief", 0}, {Wish::kRead, Wish::kTrain, Wish::kEndJob}},
  });
}

// What a peer says that it is counts for nothing without a certificate that says the same.
TEST_F(RolesByTlsTest, AWorkerThatSaysItIsTheChiefIsRefused) {
  start(/*with_chief=*/true);
  const auto transport = wire::make_socket_transport({.tls = certificate_of({"worker", 1})});
  for (const auto& [of, purpose] : std::vector<std::pair<TaskId, std::string_view>>{
           {{"ps", 0}, kPurpose}, {{"worker", 0}, kCoordinatorPurpose}}) {
    expect_error_containing(
        [&, of = of, purpose = purpose] {
          (void)transport->connect(
              wire::Address::parse(spec_.task_address(of)),
              {.job = "strata", .task = "/job:chief/task:0", .purpose = std::string(purpose)},
              wire::Deadline::after(std::chrono::seconds(30)), {.peer = of.to_string()});
        },
        ErrorCode::kUnauthenticated, "its certificate is of worker-1.strata");
  }
}

}  // namespace
}  // namespace strata::ps
