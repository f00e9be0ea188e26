#include "strata/ps/parameter_server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/make_transport.h"
#include "ps/tables/buffer_pool.h"
#include "ps/tables/request.h"
#include "ps/tables/shard.h"
#include "ps/tables/standby.h"
#include "ps/tables/strand.h"
#include "ps/tables/table_call.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/core/thread.h"

namespace strata::ps {
namespace {

using Clock = std::chrono::steady_clock;

/// Calls that bring and take no more than this are worked on by the thread that received them.
constexpr uint64_t kShort = 64 << 10;

/// Of what is told apart in a quiet moment: who has been silent, whether to stop.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

struct ParameterServer::Impl {
  struct Table {
    std::string spec;  // as JSON
    std::unique_ptr<Shard> shard;
    std::unique_ptr<Strand> strand;  // behind the shard, which it uses
  };
  /// One server's parts.
  struct Tables {
    int server;
    std::map<std::string, Table> by_name = {};
  };
  /// What the copies of another server's tables are.
  enum class Copies {
    kFollow,  ///< Copies, if there are any.
    kServe,   ///< The tables: workers have said that that server is lost.
    kStale,   ///< Nothing: that server goes on without them.
  };
  /// A call whose data are on the way.
  struct Arriving {
    std::shared_ptr<TableCall> call;
    Table* table;  // null: a worker that has left another server
  };
  /// The connection of one that has left, until that has closed it: it has to hear the answer.
  struct Parting {
    std::shared_ptr<wire::Connection> connection;
    Clock::time_point since = Clock::now();
  };
  struct Worker {
    std::shared_ptr<wire::Connection> connection;
    std::string name;
    bool is_server = false;  // whose tables are copied here: it brings what changes them
    Clock::time_point heard = Clock::now();
    std::vector<std::string> inbox = {};  // requests that nobody has looked at
    std::list<Arriving> receiving = {};
    bool left = false;
  };

  Impl(const cluster::ClusterSpec& all, const cluster::TaskId& self, ParameterServerOptions chosen);
  ~Impl();

  Status admit(const wire::Hello& peer) const;
  void serve(const std::stop_token& stop);
  bool something_to_do();
  void accept();
  void take_requests(Worker& worker);
  void begin(Worker& worker, const std::string& bytes);
  bool has_come(const Arriving& arriving);
  void advance(Worker& worker);
  void hand_over(const Arriving& arriving);
  Table& table_of(const TableCall& call, Tables& among);
  Table& make_table(const TableCall& call, Tables& among);
  Tables& tables_for(const Request& request, const std::string& who);
  void refuse(const std::shared_ptr<TableCall>& call, const Error& error);
  void lose(Worker& worker, const Status& why);
  static void leave(Tables& tables, const std::string& worker);
  void look_around();
  void done(std::shared_ptr<TableCall> call);
  bool workers_are_there() const;

  // With a standby, and as one.
  void replicate(const Arriving& arriving);
  void tend_standby();
  void greet(Worker& server, const Request& request);
  void begin_input(Worker& server, Request request);
  void take_inputs(Worker& server);
  void replace(const std::string& who);
  bool may_replace() const;
  void tell_servers(ErrorCode code);
  cluster::TaskId neighbour(int offset) const;

  const cluster::ClusterSpec spec;
  const cluster::TaskId task;
  const ParameterServerOptions options;
  const int servers;
  const std::shared_ptr<wire::Transport> transport;

  BufferPool pool;                   // before the calls that use it
  std::unique_ptr<Standby> standby;  // null: no table has one; before the calls, too
  Tables own;                        // the serving thread's, as all here
  Tables copied;
  Copies copies = Copies::kFollow;
  std::list<Worker> workers;
  std::list<Parting> parting;
  std::vector<std::shared_ptr<TableCall>> sending;
  Clock::time_point last_there = Clock::now();
  bool gave_way = false;

