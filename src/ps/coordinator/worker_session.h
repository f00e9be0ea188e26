#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "ps/coordinator/call_message.h"
#include "ps/coordinator/value_codec.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/ps/call_context.h"
#include "strata/ps/function_registry.h"
#include "wire/connection.h"

namespace strata::ps {

/// A worker's work for one connection of a coordinator: what was asked for and has not begun, what
/// runs, what each worker has one of, and the answers. Knows neither threads nor functions' code:
/// WorkerServer's threads take tasks and bring outcomes. Threads: one at a time.
class WorkerSession {
 public:
  using Clock = std::chrono::steady_clock;

  /// Something to call.
  struct Task {
    uint64_t number = 0;
    uint32_t function = 0;
    bool creates = false;  // its result stays here
    bool discard = false;  // its result is not needed
    std::vector<Value> values;
    detail::Resources resources;  // that it takes
    Clock::time_point came;
    std::stop_source stop;

    std::vector<at::Tensor> tensors;  // of the values, that were to come
    std::vector<wire::Transfer> transfers;
  };
  /// What became of it. A resource's object is added to `made`.
  struct Done {
    Status status;
    Value value;
    std::shared_ptr<detail::Resource> made;
    std::chrono::nanoseconds run{0};
  };

  WorkerSession(std::shared_ptr<wire::Connection> connection, const FunctionRegistry& registry);

  const wire::Connection& connection() const { return *connection_; }
  const std::shared_ptr<wire::Connection>& shared_connection() const { return connection_; }

  /// Takes what has come, and sends what waits to be sent. @return whether a message has come.
  /// @throws Error  the connection has failed, or sent a malformed message.
  bool poll(Clock::time_point now);
  /// Answers a coordinator that has the same registry and kernels: calls may come.
  void open_if_asked(int threads);

  /// Whether `take` would give something.
  bool has_task() const;
  /// The next one, whose arguments are there; null: none. It is then running.
  std::shared_ptr<Task> take();
  /// That one has ended. @param more  Another one is at hand that takes no time: the answer may
  /// wait for its.
  void end(const Task& task, Done done, bool more);
  void flush();

  /// No process is there any more: nothing waits, and what runs is asked to stop.
  void drop(const Status& status);

  /// What each worker has one of and that are no longer needed, all of it after `drop`: to be
  /// destroyed by who is not in a hurry. The user's destructors may do anything.
  using RetiredObjects = std::vector<std::shared_ptr<const detail::Resource>>;
  RetiredObjects take_dead() { return std::exchange(retired_, {}); }

  bool said_end() const { return said_end_; }
  bool anything_waits() const { return !outcomes_.empty(); }

 private:
  struct UnsentOutcome {  // an outcome that waits to be sent
    Outcome outcome;
    std::string text;
    EncodedValues values;
    Clock::time_point came;
  };
  struct Sending {
    at::Tensor tensor;
    wire::Transfer transfer;
  };

  void handle(const CallMessage& message, Clock::time_point now);
  void add(const Call& call, bool creates, Clock::time_point now);
  void take_back(const std::vector<uint64_t>& numbers);
  void cancel();
  bool next_is_ready() const;
  void send(const CallMessage& message, const std::vector<at::Tensor>& tensors = {});

  const std::shared_ptr<wire::Connection> connection_;
  const FunctionRegistry& registry_;
  std::optional<CallMessage> asked_;  // kOpen that has no answer yet
  std::string asked_kernels_;         // its text
  bool open_ = false;
  bool said_end_ = false;

  std::deque<std::shared_ptr<Task>> waiting_;
  std::map<uint64_t, std::shared_ptr<Task>> running_;
  int creating_ = 0;  // of those that run
  detail::Resources resources_;
  std::set<uint64_t> forgotten_;  // before they were made
  RetiredObjects retired_;
  std::vector<UnsentOutcome> outcomes_;
  Clock::time_point first_outcome_;
  std::deque<Sending> sending_;
};

}  // namespace strata::ps
