#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/strategies/standalone.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/tensor_transfer.h"
#include "wire/transport.h"

namespace strata::standalone {

/// A client's connections to its servers, and the session that it has with them. If one fails, all
/// are closed, and the next call resumes the session.
/// Threads: one at a time.
class ServerConnections {
 public:
  struct Settings {
    StandaloneOptions options;
    std::vector<std::string> devices;  ///< Of each worker.
    uint64_t seed = 0;
    std::chrono::milliseconds timeout;  ///< Of a run.
    /// Where there are parameter servers; without their addresses.
    std::optional<ParametersSpec> parameters = {};
  };
  struct Server {
    wire::Address address;
    std::string token = {};
    std::shared_ptr<wire::Connection> connection = {};
    TensorTransfer transfer = {};
  };

  /// Connects, and begins or resumes a session.
  explicit ServerConnections(Settings settings);
  ~ServerConnections() { disconnect(); }
  ServerConnections(const ServerConnections&) = delete;
  ServerConnections& operator=(const ServerConnections&) = delete;

  const Settings& settings() const { return settings_; }
  /// What StandaloneOptions::session takes.
  std::string session() const;
  /// How many the servers have made: by their word when it connected, and by `set_runs` since.
  uint64_t runs() const { return runs_; }
  void set_runs(uint64_t runs) { runs_ = runs; }

  /// Those that run steps.
  std::vector<Server>& workers() { return workers_; }
  size_t num_workers() const { return workers_.size(); }
  size_t num_parameter_servers() const { return parameter_servers_.size(); }
  size_t replicas_per_worker() const { return settings_.devices.size(); }
  size_t num_replicas() const { return num_workers() * replicas_per_worker(); }

  void connect();
  /// Ends the session on the servers.
  void close();
  /// Makes `call`, and once more if connections were lost meanwhile. A server's refusal is final.
  template <typename Call>
  void resuming(const Call& call);

  /// Sends each worker a request of its own.
  void ask_workers(const std::function<Request(size_t worker)>& request);
  /// @throws Error  what one refuses, which is why the others are lost; else the first loss.
  std::vector<Reply> replies_of_workers();
  /// For all elements that are on their way.
  void wait_for_transfers();

 private:
  /// A server has answered with an error: to connect anew does not help.
  class Refused final : public Error {
   public:
    using Error::Error;
  };

  static bool is_loss(ErrorCode code);
  Reply reply_of(Server& server) const;
  void disconnect();
  std::vector<Server*> all_servers();
  std::vector<Reply> open(std::vector<Server>& servers, bool hold_parameters);
  void join(const std::vector<Reply>& workers, const std::vector<Reply>& parameter_servers);
  void ask_each(std::vector<Server>& servers, const Request& request) const;
  wire::Deadline deadline() const { return wire::Deadline::after(settings_.timeout); }

  const Settings settings_;
  std::shared_ptr<wire::Transport> transport_;
  std::vector<Server> workers_;
  std::vector<Server> parameter_servers_;
  bool connected_ = false;
  bool closed_ = false;
  uint64_t runs_ = 0;
};

template <typename Call>
void ServerConnections::resuming(const Call& call) {
  const wire::Deadline until = deadline();
  while (true) {
    try {
      connect();
      return call();
    } catch (const Refused& refused) {
      disconnect();
      // That the client was lost on another server.
      const bool lost = refused.code() == ErrorCode::kAborted && !until.passed();
      if (!lost) throw;
    } catch (const Error& error) {
      const bool lost = connected_ && !until.passed() && is_loss(error.code());
      disconnect();
      if (!lost) throw;
      STRATA_LOG(kWarning) << "[standalone] connects anew: " << error.what();
    } catch (...) {
      disconnect();
      throw;
    }
  }
}

}  // namespace strata::standalone