  std::atomic<bool> arrived{false};
  std::atomic<bool> finished{false};  // calls came back from their shards
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::shared_ptr<TableCall>> back;  // guarded by mutex
  bool job_done = false;                         // guarded by mutex
  bool lonely = false;                           // guarded by mutex
  bool ended = false;                            // guarded by mutex
  Thread thread;
};

ParameterServer::Impl::Impl(const cluster::ClusterSpec& all, const cluster::TaskId& self,
                            ParameterServerOptions chosen)
    : spec(all),
      task(self),
      options(std::move(chosen)),
      servers(all.has_job(cluster::kPs) ? all.num_tasks(cluster::kPs) : 0),
      transport(cluster::make_transport(options.server)),
      own{.server = task.index},
      copied{.server = neighbour(-1).index} {
  STRATA_CHECK(task.job == cluster::kPs && spec.has_task(task), kInvalidArgument,
               "[ps] ParameterServer: got ", task.to_string(), " of ", spec.to_string(),
               "; expected a task of the job \"ps\"");
  const wire::Address address =
      wire::Address::parse(options.server.listen_address.value_or(spec.task_address(task)));
  transport->listen(
      address,
      {.job = options.server.job, .task = task.to_string(), .purpose = std::string(kPurpose)},
      {.admit = [this](const wire::Hello& peer, const wire::Address&) { return admit(peer); },
       .arrived = [this] { arrived.store(true, std::memory_order_release); }});
  thread = Thread("strata-ps", [this](const std::stop_token& stop) { serve(stop); });
}

ParameterServer::Impl::~Impl() {
  thread.request_stop();
  transport->wake();
  thread.join();
  for (Tables* each : {&own, &copied}) {
    for (auto& [name, table] : each->by_name) table.strand.reset();
  }
}

Status ParameterServer::Impl::admit(const wire::Hello& peer) const {
  const auto refuse = [&](const std::string& why) {
    return Status(ErrorCode::kPermissionDenied,
                  str_cat("[ps] ", task.to_string(), " refuses ", peer.task, ": ", why));
  };
  try {
    if (!spec.has_task(cluster::TaskId::parse(peer.task))) {
      return refuse(str_cat("it is not in ", spec.to_string()));
    }
  } catch (const Error&) {
    return refuse("that is no name of a task");
  }
  if (peer.purpose == kStandbyPurpose) {
    if (peer.task == neighbour(-1).to_string()) return {};
    return refuse(str_cat("it keeps copies for ", neighbour(-1).to_string(), " alone"));
  }
  if (peer.purpose != kPurpose) {
    return refuse(str_cat("it came for \"", peer.purpose,
                          "\"; this task is a parameter server: start the workers with a "
                          "ParameterServerStrategy"));
  }
  return {};
}

void ParameterServer::Impl::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    transport->wait_until([this] { return something_to_do(); }, wire::Deadline::after(kLook), stop);
    if (arrived.exchange(false)) accept();
    if (standby) tend_standby();
    for (Worker& worker : workers) {
      take_requests(worker);
      advance(worker);
    }
    if (finished.exchange(false)) {
      const std::lock_guard lock(mutex);
      std::ranges::move(back, std::back_inserter(sending));
      back.clear();
    }
    std::erase_if(sending, [](const std::shared_ptr<TableCall>& call) { return call->sent(); });
    look_around();
  }
  const std::lock_guard lock(mutex);
  if (job_done) tell_servers(ErrorCode::kCancelled);
  ended = true;
  changed.notify_all();
}

/// Called while it waits, by this thread: messages go into the inboxes.
bool ParameterServer::Impl::something_to_do() {
  bool found = arrived.load(std::memory_order_acquire) ||
               finished.load(std::memory_order_acquire) ||
               std::ranges::any_of(sending, [](const auto& call) { return call->sent(); });
  found = (standby && standby->look()) || found;
  for (Worker& worker : workers) {
    if (worker.left || !worker.connection->status().ok()) continue;
    while (auto message = worker.connection->try_receive_message(kTableChannel)) {
      worker.inbox.push_back(std::move(*message));
    }
    found = found || !worker.inbox.empty();
    for (const Arriving& each : worker.receiving) found |= has_come(each);
  }
  return found;
}

void ParameterServer::Impl::accept() {
  while (auto connection = transport->try_accept()) {
    const std::string& name = connection->peer().task;
    const bool is_server = connection->peer().purpose == kStandbyPurpose;
    for (Worker& worker : workers) {  // started anew before it was missed
      if (worker.name == name && worker.is_server == is_server && !worker.left) {
        lose(worker, Status(ErrorCode::kUnavailable, "it has come again"));
      }
    }
    STRATA_VLOG(4) << "[ps] " << name << " has come";
    workers.push_back({.connection = std::move(connection), .name = name, .is_server = is_server});
  }
}

void ParameterServer::Impl::take_requests(Worker& worker) {
  if (worker.inbox.empty()) return;
  worker.heard = Clock::now();
  const std::vector<std::string> inbox = std::exchange(worker.inbox, {});
  for (const std::string& bytes : inbox) {
    if (worker.left) return;
    try {
      begin(worker, bytes);
    } catch (const Error& error) {  // it does not speak this language
      worker.connection->fail(Status(error.code(), error.what()));
      lose(worker, Status(error.code(), error.what()));
    }
  }
}

