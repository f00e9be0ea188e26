// The leader's decisions, without wire and clock: time is what the test says.
#include "cluster/membership_leader.h"

#include <gtest/gtest.h>

#include "strata/cluster/roles.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Workers 0 to n-1; worker i has session i, until it has to be another.
class MembershipLeaderTest : public testing::Test {
 protected:
  void start(int workers) {
    std::vector<std::string> addresses;
    for (int i = 0; i < workers; ++i) addresses.push_back(str_cat("host", i, ":1"));
    spec_ = ClusterSpec({{"worker", addresses}});
    membership_.emplace(
        MembershipLeaderOptions{.spec = spec_, .members = members(spec_), .liveness = seconds(10)});
  }
  void start_and_join(int workers) {
    start(workers);
    for (int i = 0; i < workers; ++i) join(static_cast<uint64_t>(i), i);
    ASSERT_EQ(membership_->generation(), 1u);
    (void)membership_->take_outbox();
  }

  ControlMessage request(MessageKind kind, const std::string& name = "",
                         const std::string& value = "") {
    ControlMessage message;
    message.kind = kind;
    message.request = ++request_;
    message.generation = membership_->generation();
    message.name = name;
    message.value = value;
    message.timeout_ms = 5000;
    return message;
  }
  void send(uint64_t session, const ControlMessage& message) {
    membership_->received(session, message, now_);
  }
  void join(uint64_t session, int worker, bool exclude_lost = false) {
    membership_->opened(session, {"worker", worker}, now_);
    rejoin(session, worker, exclude_lost);
  }
  void rejoin(uint64_t session, int worker, bool exclude_lost = false) {
    auto message = request(MessageKind::kJoin, "", spec_.to_json().dump());
    message.address = str_cat("10.0.0.", worker, ":", 1000 + session);
    message.flag = exclude_lost;
    send(session, message);
  }
  ControlMessage barrier(const std::string& name, uint64_t round) {
    auto message = request(MessageKind::kBarrier, name);
    message.number = round;
    for (const TaskId& task : members(spec_)) message.tasks.push_back({task.to_string(), ""});
    return message;
  }
  // Time goes by in steps that are shorter than half the liveness.
  void pass(milliseconds time, const std::set<uint64_t>& alive = {}) {
    for (; time > milliseconds(0); time -= seconds(1)) {
      now_ += std::min<milliseconds>(time, seconds(1));
      for (const uint64_t session : alive) send(session, request(MessageKind::kHeartbeat));
      membership_->tick(now_);
    }
  }
  // What was sent since the last call, but for answers to heartbeats.
  std::vector<Envelope> sent() {
    auto out = membership_->take_outbox();
    std::erase_if(out,
                  [](const Envelope& e) { return e.message.kind == MessageKind::kHeartbeatAck; });
    return out;
  }
  // The only message since the last call.
  ControlMessage only() {
    const auto out = sent();
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? ControlMessage() : out[0].message;
  }

  ClusterSpec spec_;
  std::optional<MembershipLeader> membership_;
  TimePoint now_{seconds(1000)};
  uint64_t request_ = 0;
};

TEST_F(MembershipLeaderTest, AGenerationBeginsWhenAllAreThere) {
  start(3);
  join(0, 0);
  join(2, 2);
  EXPECT_TRUE(sent().empty());
  join(1, 1);
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  for (const Envelope& each : out) {
    EXPECT_EQ(each.message.kind, MessageKind::kReply);
    EXPECT_EQ(each.message.code, ErrorCode::kOk);
    EXPECT_EQ(each.message.generation, 1u);
    EXPECT_EQ(each.message.tasks,
              (std::vector<TaskAddress>{{"/job:worker/task:0", "10.0.0.0:1000"},
                                        {"/job:worker/task:1", "10.0.0.1:1001"},
                                        {"/job:worker/task:2", "10.0.0.2:1002"}}));
  }
}

