#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/wire/deadline.h"
#include "strata/wire/security.h"

namespace strata::wire {
class Connection;
class Transport;
}  // namespace strata::wire

namespace strata::cluster {

struct WireWords {
  enum Word { kSocket, kUcx };
  static constexpr const char* kOption = "wire";
  static constexpr const char* kWords[] = {"socket", "ucx"};
};
using Wire = OneOf<WireWords>;

struct ServerOptions {
  /// How long to wait for the other tasks at the start.
  std::chrono::nanoseconds start_timeout = std::chrono::minutes(5);
  /// A task that sends nothing for this long is lost. A shorter time detects failures sooner, and
  /// mistakes a busy machine for a dead one more often. At least 100 ms; the same in all tasks.
  std::chrono::nanoseconds liveness = std::chrono::seconds(10);
  /// The tasks of a generation. Default: chief, workers and ps. Never the evaluator.
  std::vector<TaskId> members = {};
  /// The address to listen at, if it is not the spec's: behind a load balancer, or "0.0.0.0:2222".
  /// Connections to the spec's address must reach it.
  std::optional<std::string> listen_address = {};
  /// Tasks of other jobs are refused. It is no secret: `job_secret` or `tls` keeps strangers away.
  std::string job = "strata";
  std::optional<wire::TlsOptions> tls = {};
  /// Only tasks with the same secret are admitted, with TLS or without. Default:
  /// STRATA_JOB_SECRET_FILE, else STRATA_JOB_SECRET (job_secret_from_environment), else no secret.
  std::optional<wire::JobSecret> job_secret = {};
  /// The transport, the same in all tasks: "socket", or "ucx", for hosts with RDMA
  /// (wire::make_ucx_transport; not encrypted). Unset: "socket".
  std::optional<Wire> wire = {};
  /// Replaces the three options above, in tests and modelled networks. It has its own secret, or
  /// none.
  std::shared_ptr<wire::Transport> transport = {};
};

/// A task of a generation, and the address at which it listens.
struct Member {
  TaskId task;
  std::string address;

  friend bool operator==(const Member&, const Member&) = default;
};

/// This task's membership in a running cluster. The server listens on one address, joins the other
/// tasks through the leader (the chief, or else worker 0), and reports when one of them is lost.
///
/// The tasks that have joined form a *generation*. When one is lost (its connection closes, or it
/// sends nothing for `liveness`), the generation fails on all tasks: pending calls and operations
/// on connections from `connect` end with the same error everywhere, kUnavailable, which names the
/// lost task, its address and its last operation. The program then exits, or calls `rejoin`.
///
/// The evaluator is a cluster of its own; so is a task that is the only member. They do not listen.
///
/// A thread of its own sends heartbeats. Threads: any, unless documented otherwise.
/// Source: tf.distribute.Server and TensorFlow's coordination service.
class STRATA_API Server {
 public:
  /// Listens, joins the first generation, and returns when all members have joined.
  /// @throws Error  kInvalidArgument: `task` is not in `spec`, specs differ between tasks, an
  ///     address that is not this host's, an unknown wire, TLS over one that does not encrypt.
  ///     kUnimplemented: this build lacks the wire or TLS. kAlreadyExists: the address is in use,
  ///     another process is the same task. kDeadlineExceeded: names the absent tasks.
  ///     kPermissionDenied, kUnauthenticated.
  Server(const ClusterSpec& spec, const TaskId& task, ServerOptions options = {});
  /// Without a `shutdown` before, the other tasks see this one as lost.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const ClusterSpec& spec() const;
  const TaskId& task() const;
  TaskId leader() const;  ///< itself for a cluster of one

  /// 1 at first; `rejoin` increments it.
  uint64_t generation() const;
  /// The tasks of this generation: chief, workers, ps.
  std::vector<Member> members() const;

  /// Ok, or the error with which the generation has failed on all tasks.
  Status status() const;
  /// Requests a stop when this generation fails; for waits outside of the transport. Get a new one
  /// after `rejoin`.
  std::stop_token failed() const;
  /// Describes what this task is doing, for the error if it is lost. Cheap; sent with heartbeats.
  void set_operation(std::string_view operation);

  // Keys and values, held by the leader until the generation ends. A key has 1 to 1024 bytes, a
  // value at most 8 MiB, all together 256 MiB.
  // @throws Error, all of these: `status()`; kResourceExhausted, kInvalidArgument: bounds.

  /// @throws Error  kAlreadyExists: the key is set, and `replace` is false.
  void set(const std::string& key, std::string_view value, bool replace = true);
  /// Waits until the key is set. @throws Error  kDeadlineExceeded.
  std::string get(const std::string& key, wire::Deadline deadline);
  std::optional<std::string> try_get(const std::string& key);
  /// Sets `key` to `value` if it has the value `expected` (nullopt: if it is not set), in one step.
  /// @return the key's value afterwards, and whether this call has set it.
  struct Swap {
    bool swapped;
    std::optional<std::string> value;
  };
  Swap compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                       std::string_view value);
  /// @return whether it was set.
  bool erase(const std::string& key);

  /// Waits until all of `tasks` (default: all that train) have called this with the same name. The
  /// n-th call with a name is matched with the n-th of the other tasks.
  /// @throws Error  kDeadlineExceeded: names the absent tasks; their later calls fail, too.
  ///     kFailedPrecondition: one of them has left. kInvalidArgument: tasks pass different `tasks`.
  void barrier(const std::string& name, wire::Deadline deadline, std::vector<TaskId> tasks = {});

  /// Connects to another member, for `purpose`; both make this call. The connection belongs to this
  /// generation. If it breaks, `root_cause` returns the reason.
  /// @throws Error  kDeadlineExceeded, `status()`.
  std::shared_ptr<wire::Connection> connect(const TaskId& peer, const std::string& purpose,
                                            wire::Deadline deadline);
  /// The transport of the connections from `connect`: wait on it.
  wire::Transport& transport();

  /// The generation's error, for a caller whose connection to `peer` has failed with `seen`. Waits
  /// at most two seconds for the leader's decision, so that all tasks report the same.
  Status root_cause(const TaskId& peer, const Status& seen);
  /// The same for an operation with several peers (a collective): the broken connections are looked
  /// up. If there are none, the generation fails on all tasks with `seen` and this task's name.
  /// Call it before closing other connections, which would hide the cause.
  Status root_cause(const Status& seen);
  /// Fails the generation on all tasks with kAborted and `reason`.
  void abort(const std::string& reason);

  /// Tasks that wait to join the next generation.
  std::vector<TaskId> newcomers() const;
  /// Joins the next generation, with all members, restarted ones included. Connections of the old
  /// generation are closed. No other call may be pending.
  /// @param exclude_lost  Does not wait for lost tasks, if all remaining tasks pass true.
  /// @throws Error  as the constructor. A lost leader must be started anew.
  void rejoin(wire::Deadline deadline, bool exclude_lost = false);

  /// Leaves in an orderly way: the other tasks do not see this one as lost. The leader keeps
  /// serving the others until they have left, or until the deadline; other tasks wait for the
  /// leader's reply only. Returns at once after a failure. Errors of other tasks are logged, not
  /// thrown.
  void shutdown(wire::Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::cluster
