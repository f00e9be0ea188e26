#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/request.h"
#include "strata/core/thread.h"
#include "strata/ps/client.h"
#include "strata/ps/push.h"
#include "strata/wire/connection.h"
#include "strata/wire/transport.h"

namespace strata::ps {

/// A worker's connections to the servers, and its requests over them: to several at once, and one
/// round of requests after the other.
class ServerCalls {
 public:
  ServerCalls(const cluster::ClusterSpec& spec, const cluster::TaskId& self, ClientOptions options);
  ~ServerCalls();

  int num_servers() const { return static_cast<int>(servers_.size()); }

  /// A request, and the data that go with it and come with the answer, in their order.
  struct Exchange {
    int server = 0;
    Request request = {};
    std::vector<std::span<const std::byte>> out = {};
    std::vector<std::span<std::byte>> in = {};
  };

  /// Makes all requests at once and waits for all answers.
  /// @param what  For errors: "push to table 'x'".
  /// @return the replies, in the order of `exchanges`.
  /// @throws Error  The first server's that refuses. kUnavailable, kDeadlineExceeded.
  std::vector<Reply> run(std::vector<Exchange> exchanges, const std::string& what);

  std::vector<TableCounters> counters(const std::string& table);

  /// For data that is made for a request.
  BufferPool& pool() { return pool_; }

 private:
  struct Server {
    cluster::TaskId task;
    std::shared_ptr<wire::Connection> connection;
    std::atomic<std::chrono::steady_clock::rep> heard{0};
  };
  struct Pending;

  void connect(const cluster::ClusterSpec& spec, const cluster::TaskId& self);
  void start(Pending& pending);
  bool look(std::vector<Pending>& all);
  void pulse(const std::stop_token& stop);

  const ClientOptions options_;
  const std::shared_ptr<wire::Transport> transport_;
  BufferPool pool_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::mutex turn_;
  uint32_t last_id_ = 0;  // guarded by turn_
  Thread pulse_;
};

}  // namespace strata::ps