TEST_F(MembershipLeaderTest, WhoIsAbsentIsNamed) {
  start(3);
  join(1, 1);
  pass(milliseconds(4999), {1});
  EXPECT_TRUE(sent().empty());
  pass(milliseconds(1), {1});
  const auto answer = only();
  EXPECT_EQ(answer.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(
      answer.value,
      "[cluster] rendezvous: /job:worker/task:0 at host0:1, /job:worker/task:2 at host2:1 did "
      "not join within 5 s; 1 of 3 tasks had joined");
}

TEST_F(MembershipLeaderTest, DifferentSpecsAreCompared) {
  start(2);
  membership_->opened(1, {"worker", 1}, now_);
  const auto join_with = [&](const ClusterSpec& spec) {
    send(1, request(MessageKind::kJoin, "", spec.to_json().dump()));
    return only();
  };
  const auto other = join_with(ClusterSpec({{"worker", {"host0:1", "host1:2"}}}));
  EXPECT_EQ(other.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      other.value,
      "[cluster] rendezvous: got two cluster specs: for /job:worker/task:1 the leader "
      "/job:worker/task:0 has \"host1:1\", /job:worker/task:1 has \"host1:2\"; give all tasks "
      "the same one");
  EXPECT_EQ(join_with(ClusterSpec({{"worker", {"host0:1", "host1:1", "host2:1"}}})).value,
            "[cluster] rendezvous: got two cluster specs: for /job:worker/task:2 the leader "
            "/job:worker/task:0 has no such task, /job:worker/task:1 has \"host2:1\"; give all "
            "tasks the same one");
  // Who waits for it learns why it did not come.
  join(0, 0);
  pass(seconds(5));
  EXPECT_EQ(only().value,
            "[cluster] rendezvous: /job:worker/task:1 at host1:1 (refused: [cluster] rendezvous: "
            "got two cluster specs: for /job:worker/task:2 the leader /job:worker/task:0 has no "
            "such task, /job:worker/task:1 has \"host2:1\"; give all tasks the same one) did not "
            "join within 5 s; 1 of 2 tasks had joined");
}

TEST_F(MembershipLeaderTest, StrangersAndDoublesAreRefused) {
  start(3);
  join(1, 1);
  membership_->opened(7, {"worker", 7}, now_);
  rejoin(7, 7);
  EXPECT_EQ(only().value,
            "[cluster] rendezvous: got /job:worker/task:7, which is not in the leader's cluster, "
            "ClusterSpec({'worker': ['host0:1', 'host1:1', 'host2:1']})");
  join(8, 1);
  const auto answer = only();
  EXPECT_EQ(answer.code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(answer.value,
            "[cluster] rendezvous: got two processes that are /job:worker/task:1, one at "
            "10.0.0.1:1001 and one at 10.0.0.1:1008; give each its own task");
}

TEST_F(MembershipLeaderTest, GetWaitsForSet) {
  start_and_join(2);
  const auto get = request(MessageKind::kGet, "key");
  send(1, get);
  EXPECT_TRUE(sent().empty());
  const auto set = request(MessageKind::kSet, "key", "value");
  send(0, set);
  const auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].session, 1u);
  EXPECT_EQ(out[0].message.request, get.request);
  EXPECT_EQ(out[0].message.value, "value");
  EXPECT_EQ(out[1].message.request, set.request);
  auto now = request(MessageKind::kGet, "other");
  now.number = 1;
  send(1, now);
  EXPECT_FALSE(only().flag);
  send(1, request(MessageKind::kGet, "never"));
  pass(seconds(5), {1});
  const auto answer = only();
  EXPECT_EQ(answer.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(answer.value, "[cluster] store: no task has set \"never\" within 5 s");
}

TEST_F(MembershipLeaderTest, CompareAndSetHasOneWinner) {
  start_and_join(2);
  send(0, request(MessageKind::kCompareAndSet, "k", "a"));
  EXPECT_TRUE(only().flag);
  send(1, request(MessageKind::kCompareAndSet, "k", "b"));
  auto answer = only();
  EXPECT_FALSE(answer.flag);
  EXPECT_EQ(answer.expected, "a");
  auto swap = request(MessageKind::kCompareAndSet, "k", "c");
  swap.expected = "a";
  send(1, swap);
  answer = only();
  EXPECT_TRUE(answer.flag);
  EXPECT_EQ(answer.expected, "c");
  swap.name = "none";
  send(1, swap);
  answer = only();
  EXPECT_FALSE(answer.flag);
  EXPECT_EQ(answer.expected, std::nullopt);
  send(1, request(MessageKind::kErase, "k"));
  EXPECT_TRUE(only().flag);
  send(1, request(MessageKind::kErase, "k"));
  EXPECT_FALSE(only().flag);
}

TEST_F(MembershipLeaderTest, TheStoreHasBounds) {
  start_and_join(1);
  const auto answer = [&](const std::string& key, const std::string& value, bool replace = true) {
    auto set = request(MessageKind::kSet, key, value);
    set.flag = replace;
    send(0, set);
    return only();
  };
  EXPECT_EQ(answer("", "v").value, "[cluster] store: got a key of 0 bytes; expected 1 to 1024");
  EXPECT_EQ(answer(std::string(1025, 'k'), "v").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(answer("k", std::string(Store::kMaxValue + 1, 'v')).value,
            "[cluster] store: got 8388609 bytes for \"k\"; expected at most 8388608: send tensors "
            "over a connection");
  const std::string large(Store::kMaxValue, 'v');
  for (size_t i = 0; i < Store::kMaxTotal / Store::kMaxValue; ++i) {
    EXPECT_EQ(answer(str_cat("k", i), large).code, ErrorCode::kOk);
  }
  EXPECT_EQ(answer("k0", large).code, ErrorCode::kOk);
  EXPECT_EQ(
      answer("k", "v").value,
      "[cluster] store: got 1 bytes for \"k\", with 268435456 of 268435456 in use; erase keys "
      "that are not needed");
  send(0, request(MessageKind::kErase, "k0"));
  (void)sent();
  EXPECT_EQ(answer("k", "v").code, ErrorCode::kOk);
  EXPECT_EQ(answer("k", "w", false).value,
            "[cluster] store: \"k\" is set already, and was not to be replaced");
}

TEST_F(MembershipLeaderTest, ABarrierOpensForAllAtOnce) {
  start_and_join(3);
  send(2, barrier("b", 0));
  send(0, barrier("b", 0));
  EXPECT_TRUE(sent().empty());
  send(1, barrier("b", 0));
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  for (const Envelope& each : out) EXPECT_EQ(each.message.code, ErrorCode::kOk);
  // The next round is another barrier: who is fast does not meet who is slow.
  send(1, barrier("b", 1));
  send(0, barrier("b", 2));
  EXPECT_TRUE(sent().empty());
}

TEST_F(MembershipLeaderTest, ABarrierSaysWhoIsAbsent) {
  start_and_join(3);
  send(2, barrier("b", 0));
  pass(seconds(5), {1, 2});
  const std::string message =
      "[cluster] barrier \"b\": /job:worker/task:0 at 10.0.0.0:1000, /job:worker/task:1 at "
      "10.0.0.1:1001 did not join within 5 s; 1 of 3 were there";
  auto answer = only();
  EXPECT_EQ(answer.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(answer.value, message);
  // Who comes later does not wait for those who have given up.
  send(0, barrier("b", 0));
  EXPECT_EQ(only().value, message);
  send(1, barrier("b", 0));
  EXPECT_EQ(only().value, message);
  for (uint64_t i = 0; i < 3; ++i) send(i, barrier("b", 1));
  for (const Envelope& each : sent()) EXPECT_EQ(each.message.code, ErrorCode::kOk);
}

TEST_F(MembershipLeaderTest, BarriersAreForThoseWhoAreMeant) {
  start_and_join(3);
  auto other = barrier("b", 0);
  other.tasks.pop_back();
  send(2, other);
  EXPECT_EQ(only().value,
            "[cluster] barrier \"b\": got worker:2, which is not a participant: worker:0, "
            "worker:1");
  send(0, other);
  send(1, barrier("b", 0));
  const auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  for (const Envelope& each : out) {
    EXPECT_EQ(each.message.value,
              "[cluster] barrier \"b\": worker:1 expects worker:0, worker:1, worker:2, but "
              "worker:0 expects worker:0, worker:1");
  }
}

TEST_F(MembershipLeaderTest, ABarrierWithoutWhoHasEndedFails) {
  start_and_join(3);
  send(0, barrier("b", 0));
  send(1, request(MessageKind::kLeave));
  const auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  const std::string message =
      "[cluster] barrier \"b\": /job:worker/task:1 at 10.0.0.1:1001 has ended and will not come; "
      "do "
      "all tasks make the same calls?";
  EXPECT_EQ(out[0].message.value, message);
  EXPECT_EQ(out[1].message.code, ErrorCode::kOk);
  membership_->closed(1, "closed its connection", now_);
  send(2, barrier("c", 0));
  EXPECT_EQ(only().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(membership_->failure().ok());
}

TEST_F(MembershipLeaderTest, AClosedConnectionEndsTheGenerationForAll) {
  start_and_join(3);
  auto heartbeat = request(MessageKind::kHeartbeat);
  heartbeat.operation = "step 17";
  send(2, heartbeat);
  send(1, request(MessageKind::kGet, "key"));
  now_ += milliseconds(400);
  membership_->closed(2, "closed its connection without leaving", now_);
  const std::string message =
      "[cluster] /job:worker/task:2 at 10.0.0.2:1002 is lost: it closed its connection without "
      "leaving; its last known operation, 0.4 s ago: step 17";
  const auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  for (const Envelope& each : out) {
    EXPECT_EQ(each.message.kind, MessageKind::kFailed);
    EXPECT_EQ(each.message.code, ErrorCode::kUnavailable);
    EXPECT_EQ(each.message.value, message);
    EXPECT_EQ(each.message.name, "/job:worker/task:2");
  }
  // What follows from it is not news; later requests get the same error.
  membership_->closed(1, "closed its connection without leaving", now_);
  EXPECT_TRUE(sent().empty());
  send(0, request(MessageKind::kSet, "k", "v"));
  EXPECT_EQ(only().value, message);
}

TEST_F(MembershipLeaderTest, SilenceIsNoticedWithinTheInterval) {
  start_and_join(3);
  send(1, barrier("epoch", 0));
  pass(milliseconds(9999), {0, 2});
  (void)sent();  // the barrier's deadline
  EXPECT_TRUE(membership_->failure().ok());
  pass(milliseconds(1), {0, 2});
  EXPECT_EQ(membership_->failure().message(),
            "[cluster] /job:worker/task:1 at 10.0.0.1:1001 is lost: it was silent for 10 s; its "
            "last known operation, 10 s ago: barrier \"epoch\"");
  const auto dropped = membership_->take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].first, 1u);
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(MembershipLeaderTest, WhoStoodStillItselfBlamesNobody) {
  start_and_join(3);
  pass(seconds(1), {1, 2});
  now_ += seconds(100);  // stopped, and continued
  membership_->tick(now_);
  EXPECT_TRUE(membership_->failure().ok());
  pass(milliseconds(9000), {2});
  EXPECT_TRUE(membership_->failure().ok());
  pass(seconds(1), {2});
  EXPECT_FALSE(membership_->failure().ok());
}

TEST_F(MembershipLeaderTest, ABrokenConnectionBetweenTwoTasksEndsTheGeneration) {
  start_and_join(3);
  send(0, request(MessageKind::kSuspect, "/job:worker/task:2", "connection reset"));
  pass(milliseconds(499), {1, 2});
  EXPECT_TRUE(sent().empty());
  pass(milliseconds(1), {1, 2});
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].message.value,
            "[cluster] /job:worker/task:0 at 10.0.0.0:1000 lost /job:worker/task:2 at "
            "10.0.0.2:1002: connection reset");
  // If the task is gone altogether, that is the news.
  start_and_join(3);
  send(0, request(MessageKind::kSuspect, "/job:worker/task:2", "connection reset"));
  membership_->closed(2, "closed its connection without leaving", now_);
  EXPECT_NE(sent().at(0).message.value.find("task:2 at 10.0.0.2:1002 is lost"), std::string::npos);
}

// Who has lost a peer ends its other connections, and is reported for that.
TEST_F(MembershipLeaderTest, OfSeveralReportsTheCauseIsTold) {
  const auto report = [&](uint64_t reporter, int lost) {
    send(reporter, request(MessageKind::kSuspect, str_cat("/job:worker/task:", lost), "reset"));
  };
  const auto verdict = [&] {
    pass(milliseconds(500), {1, 2, 3});
    const auto out = sent();
    return out.empty() ? "" : out[0].message.value;
  };
  start_and_join(4);
  report(0, 1);  // a consequence, read first
  report(1, 3);
  EXPECT_TRUE(verdict().starts_with(
      "[cluster] /job:worker/task:1 at 10.0.0.1:1001 lost /job:worker/task:3 at 10.0.0.3:1003"));
  start_and_join(4);
  report(3, 1);  // a consequence
  report(2, 1);  // a link that was cut
  report(1, 2);
  EXPECT_TRUE(verdict().starts_with(
      "[cluster] /job:worker/task:2 at 10.0.0.2:1002 lost /job:worker/task:1 at 10.0.0.1:1001"));
}

TEST_F(MembershipLeaderTest, WhatATaskHasMetIsWhatAllGet) {
  start_and_join(3);
  auto message = request(MessageKind::kAbort, "", "all_reduce b: ranks disagree");
  message.code = ErrorCode::kFailedPrecondition;
  send(1, message);
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].message.code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(out[0].message.value,
            "[cluster] /job:worker/task:1 at 10.0.0.1:1001: all_reduce b: ranks disagree");
}

