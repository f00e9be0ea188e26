#pragma once

#include <memory>
#include <stop_token>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/ps/server_limits.h"

namespace strata::ps {

struct ParameterServerOptions {
  /// Certificates, the wire, where to listen, how soon a silent worker is lost.
  cluster::ServerOptions server = {};
  ServerLimits limits = {};
};

/// A task of the job `ps`: holds its parts of tables, which the workers make, and updates them with
/// what the workers push. Workers come, go and come back; who is lost is waited for no longer.
///
/// Memory: its parts of values and slots, and a push for each worker that is sending one.
/// Threads: one for the wire, and one a table that updates it.
/// Source: tf.distribute.Server of a "ps" task; Li et al., Scaling Distributed Machine Learning
/// with the Parameter Server (2014).
class ParameterServer {
 public:
  /// Listens at the task's address in `spec`, and serves.
  /// @throws Error  kInvalidArgument: `task` is no ps of `spec`, its address is not this host's.
  ///   kAlreadyExists: the address is in use. kUnimplemented: this build lacks the wire or TLS.
  ParameterServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                  ParameterServerOptions options = {});
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Serves until the chief (or worker 0) has said that the job is done and all workers have ended
  /// (one that has never come is waited for as long as a silent one, ServerOptions::liveness),
  /// until its backup has its place and no worker is connected any more, or until `stop`.
  /// @throws Error  kDeadlineExceeded: no worker was connected for `ServerLimits::idle_timeout`.
  void join(std::stop_token stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::ps
