#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "cluster/failure_detector.h"
#include "core/core_follower.h"
#include "core/log_limiter.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "core/wait_notice.h"
#include "ps/failure_log.h"
#include "ps/tables/backup_replicator.h"
#include "ps/tables/buffer_pool.h"
#include "ps/tables/mailbox.h"
#include "ps/tables/mailbox_server.h"
#include "ps/tables/mapped_memory.h"
#include "ps/tables/parameter_server.h"
#include "ps/tables/request.h"
#include "ps/tables/serial_executor.h"
#include "ps/tables/shard.h"
#include "ps/tables/table_call.h"
#include "strata/core/error.h"
#include "wire/connection.h"
#include "wire/hello.h"
#include "wire/transport.h"

namespace strata::ps {

/// One thread serves: parameter_server.cc has what it does for workers,
/// parameter_server_replication.cc what it does for its backup, and as the backup of another
/// server. Beside it a thread for each worker of this host takes requests from that worker's mailbox
/// (parameter_server_mailboxes.cc).
struct ParameterServer::Impl {
  using Clock = std::chrono::steady_clock;

  struct Table {
    std::string spec;    // as JSON
    uint64_t bytes = 0;  // of values and slots
    std::unique_ptr<Shard> shard;
    std::unique_ptr<SerialExecutor> executor;  // behind the shard, which it uses
  };
  /// One server's parts.
  struct Tables {
    int server;
    std::map<std::string, Table> by_name = {};
  };
  /// The role of this server's copies of another server's tables.
  enum class Copies {
    kBackup,   ///< The backup, if that server's tables have one.
    kPrimary,  ///< The primary: workers have reported that server as lost.
    kStale,    ///< Out of date and unused: that server continues without a backup.
  };
  /// A call whose data are on the way.
  struct Arriving {
    std::shared_ptr<TableCall> call;
    Table* table;  // null: a worker that has left another server
  };
  /// The connection of one that has left, until that has closed it: it has to hear the answer.
  struct DrainingConnection {
    std::shared_ptr<wire::Connection> connection;
    Clock::time_point since = Clock::now();
  };
  struct Worker {
    std::shared_ptr<wire::Connection> connection;
    std::string name;
    bool is_server = false;  // whose tables are copied here: it brings what changes them
    uint64_t id = 0;         // for the failure detector
    std::vector<std::string> inbox = {};  // requests that were not handled yet
    std::list<Arriving> receiving = {};
    std::shared_ptr<MappedMemory> memory = std::make_shared<MappedMemory>();
    std::shared_ptr<std::atomic<uint64_t>> pending = std::make_shared<std::atomic<uint64_t>>(0);
    bool left = false;
    std::unique_ptr<MailboxServer> mailbox = {};  // behind what its thread uses
  };

  Impl(const cluster::ClusterSpec& all, const cluster::TaskId& self, ParameterServerOptions chosen);
  ~Impl();

  Status admit(const wire::Hello& peer) const;
  void serve(const std::stop_token& stop);
  void serve_once(const std::stop_token& stop);
  void serve_requests(Worker& worker);
  bool something_to_do();
  void accept();
  void take_requests(Worker& worker);
  void begin(Worker& worker, const std::string& bytes);
  void check_permitted(const TableCall& call) const;
  void take_data(Worker& worker, TableCall& call, const Shard& shard, uint64_t limit);
  void serve_worker(Worker& worker, TableCall& call);
  void note_tables();
  void open_mailbox(Worker& worker, const std::shared_ptr<TableCall>& call);
  void serve_mailbox(Worker& worker, const std::shared_ptr<Mailbox>& mailbox,
                     strata::detail::CoreFollower& follower, const std::string& bytes);
  bool has_come(const Arriving& arriving);
  void advance(Worker& worker);
  void hand_over(const Arriving& arriving);
  Table& table_of(const TableCall& call, Tables& among);
  Table& make_table(const TableCall& call, Tables& among);
  Tables& tables_for(const Request& request, const std::string& who);
  void refuse(const std::shared_ptr<TableCall>& call, const Status& why);
  uint64_t pending_limit() const;
  uint64_t table_bytes() const;
  void lose(Worker& worker, const Status& why);
  static void leave(Tables& tables, const std::string& worker);
  void check_liveness();
  void say_that_none_is_there(Clock::time_point now);
  void done(std::shared_ptr<TableCall> call);
  bool workers_are_there() const;
  bool all_have_come() const;

  // With a backup, and as one.
  void start_backup();
  void replicate(const Arriving& arriving);
  void tend_backup();
  void greet(Worker& server, const Request& request);
  void begin_input(Worker& server, Request request);
  void take_inputs(Worker& server);
  void replace(const std::string& who);
  bool may_replace() const;
  void tell_servers(ErrorCode code);
  cluster::TaskId backup_peer(int offset) const;

  const cluster::ClusterSpec spec;
  const cluster::TaskId task;
  const ParameterServerOptions options;
  const int servers;
  const uint64_t memory_limit;  // bytes of tables
  const std::shared_ptr<wire::Transport> transport;
  FailureLog failures;
  strata::detail::LogLimiter refusals;
  strata::detail::LogLimiter losses;

  BufferPool pool;                           // before the calls that use it
  std::unique_ptr<BackupReplicator> backup;  // null: no table has one; before the calls, too
  Tables own;                                // the serving thread's, as all here
  Tables copied;
  Copies copies = Copies::kBackup;
  std::list<Worker> workers;
  uint64_t next_worker = 0;
  cluster::FailureDetector detector;  // of the workers
  std::list<DrainingConnection> draining;
  std::vector<std::shared_ptr<TableCall>> sending;
  Clock::time_point last_there = Clock::now();
  std::optional<strata::detail::WaitNotice> alone_notice;  // while no worker is there
  std::set<std::string> came;                              // workers that ever were there
  bool demoted = false;

  // What the mailboxes' threads know of tables.
  Mutex mailbox_mutex;
  std::map<std::string, Table*> mailbox_tables STRATA_GUARDED_BY(mailbox_mutex);  // of `own`
  uint64_t mailbox_pending_limit STRATA_GUARDED_BY(mailbox_mutex) = 0;

  std::atomic<bool> arrived{false};
  std::atomic<bool> finished{false};  // calls came back from their shards
  Mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::shared_ptr<TableCall>> back STRATA_GUARDED_BY(mutex);
  bool job_done STRATA_GUARDED_BY(mutex) = false;
  bool all_workers_gone STRATA_GUARDED_BY(mutex) = false;
  bool ended STRATA_GUARDED_BY(mutex) = false;
  Thread thread;
};

}  // namespace strata::ps
