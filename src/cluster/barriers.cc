#include "cluster/barriers.h"

#include <algorithm>
#include <cstdio>

namespace strata::cluster {

std::string seconds_text(std::chrono::duration<double> duration) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g s", duration.count());
  return text;
}

std::string PendingRequest::timeout() const {
  return seconds_text(std::chrono::duration<double, std::milli>(timeout_ms));
}

namespace {

std::string listed(const std::vector<TaskId>& tasks) {
  std::string text;
  for (const TaskId& task : tasks) text += (text.empty() ? "" : ", ") + task.short_name();
  return text;
}

Status has_left(const std::string& barrier, const std::string& who) {
  return {ErrorCode::kFailedPrecondition,
          str_cat("[cluster] barrier \"", barrier, "\": ", who,
                  " has ended and will not come; do all tasks make the same calls?")};
}

}  // namespace

std::string Barriers::absent(const Round& round) const {
  std::string text;
  for (const TaskId& task : round.members) {
    if (!round.arrived.contains(task)) text += (text.empty() ? "" : ", ") + describe_(task);
  }
  return text;
}

void Barriers::end(const Key& key, Round& round, const Status& status, Outbox& out) {
  round.failure = status;
  for (const auto& [task, pending] : round.arrived) {
    pending.fail(out, status);
    round.answered.insert(task);
  }
  round.arrived.clear();
  if (over(round)) rounds_.erase(key);
}

void Barriers::arrive(const TaskId& task, const PendingRequest& from, const ControlMessage& request,
                      Outbox& out) {
  std::vector<TaskId> members;
  for (const auto& member : request.tasks) members.push_back(TaskId::parse(member.name));
  std::ranges::sort(members);
  if (std::ranges::count(members, task) != 1) {
    from.fail(out, {ErrorCode::kInvalidArgument,
                    str_cat("[cluster] barrier \"", request.name, "\": got ", task.short_name(),
                            ", which is not a participant: ", listed(members))});
    return;
  }
  const Key key = {request.name, request.number};
  const auto it = rounds_.try_emplace(key).first;
  Round& round = it->second;
  if (round.arrived.empty() && !round.failure) round.members = members;
  if (round.failure) {
    from.fail(out, *round.failure);
    round.answered.insert(task);
    if (over(round)) rounds_.erase(it);
    return;
  }
  if (round.members != members) {
    const Status status = {
        ErrorCode::kInvalidArgument,
        str_cat("[cluster] barrier \"", request.name, "\": ", task.short_name(), " expects ",
                listed(members), ", but ", round.arrived.begin()->first.short_name(), " expects ",
                listed(round.members))};
    from.fail(out, status);
    round.answered.insert(task);
    end(key, round, status, out);
    return;
  }
  if (!round.arrived.try_emplace(task, from).second) {
    from.fail(out, {ErrorCode::kInvalidArgument,
                    str_cat("[cluster] barrier \"", request.name, "\": ", task.short_name(),
                            " has already arrived")});
    return;
  }
  const auto gone =
      std::ranges::find_if(members, [&](const TaskId& m) { return left_.contains(m); });
  if (gone != members.end()) {
    end(key, round, has_left(request.name, describe_(*gone)), out);
  } else if (round.arrived.size() == round.members.size()) {
    for (const auto& arrived : round.arrived) arrived.second.reply(out);
    rounds_.erase(it);
  }
}

void Barriers::left(const TaskId& task, Outbox& out) {
  left_.insert(task);
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    const auto current = it++;
    auto& [key, round] = *current;
    if (!round.failure && std::ranges::count(round.members, task) > 0) {
      end(key, round, has_left(key.first, describe_(task)), out);
    }
  }
}

void Barriers::expire(TimePoint now, Outbox& out) {
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    const auto current = it++;
    auto& [key, round] = *current;
    const auto late = std::ranges::find_if(
        round.arrived, [&](const auto& arrived) { return arrived.second.deadline <= now; });
    if (late == round.arrived.end()) continue;
    end(key, round,
        {ErrorCode::kDeadlineExceeded,
         str_cat("[cluster] barrier \"", key.first, "\": ", absent(round), " did not join within ",
                 late->second.timeout(), "; ", round.arrived.size(), " of ", round.members.size(),
                 " were there")},
        out);
  }
}

TimePoint Barriers::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& round : rounds_) {
    for (const auto& arrived : round.second.arrived) {
      next = std::min(next, arrived.second.deadline);
    }
  }
  return next;
}

void Barriers::cancel(uint64_t session, uint64_t request) {
  for (auto& round : rounds_) {
    std::erase_if(round.second.arrived, [&](const auto& arrived) {
      return arrived.second.session == session && arrived.second.request == request;
    });
  }
}

void Barriers::fail(uint64_t session, const Status& status, Outbox& out) {
  for (auto& round : rounds_) {
    std::erase_if(round.second.arrived, [&](const auto& arrived) {
      if (arrived.second.session != session) return false;
      arrived.second.fail(out, status);
      return true;
    });
  }
}

void Barriers::clear(const Status& status, Outbox& out) {
  for (const auto& round : rounds_) {
    for (const auto& arrived : round.second.arrived) arrived.second.fail(out, status);
  }
  rounds_.clear();
  left_.clear();
}

}  // namespace strata::cluster