void ParameterServer::Impl::begin(Worker& worker, const std::string& bytes) {
  Request request = decode_request(bytes);
  if (worker.is_server) return begin_input(worker, std::move(request));
  if (request.kind == RequestKind::kReplaces) {
    const bool does = request.instead_of == neighbour(-1).index + 1u && may_replace();
    return send_reply(*worker.connection, {.id = request.id, .flag = does});
  }
  if (request.kind == RequestKind::kLeave) {
    const auto call = std::make_shared<TableCall>(request, worker.connection, worker.name);
    call->reply({});
    parting.push_back({.connection = worker.connection});
    if (request.flag) {
      const std::lock_guard lock(mutex);
      job_done = true;
      changed.notify_all();
    }
    lose(worker, {});
    return;
  }
  const auto call = std::make_shared<TableCall>(std::move(request), worker.connection, worker.name);
  Arriving arriving{.call = call, .table = nullptr};
  std::vector<size_t> layout;
  try {
    Tables& among = tables_for(call->request(), worker.name);
    arriving.table = &table_of(*call, among);
    if (&among == &own && arriving.table->shard->spec().standby) call->answer_through(*standby);
    layout = arriving.table->shard->layout_of(call->request());
  } catch (const Error& error) {
    refuse(call, error);
    return;
  }
  call->receive(pool, layout);
  if (has_come(arriving)) {
    hand_over(arriving);
  } else {
    worker.receiving.push_back(std::move(arriving));
  }
}

bool ParameterServer::Impl::has_come(const Arriving& arriving) {
  return arriving.call->take_arrived([&](size_t offset, size_t bytes) {
    arriving.table->shard->inspect(*arriving.call, offset, bytes);
  });
}

ParameterServer::Impl::Table& ParameterServer::Impl::table_of(const TableCall& call,
                                                              Tables& among) {
  const Request& request = call.request();
  const auto found = among.by_name.find(request.table);
  if (request.kind != RequestKind::kCreate) {
    STRATA_CHECK(found != among.by_name.end(), kNotFound, "[ps] got a request of ", call.worker(),
                 " for the table '", request.table, "', which ", task.to_string(),
                 " does not have; make it first. Was this server started anew? Then start the job "
                 "again from its last checkpoint");
    return found->second;
  }
  if (found == among.by_name.end()) return make_table(call, among);
  STRATA_CHECK(found->second.spec == request.text, kInvalidArgument, "[ps] table '", request.table,
               "': ", call.worker(), " makes it as ", request.text, "; it was made as ",
               found->second.spec, ": all workers must run the same program with the same options");
  return found->second;
}

ParameterServer::Impl::Table& ParameterServer::Impl::make_table(const TableCall& call,
                                                                Tables& among) {
  const Request& request = call.request();
  Table table;
  table.spec = request.text;
  table.shard =
      Shard::make(table_from_json(Json::parse(request.text)), among.server, servers, pool,
                  [this](std::shared_ptr<TableCall> answered) { done(std::move(answered)); });
  table.strand = std::make_unique<Strand>(str_cat("ps-", request.table));
  if (&among == &own && table.shard->spec().standby && !standby) {
    const cluster::TaskId holder = neighbour(1);
    standby = std::make_unique<Standby>(
        Standby::Options{.transport = transport,
                         .holder = holder.to_string(),
                         .address = wire::Address::parse(spec.task_address(holder)),
                         .hello = {.job = options.server.job,
                                   .task = task.to_string(),
                                   .purpose = std::string(kStandbyPurpose)},
                         .liveness = options.server.liveness});
    if (copies == Copies::kServe) standby->set_replaces();
  }
  return among.by_name.emplace(request.table, std::move(table)).first->second;
}

/// Whoever asks for another server's says that that server is lost.
ParameterServer::Impl::Tables& ParameterServer::Impl::tables_for(const Request& request,
                                                                 const std::string& who) {
  if (request.instead_of == 0) return own;
  const cluster::TaskId before = neighbour(-1);
  STRATA_CHECK(servers > 1 && request.instead_of == before.index + 1u, kInvalidArgument,
               "[ps] got a request in the place of /job:ps/task:", int64_t{request.instead_of} - 1,
               "; ", task.to_string(), " keeps copies for ", before.to_string());
  STRATA_CHECK(copies != Copies::kStale, kUnavailable, "[ps] ", task.to_string(),
               " cannot take the place of ", before.to_string(),
               ", which went on without it: its copies are behind. Start the job again from its "
               "last checkpoint");
  if (copies == Copies::kFollow) replace(who);
  return copied;
}

