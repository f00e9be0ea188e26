#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/pending_request.h"

namespace strata::cluster {

/// The leader's keys and values, and who waits for which. Each request is answered once, into
/// `out`.
class Store {
 public:
  void set(const PendingRequest& from, const ControlMessage& request, Outbox& out);
  void get(const PendingRequest& from, const ControlMessage& request, Outbox& out);
  void compare_and_set(const PendingRequest& from, const ControlMessage& request, Outbox& out);
  void erase(const PendingRequest& from, const ControlMessage& request, Outbox& out);

  void expire(TimePoint now, Outbox& out);
  TimePoint next_deadline() const;
  /// A request is no longer waited for.
  void cancel(uint64_t session, uint64_t request);
  /// All of a session get `status`: it is about to do something else, or is closed.
  void fail(uint64_t session, const Status& status, Outbox& out);
  /// Forgets everything; who waits gets `status`.
  void clear(const Status& status, Outbox& out);

  static constexpr size_t kMaxKey = 1024;
  static constexpr size_t kMaxValue = size_t{8} << 20;
  static constexpr size_t kMaxTotal = size_t{256} << 20;

 private:
  bool fits(const PendingRequest& from, const ControlMessage& request, Outbox& out) const;
  void put(const std::string& key, const std::string& value, Outbox& out);

  std::map<std::string, std::string> values_;
  size_t total_ = 0;  // bytes of all values
  std::multimap<std::string, PendingRequest> waiting_;
};

}  // namespace strata::cluster
