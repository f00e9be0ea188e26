#include "cluster/store.h"

#include <algorithm>

namespace strata::cluster {
namespace {

ControlMessage found(const std::string& value) {
  ControlMessage answer;
  answer.flag = true;
  answer.value = value;
  return answer;
}

}  // namespace

bool Store::fits(const PendingRequest& from, const ControlMessage& request, Outbox& out) const {
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    from.fail(out, {code, str_cat("[cluster] store: ", what)});
    return false;
  };
  if (request.name.empty() || request.name.size() > kMaxKey) {
    return refuse(ErrorCode::kInvalidArgument,
                  str_cat("got a key of ", request.name.size(), " bytes; expected 1 to ", kMaxKey));
  }
  if (request.value.size() > kMaxValue) {
    return refuse(ErrorCode::kInvalidArgument,
                  str_cat("got ", request.value.size(), " bytes for \"", request.name,
                          "\"; expected at most ", kMaxValue, ": send tensors over a connection"));
  }
  const auto old = values_.find(request.name);
  const size_t freed = old == values_.end() ? 0 : old->second.size();
  if (total_ - freed + request.value.size() > kMaxTotal) {
    return refuse(ErrorCode::kResourceExhausted,
                  str_cat("got ", request.value.size(), " bytes for \"", request.name, "\", with ",
                          total_, " of ", kMaxTotal, " in use; erase keys that are not needed"));
  }
  return true;
}

void Store::put(const std::string& key, const std::string& value, Outbox& out) {
  std::string& held = values_[key];
  total_ += value.size() - held.size();
  held = value;
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto it = begin; it != end; ++it) it->second.reply(out, found(value));
  waiting_.erase(begin, end);
}

void Store::set(const PendingRequest& from, const ControlMessage& request, Outbox& out) {
  if (!fits(from, request, out)) return;
  if (!request.flag && values_.contains(request.name)) {
    from.fail(
        out, {ErrorCode::kAlreadyExists, str_cat("[cluster] store: \"", request.name,
                                                 "\" is set already, and was not to be replaced")});
    return;
  }
  put(request.name, request.value, out);
  from.reply(out);
}

void Store::get(const PendingRequest& from, const ControlMessage& request, Outbox& out) {
  const auto it = values_.find(request.name);
  if (it != values_.end()) {
    from.reply(out, found(it->second));
  } else if (request.number == 1) {  // to be answered at once
    from.reply(out);
  } else {
    waiting_.emplace(request.name, from);
  }
}

void Store::compare_and_set(const PendingRequest& from, const ControlMessage& request,
                            Outbox& out) {
  if (!fits(from, request, out)) return;
  const auto it = values_.find(request.name);
  const bool matches = request.expected ? it != values_.end() && it->second == *request.expected
                                        : it == values_.end();
  ControlMessage answer;
  answer.flag = matches;
  if (matches) {
    put(request.name, request.value, out);
    answer.expected = request.value;
  } else if (it != values_.end()) {
    answer.expected = it->second;
  }
  from.reply(out, answer);
}

void Store::erase(const PendingRequest& from, const ControlMessage& request, Outbox& out) {
  const auto it = values_.find(request.name);
  ControlMessage answer;
  answer.flag = it != values_.end();
  if (answer.flag) {
    total_ -= it->second.size();
    values_.erase(it);
  }
  from.reply(out, answer);
}

void Store::expire(TimePoint now, Outbox& out) {
  std::erase_if(waiting_, [&](const auto& entry) {
    const auto& [key, pending] = entry;
    if (pending.deadline > now) return false;
    pending.fail(out,
                 {ErrorCode::kDeadlineExceeded, str_cat("[cluster] store: no task has set \"", key,
                                                        "\" within ", pending.timeout())});
    return true;
  });
}

TimePoint Store::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& entry : waiting_) next = std::min(next, entry.second.deadline);
  return next;
}

void Store::cancel(uint64_t session, uint64_t request) {
  std::erase_if(waiting_, [&](const auto& entry) {
    return entry.second.session == session && entry.second.request == request;
  });
}

void Store::fail(uint64_t session, const Status& status, Outbox& out) {
  std::erase_if(waiting_, [&](const auto& entry) {
    if (entry.second.session != session) return false;
    entry.second.fail(out, status);
    return true;
  });
}

void Store::clear(const Status& status, Outbox& out) {
  for (const auto& entry : waiting_) entry.second.fail(out, status);
  waiting_.clear();
  values_.clear();
  total_ = 0;
}

}  // namespace strata::cluster
