#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"
#include "strategies/standalone/budget.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/parameter_host.h"
#include "strategies/standalone/reserved_port.h"
#include "strategies/standalone/session_world.h"
#include "strategies/standalone/tensor_transfer.h"
#include "wire/transport.h"

namespace strata::standalone {

/// What the sessions of a server have in common.
struct SessionSettings {
  std::shared_ptr<wire::Transport> transport;
  wire::Address address;  ///< Where the server listens.
  GroupSpec group;        ///< Security and waits; the rest is each session's.
  WorldLimits limits;
  std::chrono::nanoseconds keep;  ///< How long a session waits for its client to come back.
};

/// A client's session on this server. It outlives its client's connections.
///
/// The servers of a session take each step together or none does, whenever the client is lost: before
/// a request that changes the session, each server votes whether it has all of it; a server that loses
/// its client votes, too: no. So votes of one round always meet, and a vote that fails ends the
/// connection of the client, which resumes where all servers are. The client closes all its connections
/// when one of them fails; so no server waits for a vote for longer than the client lives, or
/// `wait_timeout`.
class Session {
 public:
  Session(std::string token, std::string owner, const SessionSettings& settings, Budget& budget);
  ~Session();

  const std::string& token() const { return token_; }
  /// The task whose session it is; under TLS its certificate proves it.
  const std::string& owner() const { return owner_; }

  /// Takes the place of an earlier connection. Threads: any.
  void attach(std::shared_ptr<wire::Connection> connection, Request open);

  /// It has ended, and may be destroyed without a wait.
  bool ended() const;

 private:
  struct Client {
    std::shared_ptr<wire::Connection> connection;
    Request open;
    TensorTransfer transfer;
  };
  enum class Outcome {
    kContinue,
    kLost,          ///< The client is, or is to connect anew.
    kLostAndVoted,  ///< The same, and this server has voted.
    kClosed,
    kBroken,  ///< The session cannot be used further.
  };

  void live(const std::stop_token& stop);
  std::optional<Client> next_client(const std::stop_token& stop);
  Outcome serve(Client& client, const std::stop_token& stop);
  void answer_open(Client& client);
  Outcome handle(Client& client, const Request& request, const std::stop_token& stop);
  Outcome handle_joined(Client& client, const Request& request, const std::stop_token& stop);
  void join(const Request& request);
  bool joined() const { return world_ || parameters_; }
  Outcome add(Client& client, const Request& request, const std::stop_token& stop);
  Outcome describe(Client& client, const Request& request);
  Outcome run(Client& client, const Request& request, const std::stop_token& stop);
  Outcome push(Client& client, const Request& request, const std::stop_token& stop);
  void fetch(Client& client, const Request& request, const std::stop_token& stop);
  bool receive(Client& client, const std::vector<at::Tensor>& tensors, const std::stop_token& stop);
  void say(Client& client, Reply reply);

  const std::string token_;
  const std::string owner_;
  const SessionSettings& settings_;
  Budget& budget_;

  // The session's thread's.
  std::optional<ReservedPort> port_;
  std::optional<GroupSpec> group_;
  bool holds_parameters_ = false;
  std::unique_ptr<SessionWorld> world_;
  std::unique_ptr<ParameterHost> parameters_;  // or this
  uint64_t answered_run_ = 0;                  // whose outcome is kept
  Status answered_status_;
  std::vector<at::Tensor> answered_outputs_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::optional<Client> waiting_ STRATA_GUARDED_BY(mutex_);
  std::shared_ptr<wire::Connection> current_ STRATA_GUARDED_BY(mutex_);
  bool stopping_ STRATA_GUARDED_BY(mutex_) = false;
  bool ended_ STRATA_GUARDED_BY(mutex_) = false;

  Thread thread_;
};

}  // namespace strata::standalone
