#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/pending_request.h"
#include "strata/cluster/cluster_spec.h"

namespace strata::cluster {

/// Where a task is, for messages: "/job:worker/task:2 at 10.0.0.3:4444".
using DescribeTask = std::function<std::string(const TaskId&)>;

/// The leader's barriers. One is known by its name and by how often a task was there before, so
/// that a late task can never join the next round. When it fails for one, it fails for
/// all, and for those who come later.
class Barriers {
 public:
  explicit Barriers(DescribeTask describe) : describe_(std::move(describe)) {}

  void arrive(const TaskId& task, const PendingRequest& from, const ControlMessage& request,
              Outbox& out);
  /// `task` will not come to any barrier again.
  void left(const TaskId& task, Outbox& out);

  void expire(TimePoint now, Outbox& out);
  TimePoint next_deadline() const;
  /// The task no longer waits: for the others it never came.
  void cancel(uint64_t session, uint64_t request);
  /// The same for all that a session waits for, which gets `status`.
  void fail(uint64_t session, const Status& status, Outbox& out);
  void clear(const Status& status, Outbox& out);

 private:
  using Key = std::pair<std::string, uint64_t>;
  struct Round {
    std::vector<TaskId> members;
    std::map<TaskId, PendingRequest> arrived;  // and not answered
    std::set<TaskId> answered;                 // of a round that has failed
    std::optional<Status> failure;
  };

  void end(const Key& key, Round& round, const Status& status, Outbox& out);
  std::string absent(const Round& round) const;
  bool over(const Round& round) const { return round.answered.size() == round.members.size(); }

  DescribeTask describe_;
  std::map<Key, Round> rounds_;
  std::set<TaskId> left_;
};

}  // namespace strata::cluster
