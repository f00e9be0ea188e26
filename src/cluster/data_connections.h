#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "core/log_limiter.h"
#include "core/mutex.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "wire/connection.h"
#include "wire/transport.h"

namespace strata::cluster {

/// The connections between tasks that collectives and parameter servers use, by peer, purpose and
/// generation. Of two tasks the later one dials, so that there is one connection and not two.
/// Threads: any.
class DataConnections {
 public:
  explicit DataConnections(wire::Transport& transport) : transport_(transport) {}

  /// So many of one peer are kept; each may take some megabytes.
  static constexpr size_t kMostPerPeer = 256;

  /// A peer has dialled. Beyond kMostPerPeer its closed ones are forgotten, and if all are open the
  /// new one is refused. @param purpose  As it asked for.
  void accept(const std::string& purpose, std::shared_ptr<wire::Connection> connection);

  struct Peer {
    TaskId task;
    std::string address;
    uint64_t generation;
  };
  /// Waits for the peer to dial.
  std::shared_ptr<wire::Connection> await(const Peer& peer, const std::string& purpose,
                                          wire::Deadline deadline, const std::stop_token& stop);
  std::shared_ptr<wire::Connection> dial(const Peer& peer, const std::string& purpose,
                                         wire::Hello hello, wire::Deadline deadline,
                                         const std::stop_token& stop);

  /// Whose connections have failed.
  std::vector<TaskId> broken() const;

  /// Ends all up to that generation with `status`.
  void fail(const Status& status, uint64_t generation);
  /// The orderly end of all.
  void close(wire::Deadline deadline);

 private:
  using Key = std::tuple<TaskId, std::string, uint64_t>;

  std::shared_ptr<wire::Connection> find(const Key& key) const;
  bool has_room_for(const Key& key) STRATA_REQUIRES(mutex_);
  std::map<Key, std::shared_ptr<wire::Connection>> take(uint64_t up_to_generation);

  wire::Transport& transport_;
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<wire::Connection>> connections_ STRATA_GUARDED_BY(mutex_);
  strata::detail::LogLimiter refusals_;
};

}  // namespace strata::cluster
