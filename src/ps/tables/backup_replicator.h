#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cluster/failure_detector.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "ps/tables/request.h"
#include "ps/tables/table_call.h"
#include "wire/address.h"
#include "wire/connection.h"
#include "wire/hello.h"
#include "wire/transfer.h"
#include "wire/transport.h"

namespace strata::ps {

/// A server's line to its backup, the server that keeps a copy of its tables: brings it what
/// changes them, in the order in which that is done here, and holds answers back until the backup
/// has all that they tell of.
///
/// Where the line breaks, the server asks the backup once more which of them continues: it, and the
/// copies are worth nothing from then on; or the backup, which a worker has informed that this
/// server is lost. A backup that does not answer is lost itself.
///
/// Threads: `pass` any; all else the serving thread's.
class BackupReplicator {
 public:
  struct Options {
    std::shared_ptr<wire::Transport> transport;
    std::string holder;     ///< "/job:ps/task:1"
    wire::Address address;  ///< the holder's
    wire::Hello hello;      ///< this server's
    std::chrono::nanoseconds liveness;
  };

  explicit BackupReplicator(Options options);
  BackupReplicator(const BackupReplicator&) = delete;
  BackupReplicator& operator=(const BackupReplicator&) = delete;

  /// Before the call is done here.
  void forward(std::shared_ptr<TableCall> call);
  void forward_leave(const std::string& worker);

  /// An answer to a worker: now, or when the backup has all that was forwarded so far.
  void pass(std::shared_ptr<wire::Connection> to, Reply reply);

  /// Whether there is something for `tend`. Called while the serving thread waits.
  bool look();
  void tend();

  /// For good: the backup has taken this server's place.
  bool replaced() const { return state_ == State::kDemoted; }
  /// The error that workers get then.
  std::string why_replaced() const;
  /// This server has taken the place of the one before it, which answers say from now on.
  void set_replaces();

 private:
  enum class State {
    kConnecting,  ///< for the first time
    kReplicating,
    kReconnecting,  ///< The line broke: connecting once more.
    kUnreplicated,
    kDemoted,
  };
  /// Something that changes tables, until the backup has it.
  struct Input {
    uint64_t number;
    Request request;
    std::shared_ptr<TableCall> call = {};    // null: it has no data
    std::vector<wire::Transfer> sends = {};  // behind the call, whose memory they use
  };
  struct Held {
    uint64_t number;  // of the input that it waits for
    std::shared_ptr<wire::Connection> to;
    Reply reply;
  };

  void connect(std::chrono::nanoseconds limit);
  void greet();
  void add(Input input);
  void send(Input& input);
  void take(const Reply& reply);
  void take_acknowledged(uint32_t id);
  void heartbeat();
  void lost(const std::string& why);
  void run_unreplicated(const std::string& why, bool expected);
  void demote();
  void end(State state);
  Reply as_it_is_now(Reply reply) const STRATA_REQUIRES(mutex_);

  const Options options_;
  std::shared_ptr<wire::Connection> connection_;
  std::vector<std::string> inbox_;
  std::deque<Input> inputs_;           // that the backup does not have, or has not said so
  cluster::FailureDetector detector_;  // of the backup, while there is a connection

  mutable Mutex mutex_;
  State state_ = State::kConnecting;  // written by the serving thread with mutex_ held
  bool replaces_ STRATA_GUARDED_BY(mutex_) = false;
  uint64_t forwarded_ STRATA_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ STRATA_GUARDED_BY(mutex_) = 0;
  std::deque<Held> held_ STRATA_GUARDED_BY(mutex_);
  std::shared_ptr<wire::Connection> fresh_ STRATA_GUARDED_BY(mutex_);
  std::string no_connection_ STRATA_GUARDED_BY(mutex_);  // why
  Thread connecting_;
};

}  // namespace strata::ps
