#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/ps/table.h"

namespace strata::ps {

class ServerCalls;
class FlatTable;
class RowTable;

struct ClientOptions {
  /// Certificates, the wire, how soon a silent server is lost; `start_timeout`: how long to try to
  /// reach the servers.
  cluster::ServerOptions server = {};
  /// Of a call, waiting for other workers included.
  std::chrono::nanoseconds timeout = std::chrono::minutes(30);
  /// With servers of this host (wire::host_identity): what lies in memory that this client has made
  /// (`make_buffer`) is read and written there by them, and does not travel. Needs memfd_create and
  /// /proc; where they are missing, or the server may not look into this process, all travels.
  bool share_memory = true;
};

/// A worker's way to all parameter servers of its cluster.
///
/// Calls of tables take turns. A server that is lost ends the calls to it with kUnavailable, which
/// names it and what it was asked; of a table with a backup they go on there, with a warning.
/// Threads: any; one of its own shows the servers that this worker is alive.
class Client {
 public:
  /// Connects to every task of the job `ps`, and tries until they are there.
  /// @param self  A task of `spec` that is no ps.
  /// @throws Error  kInvalidArgument: no ps in `spec`, or `self` is one. kDeadlineExceeded: names
  ///   who cannot be reached. kPermissionDenied, kUnauthenticated.
  Client(const cluster::ClusterSpec& spec, const cluster::TaskId& self, ClientOptions options = {});
  /// Without `leave` before, the servers take this worker for lost.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int num_servers() const;

  /// Zeros, `[elements]`, on the CPU: memory for gradients and values that servers of this host
  /// need not be sent. Ordinary memory where no server is on this host. The tensor may outlive the
  /// client.
  at::Tensor make_buffer(int64_t elements, c10::ScalarType dtype = c10::kFloat);

  /// Makes a flat table, or finds it: all workers make the same ones.
  /// @param initial  `[elements]` of the table's dtype on the CPU: its values, if this worker is
  ///   the `first` and the servers have none; written over with the table's values in any case.
  /// @param first  Of one worker. The others wait until it has brought the values.
  /// @throws Error  kInvalidArgument: another worker has made it otherwise; both are quoted.
  std::shared_ptr<FlatTable> create_flat(TableSpec spec, const at::Tensor& initial, bool first);

  /// Makes a table of rows, or finds it. The servers fill it by themselves.
  std::shared_ptr<RowTable> create_rows(TableSpec spec);

  /// The orderly end of this worker.
  /// @param job_done  The servers end, too, when the last worker has ended.
  void leave(bool job_done);

 private:
  std::shared_ptr<ServerCalls> calls_;
};

}  // namespace strata::ps