void ParameterServer::Impl::refuse(const std::shared_ptr<TableCall>& call, const Error& error) {
  STRATA_LOG(kWarning) << "[ps] refuses a request of " << call->worker() << ": " << error.what();
  call->reply({.code = error.code(), .text = error.what()});
}

void ParameterServer::Impl::advance(Worker& worker) {
  if (worker.is_server) return take_inputs(worker);
  std::erase_if(worker.receiving, [&](const Arriving& each) {
    if (!has_come(each)) return false;
    hand_over(each);
    return true;
  });
  if (!worker.left && !worker.connection->status().ok()) lose(worker, worker.connection->status());
}

void ParameterServer::Impl::hand_over(const Arriving& arriving) {
  const std::shared_ptr<TableCall>& call = arriving.call;
  try {
    call->check_received();
    replicate(arriving);
    Shard* const shard = arriving.table->shard.get();
    const uint64_t bytes = shard->bytes_of(call->request());
    arriving.table->strand->run([shard, call] { shard->run(call); }, bytes <= kShort);
  } catch (const Error& error) {
    refuse(call, error);
  }
}

/// A call comes back: its answer is on its way. On a strand.
void ParameterServer::Impl::done(std::shared_ptr<TableCall> call) {
  if (call->sent()) return;
  {
    const std::lock_guard lock(mutex);
    back.push_back(std::move(call));
  }
  finished.store(true, std::memory_order_release);
  transport->wake();
}

/// Ok: it has left in order.
void ParameterServer::Impl::lose(Worker& worker, const Status& why) {
  worker.left = true;
  if (worker.is_server) {  // workers will say whether it is
    STRATA_VLOG(4) << "[ps] the line from " << worker.name << " has ended: " << why.message();
    worker.receiving.clear();
    return;
  }
  if (!why.ok()) {
    STRATA_LOG(kWarning) << "[ps] " << worker.name << " is lost: " << why.message()
                         << "; nobody waits for it any more";
  }
  if (standby) standby->forward_leave(worker.name);
  leave(own, worker.name);
  if (copies == Copies::kServe) leave(copied, worker.name);
}

void ParameterServer::Impl::leave(Tables& tables, const std::string& worker) {
  for (auto& [name, table] : tables.by_name) {
    table.strand->run([shard = table.shard.get(), worker] { shard->leave(worker); }, false);
  }
}

bool ParameterServer::Impl::workers_are_there() const {
  return std::ranges::any_of(workers, [](const Worker& worker) { return !worker.is_server; });
}

void ParameterServer::Impl::look_around() {
  const Clock::time_point now = Clock::now();
  for (Worker& worker : workers) {
    if (worker.left) continue;
    try {
      while (worker.connection->try_receive_message(kBeatChannel)) {
        worker.heard = now;
        worker.connection->send_message(kBeatChannel, "");
      }
    } catch (const Error&) {
      continue;  // `advance` sees it
    }
    if (now - worker.heard > options.server.liveness) {
      const Status silent(ErrorCode::kUnavailable,
                          str_cat("[ps] ", worker.name, " has been silent for ",
                                  std::chrono::duration<double>(now - worker.heard).count(), " s"));
      worker.connection->fail(silent);
      lose(worker, silent);
    }
  }
  workers.remove_if([](const Worker& worker) { return worker.left && worker.receiving.empty(); });
  parting.remove_if([&](const Parting& each) {
    return !each.connection->status().ok() || now - each.since > options.server.liveness;
  });
  const bool there = workers_are_there();
  if (there) last_there = now;
  const std::lock_guard lock(mutex);
  const bool needless = gave_way && workers.empty();
  const bool over = (job_done && !there) || needless;
  lonely = now - last_there > options.lonely_limit;
  if (over || lonely) {
    ended = true;
    changed.notify_all();
  }
}

cluster::TaskId ParameterServer::Impl::neighbour(int offset) const {
  const int all = std::max(1, servers);
  return {std::string(cluster::kPs), (task.index + offset + all) % all};
}

void ParameterServer::Impl::replicate(const Arriving& arriving) {
  const std::shared_ptr<TableCall>& call = arriving.call;
  const Shard& shard = *arriving.table->shard;
  const bool is_own = call->request().worker.empty() && call->request().instead_of == 0;
  if (!is_own || !shard.spec().standby || !changes_table(call->request().kind)) return;
  standby->forward(call, shard.layout_of(call->request()));
}