TEST_F(MembershipLeaderTest, WhoGivesUpTellsWhy) {
  start_and_join(3);
  send(1, request(MessageKind::kAbort, "", "loss is NaN"));
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].message.code, ErrorCode::kAborted);
  EXPECT_EQ(out[0].message.value,
            "[cluster] /job:worker/task:1 at 10.0.0.1:1001 aborted: loss is NaN");
}

TEST_F(MembershipLeaderTest, AReplacementBeginsTheNextGeneration) {
  start_and_join(3);
  send(0, request(MessageKind::kSet, "k", "v"));
  membership_->closed(2, "closed its connection without leaving", now_);
  (void)sent();
  rejoin(0, 0);
  rejoin(1, 1);
  EXPECT_TRUE(sent().empty());
  join(12, 2);
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  for (const Envelope& each : out) {
    EXPECT_EQ(each.message.generation, 2u);
    EXPECT_EQ(each.message.tasks[2].address, "10.0.0.2:1012");
  }
  EXPECT_TRUE(membership_->failure().ok());
  // What the generation before had stored is gone, and its late messages mean nothing.
  auto get = request(MessageKind::kGet, "k");
  get.number = 1;
  send(12, get);
  EXPECT_FALSE(only().flag);
  auto late = request(MessageKind::kSet, "k", "old");
  late.generation = 1;
  send(1, late);
  EXPECT_EQ(only().value, "[cluster] generation 1 is over; now is 2");
}

