// Random events for the leader: each request is answered just once, and nothing is told to who is
// gone.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "cluster/membership_leader.h"
#include "strata/cluster/roles.h"

namespace strata::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RandomTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kTasks = 4;

  explicit RandomTest()
      : spec_({{"worker", {"a:1", "b:1", "c:1", "d:1"}}}),
        membership_({.spec = spec_, .members = members(spec_), .liveness = seconds(10)}) {
    open(0, 0);
    for (int task = 1; task < kTasks; ++task) open(next_session_++, task);
  }

  void open(uint64_t session, int task) {
    membership_.opened(session, {"worker", task}, now_);
    sessions_[session] = task;
  }

  ControlMessage request(MessageKind kind, const std::string& name) {
    ControlMessage message;
    message.kind = kind;
    message.request = next_request_++;
    message.generation = membership_.generation();
    message.name = name;
    message.value = "v";
    message.timeout_ms = 1 + random_() % 4000;
    return message;
  }

  void send(uint64_t session, const ControlMessage& message) {
    pending_.insert({session, message.request});
    if (message.kind == MessageKind::kJoin || message.kind == MessageKind::kLeave) {
      outlives_.insert(message.request);
    }
    membership_.received(session, message, now_);
  }

  void act() {
    auto chosen = sessions_.begin();
    std::advance(chosen, static_cast<long>(random_() % sessions_.size()));
    const uint64_t session = chosen->first;
    const std::string name(1, static_cast<char>('a' + random_() % 3));
    const uint64_t action = random_() % 100;
    if (action < 25) {
      auto join = request(MessageKind::kJoin, "");
      join.value = spec_.to_json().dump();
      join.address = "x:1";
      join.flag = random_() % 2 == 0;
      // A task asks again only when it has its answer.
      if (!joins_.contains(session)) {
        joins_.insert(session);
        send(session, join);
      }
    } else if (action < 40) {
      send(session, request(MessageKind::kSet, name));
    } else if (action < 55) {
      send(session, request(MessageKind::kGet, name));
    } else if (action < 60) {
      send(session, request(MessageKind::kErase, name));
    } else if (action < 65) {
      send(session, request(MessageKind::kCompareAndSet, name));
    } else if (action < 85) {
      auto barrier = request(MessageKind::kBarrier, name);
      barrier.number = random_() % 2;
      for (const TaskId& task : members(spec_)) barrier.tasks.push_back({task.to_string(), ""});
      if (random_() % 10 == 0) barrier.tasks.pop_back();
      send(session, barrier);
    } else if (action < 87) {
      send(session, request(MessageKind::kLeave, ""));
    } else if (action < 89 && session != 0) {
      close(session);
      open(next_session_++, chosen_task_);
    } else if (action < 90 && !pending_.empty()) {
      auto withdrawn = pending_.begin();
      std::advance(withdrawn, static_cast<long>(random_() % pending_.size()));
      if (outlives_.contains(withdrawn->second)) return;
      ControlMessage message;
      message.kind = MessageKind::kCancel;
      message.request = withdrawn->second;
      membership_.received(withdrawn->first, message, now_);
      pending_.erase(withdrawn);
    } else {
      pass(milliseconds(random_() % 1500));
    }
  }

  void pass(milliseconds time) {
    now_ += time;
    for (const auto& session : sessions_) {
      ControlMessage heartbeat;
      heartbeat.kind = MessageKind::kHeartbeat;
      membership_.received(session.first, heartbeat, now_);
    }
    membership_.tick(now_);
    EXPECT_GE(membership_.next_event(), now_);
  }

  void close(uint64_t session) {
    chosen_task_ = sessions_.at(session);
    sessions_.erase(session);
    joins_.erase(session);
    std::erase_if(pending_, [&](const auto& each) { return each.first == session; });
    membership_.closed(session, "went", now_);
  }

  void look() {
    for (const Envelope& each : membership_.take_outbox()) {
      ASSERT_TRUE(sessions_.contains(each.session))
          << "told to who is gone: kind " << static_cast<uint32_t>(each.message.kind) << " "
          << each.message.value;
      const ControlMessage& message = each.message;
      if (message.kind == MessageKind::kReply) {
        const auto key = std::pair(each.session, message.request);
        ASSERT_EQ(pending_.erase(key), 1u) << "answered twice, or not asked: " << message.request;
        joins_.erase(each.session);
        answers_ += message.code == ErrorCode::kOk;
      } else if (message.kind == MessageKind::kFailed) {
        ++failures_;
        std::erase_if(pending_, [&](const auto& pending) {
          return pending.first == each.session && !outlives_.contains(pending.second);
        });
      }
    }
    ASSERT_TRUE(membership_.take_dropped().empty());
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam())};
  const ClusterSpec spec_;
  TimePoint now_{seconds(1000)};
  MembershipLeader membership_;
  uint64_t next_session_ = 1;
  uint64_t next_request_ = 1;
  int chosen_task_ = 0;
  std::map<uint64_t, int> sessions_;  // to tasks
  std::set<std::pair<uint64_t, uint64_t>> pending_;
  std::set<uint64_t> outlives_;  // requests that a failed generation does not end
  std::set<uint64_t> joins_;     // sessions that have asked to join
  int answers_ = 0;
  int failures_ = 0;
};

TEST_P(RandomTest, EachRequestIsAnsweredOnce) {
  for (int i = 0; i < 3000; ++i) {
    act();
    look();
    if (HasFatalFailure()) return;
  }
  for (int i = 0; i < 10; ++i) pass(seconds(1));
  look();
  EXPECT_TRUE(pending_.empty()) << pending_.size() << " requests were never answered";
  EXPECT_GT(answers_, 100);
  EXPECT_GT(failures_, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTest, testing::Range(0, 40));

}  // namespace
}  // namespace strata::cluster
