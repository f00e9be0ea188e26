#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/data/dataset.h"
#include "strata/strategies/server_dataset.h"
#include "strata/wire/security.h"

namespace strata {

class ReplicaGroup;
namespace standalone {
class StandaloneClient;
}

struct ClientWords {
  enum Word { kInProcess, kStandalone };
  static constexpr const char* kOption = "client";
  static constexpr const char* kWords[] = {"in_process", "standalone"};
};
/// Where a strategy's replicas run: in this process, or on servers without the program's code.
using ClientMode = OneOf<ClientWords>;

/// How a standalone client reaches its servers (docs/standalone.md).
struct StandaloneOptions {
  /// "HOST:PORT" of each; under TLS in the order of their tasks.
  std::vector<std::string> servers = {};
  /// Of a ParameterServerStrategy, the same: those that hold the variables. The others are its workers.
  std::vector<std::string> parameter_servers = {};
  /// What `session()` returned in a client before: its variables, optimizers and position continue.
  /// Empty: a new session.
  std::string session = {};
  /// This client's name; its certificate has the same. Only it can resume its sessions.
  std::string task = "/job:client/task:0";
  /// Default: STRATA_TLS_DIR and its like (cluster::tls_from_environment).
  std::optional<wire::TlsOptions> tls = {};
  /// Default: STRATA_JOB_SECRET_FILE, else STRATA_JOB_SECRET.
  std::optional<wire::JobSecret> job_secret = {};
  /// The limit of the wait for a server to answer a connection, also of one that was lost.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(30);
};

/// A strategy's session with its servers. Where client = "in_process" the calls do nothing.
/// @throws Error  from all calls: the servers' and the connections'.
class STRATA_API ClientSession {
 public:
  /// Names the session for a client that takes its place (StandaloneOptions::session).
  std::string session() const;
  /// How many runs the session has made: those of clients before, too. A client that resumes continues
  /// behind them; its first call of each function brings the session's values.
  uint64_t runs() const;
  /// Brings variables, slots and buffers from the servers, if they have run since. `Variable::value`
  /// outside `run` does so by itself; call it before saving a checkpoint, or reading modules or slots.
  /// Cost: their bytes.
  void fetch();
  /// Sends all of them, after a checkpoint was restored. A variable that was written outside `run` is sent
  /// before the next run by itself.
  void push();
  /// A dataset that the servers read, from files on their hosts: it gives batches to `run`, `distribute` and
  /// `fit` whose tensors have sizes and no elements here. Only steps may look into them.
  /// @throws Error  kFailedPrecondition: client = "in_process". kInvalidArgument: options. Of the servers:
  ///   kPermissionDenied: no file of the folder that they were started with; and as data's functions.
  data::Dataset server_dataset(const ServerDatasetOptions& options);
  /// Ends the session; without it the servers keep it for a while after the client's end.
  void close();

 protected:
  /// @param client  Null: client = "in_process".
  ClientSession(std::shared_ptr<standalone::StandaloneClient> client, ReplicaGroup& group);
  ~ClientSession();
  /// That run steps. 0: client = "in_process".
  int num_servers() const;
  int num_parameter_servers() const;
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

 private:
  const std::shared_ptr<standalone::StandaloneClient> client_;
  ReplicaGroup& group_;
};

}  // namespace strata