TEST_F(MembershipLeaderTest, SurvivorsGoOnWithoutTheLostIfAllAgree) {
  start_and_join(3);
  membership_->closed(2, "closed its connection without leaving", now_);
  (void)sent();
  rejoin(0, 0, true);
  rejoin(1, 1, true);
  auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].message.tasks.size(), 2u);
  EXPECT_EQ(membership_->generation(), 2u);
  // A replacement waits, is announced, and comes in when the others join anew.
  join(12, 2);
  out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].message.kind, MessageKind::kJoinPending);
  EXPECT_EQ(out[0].message.name, "/job:worker/task:2");
  rejoin(0, 0, true);
  rejoin(1, 1, true);
  out = sent();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[2].message.tasks.size(), 3u);
  EXPECT_EQ(membership_->generation(), 3u);
}

TEST_F(MembershipLeaderTest, WithoutConsentAllWaitForTheLost) {
  start_and_join(3);
  membership_->closed(2, "closed its connection without leaving", now_);
  (void)sent();
  rejoin(0, 0, true);
  rejoin(1, 1, false);
  EXPECT_TRUE(sent().empty());
  // Nobody may be left out who is not lost.
  start_and_join(3);
  rejoin(0, 0, true);
  rejoin(1, 1, true);
  EXPECT_TRUE(sent().empty());
}

