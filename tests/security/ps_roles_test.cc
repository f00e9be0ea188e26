// Who may do what at a parameter server and at a worker that serves a coordinator: each cell of the
// table in docs/clusters.md, "Who may do what".
#include <gtest/gtest.h>

#include <map>

#include "ps/permissions.h"
#include "ps/ps_cluster.h"
#include "security/raw_worker.h"

namespace strata::ps {
namespace {

const cluster::ClusterSpec kSpec({{"chief", {"chief-0:1"}},
                                  {"worker", {"worker-0:1", "worker-1:1"}},
                                  {"ps", {"ps-0:1", "ps-1:1"}},
                                  {"evaluator", {"evaluator-0:1"}}});

struct Role {
  std::string task;
  bool read, train, end_job, keep_copies, coordinate;
};

const std::vector<Role> kRows = {
    {"/job:chief/task:0", true, true, true, false, true},
    {"/job:worker/task:0", true, true, false, false, false},
    {"/job:worker/task:1", true, true, false, false, false},
    {"/job:ps/task:1", false, false, false, true, false},
    {"/job:evaluator/task:0", true, false, false, false, false},
    // Not in the cluster, though a certificate of the job's authority may name them.
    {"/job:worker/task:2", false, false, false, false, false},
    {"/job:visitor/task:0", false, false, false, false, false},
    {"no task", false, false, false, false, false},
};

TEST(PermissionsTest, EachTaskMayDoWhatTheTableSays) {
  for (const Role& row : kRows) {
    EXPECT_EQ(permitted(kSpec, row.task, Action::kRead).ok(), row.read) << row.task;
    EXPECT_EQ(permitted(kSpec, row.task, Action::kTrain).ok(), row.train) << row.task;
    EXPECT_EQ(permitted(kSpec, row.task, Action::kEndJob).ok(), row.end_job) << row.task;
    EXPECT_EQ(permitted(kSpec, row.task, Action::kKeepCopies).ok(), row.keep_copies) << row.task;
    EXPECT_EQ(permitted(kSpec, row.task, Action::kCoordinate).ok(), row.coordinate) << row.task;
  }
}

TEST(PermissionsTest, RefusalsSayWhoMay) {
  const Status status = permitted(kSpec, "/job:evaluator/task:0", Action::kTrain);
  EXPECT_EQ(status.code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(status.message(),
            "got a wish of /job:evaluator/task:0 to train tables; expected the chief or a worker");
}

TEST(PermissionsTest, WithoutAChiefWorker0EndsTheJob) {
  const cluster::ClusterSpec spec({{"worker", {"worker-0:1", "worker-1:1"}}, {"ps", {"ps-0:1"}}});
  EXPECT_TRUE(permitted(spec, "/job:worker/task:0", Action::kEndJob).ok());
  EXPECT_FALSE(permitted(spec, "/job:worker/task:1", Action::kEndJob).ok());
}

TEST(PermissionsTest, AnotherCoordinatorMayBeNamed) {
  EXPECT_TRUE(permitted(kSpec, "/job:visitor/task:0", Action::kCoordinate, {"visitor", 0}).ok());
  EXPECT_FALSE(permitted(kSpec, "/job:chief/task:0", Action::kCoordinate, {"visitor", 0}).ok());
}

TEST(PermissionsTest, EveryRequestIsAnAction) {
  const std::map<RequestKind, Action> expected = {
      {RequestKind::kCreate, Action::kTrain},       {RequestKind::kFill, Action::kTrain},
      {RequestKind::kPull, Action::kTrain},         {RequestKind::kPush, Action::kTrain},
      {RequestKind::kPullRows, Action::kTrain},     {RequestKind::kPushRows, Action::kTrain},
      {RequestKind::kRead, Action::kRead},          {RequestKind::kCounters, Action::kRead},
      {RequestKind::kLeave, Action::kRead},         {RequestKind::kMapSegment, Action::kTrain},
      {RequestKind::kUnmapSegment, Action::kTrain}, {RequestKind::kBackup, Action::kTrain},
      {RequestKind::kReplaces, Action::kTrain},     {RequestKind::kOpenMailbox, Action::kTrain}};
  for (const auto& [kind, action] : expected) {
    EXPECT_EQ(action_of({.kind = kind}), action) << static_cast<uint32_t>(kind);
  }
  EXPECT_EQ(action_of({.kind = RequestKind::kLeave, .flag = true}), Action::kEndJob);
}

/// A server of `kSpec`, and peers of all roles.
class RolesTest : public testing::Test {
 protected:
  RolesTest() : server_(kSpec, {"ps", 0}, {.server = {.transport = network_.transport("ps-0")}}) {}

  Reply ask(const std::string& host, const std::string& task, const Request& request) {
    test::RawWorker peer(network_, host, task);
    return peer.ask(request);
  }

  wire::MemoryNetwork network_;
  ParameterServer server_;
};

TEST_F(RolesTest, AnEvaluatorReadsAndNothingElse) {
  const TableSpec spec = {.name = "rows", .rows = 4, .width = 1};
  const Request make = {
      .kind = RequestKind::kCreate, .table = "rows", .text = table_to_json(spec).dump()};
  EXPECT_EQ(ask("evaluator-0", "/job:evaluator/task:0", make).code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(ask("worker-0", "/job:worker/task:0", make).code, ErrorCode::kOk);
  EXPECT_EQ(
      ask("evaluator-0", "/job:evaluator/task:0", {.kind = RequestKind::kCounters, .table = "rows"})
          .code,
      ErrorCode::kOk);
  for (const RequestKind kind : {RequestKind::kFill, RequestKind::kPullRows, RequestKind::kPushRows,
                                 RequestKind::kMapSegment, RequestKind::kUnmapSegment,
                                 RequestKind::kReplaces, RequestKind::kOpenMailbox}) {
    EXPECT_EQ(ask("evaluator-0", "/job:evaluator/task:0", {.kind = kind, .table = "rows"}).code,
              ErrorCode::kPermissionDenied)
        << static_cast<uint32_t>(kind);
  }
}

TEST_F(RolesTest, OnlyTheChiefEndsTheJob) {
  const Request end = {.kind = RequestKind::kLeave, .flag = true};
  const Reply refused = ask("worker-1", "/job:worker/task:1", end);
  EXPECT_EQ(refused.code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.text.find("to end the job; expected the chief"), std::string::npos)
      << refused.text;
  EXPECT_EQ(ask("chief-0", "/job:chief/task:0", end).code, ErrorCode::kOk);
}

TEST_F(RolesTest, StrangersToTheClusterAndOtherServersAreNotLetIn) {
  for (const auto& [host, task] : std::vector<std::pair<std::string, std::string>>{
           {"worker-2", "/job:worker/task:2"}, {"ps-1", "/job:ps/task:1"}, {"x", "no task"}}) {
    try {
      test::RawWorker peer(network_, host, task);
      ADD_FAILURE() << task << " was let in";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::ps
