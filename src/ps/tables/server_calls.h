#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"
#include "ps/tables/client.h"
#include "ps/tables/mailbox.h"
#include "ps/tables/request.h"
#include "ps/tables/request_memory.h"
#include "strata/ps/table.h"
#include "wire/connection.h"
#include "wire/transport.h"

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

  /// Where a server of this table is lost, calls go to its backup from now on.
  void has_backup(const std::string& table);

  /// Makes all requests at once and waits for all answers.
  /// @param what  For errors: "push to table 'x'".
  /// @return the replies, in the order of `exchanges`.
  /// @throws Error  The first server's that refuses. kUnavailable, kDeadlineExceeded.
  std::vector<Reply> run(std::vector<Exchange> exchanges, const std::string& what);

  /// `run` in two parts: requests now, and their answers when they are asked for; the caller
  /// computes meanwhile. What `exchanges` refer to is in use until `finish` returns. Other calls in
  /// between, also of `begin`, wait for the answers first.
  /// @return for `finish`, which is called once.
  /// @throws Error  As `run`; of the answers, from `finish`.
  uint64_t begin(std::vector<Exchange> exchanges, const std::string& what);
  std::vector<Reply> finish(uint64_t round);

  std::vector<TableCounters> counters(const std::string& table);

  RequestMemory& memory() { return memory_; }

 private:
  struct Server {
    cluster::TaskId task;
    std::shared_ptr<wire::Connection> connection;  // null: its backup had its place already
    std::atomic<std::chrono::steady_clock::rep> heard{0};
    // The rest under call_mutex_.
    bool shares_memory = true;              // it maps this worker's memory, as far as one knows,
    std::set<uint64_t> segments = {};       // and these of it
    bool replaced = false;                  // tables with a backup are served by that
    bool unreplicated = false;              // it has lost its backup,
    bool changed_alone = false;             // and has taken what its backup does not have
    bool has_been_asked = false;            // to open a mailbox
    std::unique_ptr<Mailbox> mailbox = {};  // null: it has none
  };
  /// One request under way.
  struct Pending {
    Exchange exchange;
    int at = 0;  // the server that is asked: the exchange's, or its backup
    bool started = false;
    bool by_mailbox = false;  // its request is put into the server's mailbox
    /// An answer of the backup, which waits until the lost server writes elsewhere.
    struct DeferredCopy {
      std::vector<std::byte> bytes;
      std::span<std::byte> to;
    };
    std::vector<DeferredCopy> late = {};
    std::vector<uint64_t> lost_segments = {};  // that the lost server may still write to
    std::vector<wire::Transfer> transfers = {};
    std::optional<Reply> reply = {};
  };
  /// Of `begin`, until `finish`.
  struct OpenRound {
    std::vector<Pending> all = {};
    std::string what;
    bool answered = false;  // then `all` is empty, and there is one of
    std::vector<Reply> replies = {};
    std::exception_ptr error = {};
  };

  void connect(const cluster::ClusterSpec& spec, const cluster::TaskId& self);
  // Not checked: before there are other calls.
  bool asks_backup(int server) STRATA_NO_THREAD_SAFETY_ANALYSIS;
  Status status_of(int server) const;
  int backup_of(int server) const { return (server + 1) % num_servers(); }
  int server_for(const Exchange& exchange) const STRATA_REQUIRES(call_mutex_);
  std::vector<Reply> exchange_all(std::vector<Exchange> exchanges, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  std::vector<Pending> start_all(std::vector<Exchange> exchanges, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  std::vector<Reply> finish_all(std::vector<Pending>& all, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  void take_open_answers() STRATA_REQUIRES(call_mutex_);
  void detect_shared_memory_peers();
  void use_memory(std::vector<Exchange>& exchanges, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  std::optional<std::vector<uint64_t>> places_of(const Exchange& exchange) const;
  static std::optional<uint64_t> unseen_segment(const Server& server,
                                                const std::vector<uint64_t>& places);
  static void add_segments(const std::vector<uint64_t>& places, std::vector<uint64_t>& segments);
  void introduce_segments(std::vector<Exchange>& exchanges, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  void open_mailboxes(const std::vector<Exchange>& exchanges, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  bool can_use_mailbox(const Exchange& exchange) const STRATA_REQUIRES(call_mutex_);
  void forget_gone() STRATA_REQUIRES(call_mutex_);
  void withdraw_from_lost(std::vector<Pending>& all) STRATA_REQUIRES(call_mutex_);
  void next_id() STRATA_REQUIRES(call_mutex_);
  void start(Pending& pending);
  static std::optional<std::string> next_answer(Server& server);
  bool look(std::vector<Pending>& all);
  bool wait_for_any(std::vector<Pending>& all, wire::Deadline until);
  Status outcome(Pending& pending, wire::Deadline deadline) STRATA_REQUIRES(call_mutex_);
  bool fail_over(Pending& pending, const Status& why) STRATA_REQUIRES(call_mutex_);
  void note(const Pending& pending);
  void start_or_fail_over(Pending& pending, const std::string& what) STRATA_REQUIRES(call_mutex_);
  bool wait_for_answers(std::vector<Pending>& all, wire::Deadline deadline, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  void wait_for_all(std::vector<Pending>& all, wire::Deadline deadline, const std::string& what)
      STRATA_REQUIRES(call_mutex_);
  [[noreturn]] void fail(const Pending& pending, const Status& status,
                         const std::string& what) const;
  void heartbeat(const std::stop_token& stop);

  const ClientOptions options_;
  const std::shared_ptr<wire::Transport> transport_;
  RequestMemory memory_;
  std::vector<std::unique_ptr<Server>> servers_;
  Mutex call_mutex_;
  uint32_t last_id_ STRATA_GUARDED_BY(call_mutex_) = 0;
  std::set<std::string> with_backup_ STRATA_GUARDED_BY(call_mutex_);   // tables
  std::map<uint64_t, OpenRound> open_ STRATA_GUARDED_BY(call_mutex_);  // by what `begin` returned
  uint64_t last_round_ STRATA_GUARDED_BY(call_mutex_) = 0;
  Thread pulse_;
};

}  // namespace strata::ps