TEST_F(MembershipLeaderTest, TheLeaderGoesLast) {
  start_and_join(3);
  const auto leave = request(MessageKind::kLeave);
  send(0, leave);
  send(1, request(MessageKind::kLeave));
  EXPECT_EQ(only().code, ErrorCode::kOk);
  membership_->closed(1, "closed its connection", now_);
  EXPECT_TRUE(sent().empty());
  // It still serves those who are there.
  send(2, request(MessageKind::kSet, "k", "v"));
  EXPECT_EQ(only().code, ErrorCode::kOk);
  send(2, request(MessageKind::kLeave));
  const auto out = sent();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].session, 2u);
  EXPECT_EQ(out[1].message.kind, MessageKind::kClosing);
  EXPECT_EQ(out[2].message.request, leave.request);
  EXPECT_TRUE(membership_->failure().ok());
}

TEST_F(MembershipLeaderTest, TheLeaderGoesAtItsDeadlineAndWhenTheGenerationHasFailed) {
  start_and_join(2);
  send(0, request(MessageKind::kLeave));
  pass(seconds(5), {1});
  auto out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].message.kind, MessageKind::kClosing);
  start_and_join(3);
  membership_->closed(2, "closed its connection without leaving", now_);
  (void)sent();
  send(0, request(MessageKind::kLeave));
  out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.back().session, 0u);
}