void ParameterServer::Impl::tend_standby() {
  standby->tend();
  if (!standby->replaced() || gave_way) return;
  gave_way = true;
  for (auto& [name, table] : own.by_name) {
    if (!table.shard->spec().standby) continue;
    table.strand->run(
        [shard = table.shard.get(), why = standby->why_replaced()] { shard->give_up(why); }, false);
  }
}

/// A server whose standby this is has come: for the first time in its life, or to settle who goes
/// on, since the line was broken.
void ParameterServer::Impl::greet(Worker& server, const Request& request) {
  // Copies without the server that they are of: it was started anew, and has nothing.
  if (!request.flag && copies == Copies::kFollow && !copied.by_name.empty()) replace(server.name);
  Reply reply;
  if (copies == Copies::kServe) {
    reply.code = ErrorCode::kAborted;
  } else if (request.flag) {
    copies = Copies::kStale;
    copied.by_name.clear();
  } else if (copies == Copies::kStale) {
    reply.code = ErrorCode::kFailedPrecondition;
    reply.text = "a former life of this server went on without it";
  }
  send_reply(*server.connection, reply);
}

void ParameterServer::Impl::begin_input(Worker& server, Request request) {
  if (request.kind == RequestKind::kStandby) return greet(server, request);
  if (copies != Copies::kFollow) return;
  const std::string worker = request.worker;
  STRATA_CHECK(!worker.empty(), kDataLoss, "[ps] got an input of ", server.name,
               " that names no worker");
  const auto call = std::make_shared<TableCall>(std::move(request), server.connection, worker);
  Arriving arriving{.call = call, .table = nullptr};
  if (call->request().kind != RequestKind::kLeave) {
    arriving.table = &table_of(*call, copied);
    call->receive(pool, arriving.table->shard->layout_of(call->request()));
  }
  server.receiving.push_back(std::move(arriving));
}

/// In their order. It is told at once that they are here: what is here will be done.
void ParameterServer::Impl::take_inputs(Worker& server) {
  if (server.left) return;
  std::list<Arriving>& receiving = server.receiving;
  std::list<Arriving> ready;
  try {
    while (!receiving.empty() && has_come(receiving.front())) {
      receiving.front().call->check_received();
      ready.splice(ready.end(), receiving, receiving.begin());
    }
    server.connection->status().throw_if_error();
  } catch (const Error& error) {
    lose(server, Status(error.code(), error.what()));
  }
  if (ready.empty()) return;
  send_reply(*server.connection, {.id = ready.back().call->request().id});
  for (const Arriving& each : ready) {
    if (each.table == nullptr) {
      leave(copied, each.call->worker());
    } else {
      hand_over(each);
    }
  }
}

/// The copies are the tables from now on. What their server had brought and had not heard of comes
/// again, from the workers.
void ParameterServer::Impl::replace(const std::string& who) {
  STRATA_LOG(kWarning) << "[ps] " << task.to_string() << " takes the place of "
                       << neighbour(-1).to_string() << ", which " << who << " has lost";
  copies = Copies::kServe;
  if (standby) standby->set_replaces();
  tell_servers(ErrorCode::kAborted);
  std::set<std::string> there;
  for (const Worker& worker : workers) {
    if (!worker.left && !worker.is_server) there.insert(worker.name);
  }
  for (auto& [name, table] : copied.by_name) {
    table.strand->run([shard = table.shard.get(), there] { shard->keep_only(there); }, false);
  }
}

/// For a worker that cannot reach the other server: it has been replaced, or was there and is lost.
bool ParameterServer::Impl::may_replace() const {
  if (copies != Copies::kFollow) return copies == Copies::kServe;
  const bool line =
      std::ranges::any_of(workers, [](const Worker& each) { return each.is_server && !each.left; });
  return !copied.by_name.empty() && !line;
}

void ParameterServer::Impl::tell_servers(ErrorCode code) {
  for (Worker& server : workers) {
    if (!server.is_server || server.left) continue;
    send_reply(*server.connection, {.code = code});
    lose(server, Status(code, "it was told"));
  }
}

ParameterServer::ParameterServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                                 ParameterServerOptions options)
    : impl_(std::make_unique<Impl>(spec, task, std::move(options))) {}
ParameterServer::~ParameterServer() = default;

void ParameterServer::join(std::stop_token stop) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, stop, [&] { return impl_->ended; });
  STRATA_CHECK(!impl_->lonely || impl_->job_done, kDeadlineExceeded, "[ps] ",
               impl_->task.to_string(), ": no worker was there for ",
               std::chrono::duration<double>(impl_->options.lonely_limit).count(),
               " s; are the workers' specs the same? ", impl_->spec.to_string());
}

}  // namespace strata::ps
