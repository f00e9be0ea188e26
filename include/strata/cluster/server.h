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
#include "strata/wire/connection.h"
#include "strata/wire/deadline.h"
#include "strata/wire/job_secret.h"
#include "strata/wire/socket_transport.h"
#include "strata/wire/transport.h"

namespace strata::cluster {

struct ServerOptions {
  /// How long to wait for the other tasks at the start.
  std::chrono::nanoseconds start_timeout = std::chrono::minutes(5);
  /// A task that is silent for this long is lost. Shorter finds out sooner, and takes a machine
  /// that is only busy for a dead one. At least 100 ms; the same in all tasks.
  std::chrono::nanoseconds liveness = std::chrono::seconds(10);
  /// Who meets; left out: chief, workers and ps. The evaluator is never among them.
  std::vector<TaskId> members = {};
  /// Where to listen instead of at the address that the spec has: where that is a load balancer's,
  /// or "0.0.0.0:2222". The port must be what reaches this task at the spec's address.
  std::optional<std::string> listen_address = {};
  /// Tasks of other jobs are refused. Not a secret: `job_secret` or `tls` keeps strangers away.
  std::string job = "strata";
  std::optional<wire::TlsOptions> tls = {};
  /// Only tasks that have the same are let in, with TLS or without. Unset: what
  /// STRATA_JOB_SECRET_FILE or STRATA_JOB_SECRET says (job_secret_from_environment); neither: none.
  std::optional<wire::JobSecret> job_secret = {};
  /// What carries the bytes, the same in all tasks: "socket", or "ucx", for hosts with RDMA
  /// (wire::make_ucx_transport; not encrypted). Unset: "socket".
  std::optional<std::string> wire = {};
  /// Instead of all three: tests, modelled networks. It has its own secret, or none.
  std::shared_ptr<wire::Transport> transport = {};
};

/// A task that takes part in a generation, and where it really listens.
struct Member {
  TaskId task;
  std::string address;

  friend bool operator==(const Member&, const Member&) = default;
};

/// This task's place in a running cluster: it listens on its one address, meets the others at the
/// leader (the chief, or else worker 0), and hears when one of them is lost.
///
/// All tasks that meet make a *generation*. When one is lost (its connection closes, or it is
/// silent for `liveness`), the generation has failed for all: pending calls here and operations on
/// connections from `connect` end with the same error on every task, kUnavailable, which names the
/// task, its address and what it did last. Then the program ends, or calls `rejoin`.
///
/// The evaluator is a cluster of its own; so is a task that is the only member. They do not listen.
///
/// A thread of its own keeps heartbeats going. Threads: any, unless a call says otherwise.
/// Source: tf.distribute.Server and TensorFlow's coordination service.
class STRATA_API Server {
 public:
  /// Listens, meets the others, and returns when all are there.
  /// @throws Error  kInvalidArgument: `task` is not in `spec`, specs differ between tasks, an
  ///     address that is not this host's, an unknown wire, TLS over one that does not encrypt.
  ///     kUnimplemented: this build lacks the wire or TLS. kAlreadyExists: the address is in use,
  ///     another process is the same task. kDeadlineExceeded: says who is absent.
  ///     kPermissionDenied, kUnauthenticated.
  Server(const ClusterSpec& spec, const TaskId& task, ServerOptions options = {});
  /// Without `shutdown` before, the others hear that this task is lost.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const ClusterSpec& spec() const;
  const TaskId& task() const;
  TaskId leader() const;  ///< itself for a cluster of one

  /// From 1; one more with each `rejoin`.
  uint64_t generation() const;
  /// Who takes part in this generation: chief, workers, ps.
  std::vector<Member> members() const;

  /// Ok while the generation works, else the error that everyone got.
  Status status() const;
  /// Stops when the generation fails; for waits that have nothing to do with the wire. Of this
  /// generation: ask again after `rejoin`.
  std::stop_token failed() const;
  /// What this task is doing, for the others' errors if it is lost. Cheap; sent with heartbeats.
  void set_operation(std::string_view operation);

  // Keys and values, held by the leader until the generation ends. A key has 1 to 1024 bytes, a
  // value at most 8 MiB, all together 256 MiB.
  // @throws Error, all of these: `status()`; kResourceExhausted, kInvalidArgument: bounds.

  /// @throws Error  kAlreadyExists: set already, and not to `replace`.
  void set(const std::string& key, std::string_view value, bool replace = true);
  /// Waits until somebody sets it. @throws Error  kDeadlineExceeded.
  std::string get(const std::string& key, wire::Deadline deadline);
  std::optional<std::string> try_get(const std::string& key);
  /// Sets `key` to `value` if it has the value `expected` (nullopt: if it is not set), in one step.
  /// @return what it has now, and whether this call set it.
  struct Swap {
    bool swapped;
    std::optional<std::string> value;
  };
  Swap compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                       std::string_view value);
  /// @return whether it was set.
  bool erase(const std::string& key);

  /// Waits until every one of `tasks` (left out: all that train) is in its call with this name; the
  /// n-th call with a name meets the others' n-th.
  /// @throws Error  kDeadlineExceeded: says who is absent; so does the call of who comes later.
  ///     kFailedPrecondition: one of them has ended. kInvalidArgument: tasks name different others.
  void barrier(const std::string& name, wire::Deadline deadline, std::vector<TaskId> tasks = {});

  /// The connection to another member, for `purpose`; both make this call. It belongs to this
  /// generation. Where it breaks, `explain` says why.
  /// @throws Error  kDeadlineExceeded, `status()`.
  std::shared_ptr<wire::Connection> connect(const TaskId& peer, const std::string& purpose,
                                            wire::Deadline deadline);
  /// What `connect` gives belongs to it: wait on it.
  wire::Transport& transport();

  /// The generation's error, for who saw a connection to `peer` break with `seen`: waits at most
  /// two seconds for the leader's word, so that all tasks report the same.
  Status explain(const TaskId& peer, const Status& seen);
  /// The same for who met `seen` in work with several peers (a collective): whose connections broke
  /// is looked up. If none did, the generation ends for all with `seen`, and this task is named.
  /// Call it before ending other connections, which hides the cause.
  Status explain(const Status& seen);
  /// Ends the generation for all with kAborted and `reason`: this task cannot go on.
  void abort(const std::string& reason);

  /// Tasks that want to take part and wait for the next generation.
  std::vector<TaskId> newcomers() const;
  /// Begins the next generation with all members, one that was lost and has been started anew among
  /// them. Connections of the old one end. No other call may be pending.
  /// @param without_lost  Do not wait for who is lost, if all who are left say so.
  /// @throws Error  as the constructor. A lost leader must be started anew.
  void rejoin(wire::Deadline deadline, bool without_lost = false);

  /// The orderly end: afterwards nobody takes this task for lost. The leader waits for the others,
  /// and serves them, until the deadline; the others wait for the leader's answer only. After a
  /// failure it ends at once. Never throws for what others do; logs it.
  void shutdown(wire::Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::cluster