TEST_F(MembershipLeaderTest, NonsenseClosesItsSessionOnly) {
  start_and_join(3);
  auto nonsense = barrier("b", 0);
  nonsense.tasks.push_back({"no task", ""});
  send(1, nonsense);
  const auto dropped = membership_->take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].first, 1u);
  EXPECT_EQ(dropped[0].second.code(), ErrorCode::kDataLoss);
  EXPECT_EQ(sent().size(), 2u);  // the generation has lost a member
  send(99, nonsense);            // no such session
  EXPECT_TRUE(sent().empty());
}

TEST_F(MembershipLeaderTest, ARequestCanBeWithdrawn) {
  start_and_join(2);
  const auto get = request(MessageKind::kGet, "k");
  send(1, get);
  ControlMessage cancel;
  cancel.kind = MessageKind::kCancel;
  cancel.request = get.request;
  send(1, cancel);
  const auto meet = barrier("b", 0);
  send(1, meet);
  cancel.request = meet.request;
  send(1, cancel);
  send(0, request(MessageKind::kSet, "k", "v"));
  EXPECT_EQ(sent().size(), 1u);
  send(0, barrier("b", 0));
  EXPECT_TRUE(sent().empty());
}

// Nobody watches a job that waits in silence.
TEST_F(MembershipLeaderTest, ALongRendezvousSaysWhomItWaitsFor) {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](const LogRecord& record) { lines.emplace_back(record.message); });
  start(3);
  const auto join_patiently = [&](int worker) {
    const auto session = static_cast<uint64_t>(worker);
    membership_->opened(session, {"worker", worker}, now_);
    auto message = request(MessageKind::kJoin, "", spec_.to_json().dump());
    message.address = str_cat("10.0.0.", worker, ":1000");
    message.timeout_ms = 300'000;
    send(session, message);
  };
  join_patiently(0);
  pass(seconds(4));
  EXPECT_TRUE(lines.empty());
  EXPECT_LE(membership_->next_event(), now_ + seconds(2));
  pass(seconds(3));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("[cluster] rendezvous: waits for /job:worker/task:1 at host1:1, "
                          "/job:worker/task:2 at host2:1; 1 of 3 tasks have joined; "),
            std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find(" of 300 s so far"), std::string::npos) << lines[0];
  pass(seconds(25));
  EXPECT_EQ(lines.size(), 1u);
  join_patiently(1);
  pass(seconds(8), {1});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("waits for /job:worker/task:2 at host2:1; 2 of 3 tasks have joined"),
            std::string::npos)
      << lines[1];
  // All are there: it is over.
  join_patiently(2);
  pass(seconds(60), {1, 2});
  EXPECT_EQ(lines.size(), 2u);
  set_log_sink(before);
}

}  // namespace
}  // namespace strata::cluster
