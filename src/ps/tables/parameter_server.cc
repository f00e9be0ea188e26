#include "ps/tables/parameter_server.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "cluster/make_transport.h"
#include "ps/permissions.h"
#include "ps/tables/parameter_server_impl.h"
#include "strata/cluster/roles.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

/// Calls of no more bytes are worked on by the thread that received them, which takes less time
/// than waking another. It receives nothing meanwhile; where data are in place, there is little to
/// come, and the worker that waits has left its core to this thread.
constexpr uint64_t kShort = 256 << 10;
constexpr uint64_t kShortInPlace = 4 << 20;

bool is_about_worker(RequestKind kind) {
  return kind == RequestKind::kLeave || kind == RequestKind::kMapSegment ||
         kind == RequestKind::kUnmapSegment || kind == RequestKind::kReplaces;
}

/// Each has a thread.
constexpr size_t kMostTables = 1024;

/// Bytes that the pending requests of a worker may hold, however small the tables are.
constexpr uint64_t kPendingFloor = uint64_t{64} << 20;

/// The host's memory less a tenth.
uint64_t default_memory_limit() {
  const auto pages = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  return pages / 10 * 9 * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

/// Checked in quiet moments: who has been silent, whether to stop.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

ParameterServer::Impl::Impl(const cluster::ClusterSpec& all, const cluster::TaskId& self,
                            ParameterServerOptions chosen)
    : spec(all),
      task(self),
      options(std::move(chosen)),
      servers(all.has_job(cluster::kPs) ? all.num_tasks(cluster::kPs) : 0),
      memory_limit(options.limits.memory != 0 ? options.limits.memory : default_memory_limit()),
      transport(cluster::make_transport(options.server)),
      own{.server = task.index},
      copied{.server = backup_peer(-1).index},
      detector(cluster::table_timing(options.server.liveness)) {
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
  for (Worker& worker : workers) worker.mailbox.reset();
  for (Tables* each : {&own, &copied}) {
    for (auto& [name, table] : each->by_name) table.executor.reset();
  }
}

Status ParameterServer::Impl::admit(const wire::Hello& peer) const {
  const auto refuse = [&](const std::string& why) {
    return Status(ErrorCode::kPermissionDenied,
                  str_cat("[ps] ", task.to_string(), " refuses ", peer.task, ": ", why));
  };
  if (peer.purpose == kBackupPurpose) {
    const Status may = permitted(spec, peer.task, Action::kKeepCopies);
    if (!may.ok()) return refuse(may.message());
    if (peer.task == backup_peer(-1).to_string()) return {};
    return refuse(str_cat("it keeps copies for ", backup_peer(-1).to_string(), " alone"));
  }
  const Status may = permitted(spec, peer.task, Action::kRead);
  if (!may.ok()) return refuse(may.message());
  if (peer.purpose != kPurpose) {
    return refuse(str_cat("it came for \"", peer.purpose,
                          "\"; this task is a parameter server: start the workers with a "
                          "ParameterServerStrategy"));
  }
  return {};
}

/// Nothing that a peer causes ends this thread: what is thrown here is want of memory.
void ParameterServer::Impl::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      serve_once(stop);
    } catch (...) {
      failures.log("serving", Status::from_current_exception());
      MutexLock lock(mutex);
      changed.wait_for(lock, stop, kLook, [] { return false; });
    }
  }
  const MutexLock lock(mutex);
  if (job_done) tell_servers(ErrorCode::kCancelled);
  ended = true;
  changed.notify_all();
}

void ParameterServer::Impl::serve_once(const std::stop_token& stop) {
  transport->wait_until([this] { return something_to_do(); }, wire::Deadline::after(kLook), stop);
  if (arrived.exchange(false)) accept();
  if (backup) tend_backup();
  for (Worker& worker : workers) serve_requests(worker);
  if (finished.exchange(false)) {
    const MutexLock lock(mutex);
    std::ranges::move(back, std::back_inserter(sending));
    back.clear();
  }
  std::erase_if(sending, [](const std::shared_ptr<TableCall>& call) { return call->sent(); });
  check_liveness();
}

/// A request that could not be served for want of memory costs its worker the connection, which
/// `advance` then sees, and no other worker anything.
void ParameterServer::Impl::serve_requests(Worker& worker) {
  try {
    take_requests(worker);
    advance(worker);
  } catch (...) {
    const Status status = Status::from_current_exception();
    worker.inbox.clear();
    worker.connection->fail(status);
    failures.log(worker.name, status);
  }
}

/// Called while it waits, by this thread: messages go into the inboxes.
bool ParameterServer::Impl::something_to_do() {
  bool found = arrived.load(std::memory_order_acquire) ||
               finished.load(std::memory_order_acquire) ||
               std::ranges::any_of(sending, [](const auto& call) { return call->sent(); });
  found = (backup && backup->look()) || found;
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
    const bool is_server = connection->peer().purpose == kBackupPurpose;
    for (Worker& worker : workers) {  // started anew before it was missed
      if (worker.name == name && worker.is_server == is_server && !worker.left) {
        lose(worker, Status(ErrorCode::kUnavailable, "it has come again"));
      }
    }
    STRATA_VLOG(4) << "[ps] " << name << " has come";
    if (!is_server) came.insert(name);
    const uint64_t id = next_worker++;
    detector.add(id, Clock::now());
    workers.push_back(
        {.connection = std::move(connection), .name = name, .is_server = is_server, .id = id});
  }
}

void ParameterServer::Impl::take_requests(Worker& worker) {
  if (worker.inbox.empty()) return;
  detector.heard(worker.id, Clock::now());
  const std::vector<std::string> inbox = std::exchange(worker.inbox, {});
  for (const std::string& bytes : inbox) {
    if (worker.left) return;
    try {
      begin(worker, bytes);
    } catch (...) {  // it does not speak this language, or memory is lacking
      const Status status = Status::from_current_exception();
      worker.connection->fail(status);
      lose(worker, status);
    }
  }
}

void ParameterServer::Impl::begin(Worker& worker, const std::string& bytes) {
  Request request = decode_request(bytes);
  if (worker.is_server) return begin_input(worker, std::move(request));
  const auto call = std::make_shared<TableCall>(std::move(request), worker.connection, worker.name);
  try {
    check_permitted(*call);
  } catch (...) {
    return refuse(call, Status::from_current_exception());
  }
  // Between servers: a worker that set it would have no answer, and its pushes no copy.
  STRATA_CHECK(call->request().worker.empty(), kDataLoss, "[ps] got a request of ", worker.name,
               " in another task's name, which only servers send");
  if (is_about_worker(call->request().kind)) return serve_worker(worker, *call);
  if (call->request().kind == RequestKind::kOpenMailbox) return open_mailbox(worker, call);
  Arriving arriving{.call = call, .table = nullptr};
  try {
    Tables& among = tables_for(call->request(), worker.name);
    arriving.table = &table_of(*call, among);
    const Shard& shard = *arriving.table->shard;
    if (&among == &own && shard.spec().backup) call->answer_through(*backup);
    take_data(worker, *call, shard, pending_limit());
  } catch (...) {
    refuse(call, Status::from_current_exception());
    return;
  }
  if (has_come(arriving)) {
    hand_over(arriving);
  } else {
    worker.receiving.push_back(std::move(arriving));
  }
}

void ParameterServer::Impl::check_permitted(const TableCall& call) const {
  const Status may = permitted(spec, call.worker(), action_of(call.request()));
  if (may.ok()) return;
  throw Error(may.code(), str_cat("[ps] ", task.to_string(), ": ", may.message()));
}

/// Finds them in the worker's memory, or starts to receive them.
void ParameterServer::Impl::take_data(Worker& worker, TableCall& call, const Shard& shard,
                                      uint64_t limit) {
  const Request& request = call.request();
  const PartSizes data = shard.data_sizes_of(request);
  const PartSizes answer = shard.answer_sizes_of(request);
  call.charge(worker.pending, limit, answer);
  if (request.memory.empty()) {
    call.receive(pool, data);
  } else {
    call.take_in_place(pool, *worker.memory, data, answer, shard.alignments_of(request));
  }
}

/// What is not a table's.
void ParameterServer::Impl::serve_worker(Worker& worker, TableCall& call) {
  const Request& request = call.request();
  const auto segment = static_cast<uint64_t>(request.slot);
  if (request.kind == RequestKind::kMapSegment) {
    call.reply({.flag = worker.memory->map(segment, request.text)});
    return;
  }
  if (request.kind == RequestKind::kReplaces) {
    const bool is_next = request.on_behalf_of == backup_peer(-1).index + 1u;
    call.reply({.flag = is_next && may_replace()});
    return;
  }
  if (request.kind == RequestKind::kUnmapSegment) worker.memory->forget(segment);
  call.reply({});
  if (request.kind != RequestKind::kLeave) return;
  draining.push_back({.connection = worker.connection});
  if (request.flag) {
    const MutexLock lock(mutex);
    job_done = true;
    changed.notify_all();
  }
  lose(worker, {});
}

bool ParameterServer::Impl::has_come(const Arriving& arriving) {
  return arriving.call->take_arrived([&](size_t first, const std::byte* data, size_t bytes) {
    arriving.table->shard->inspect(*arriving.call, first, data, bytes);
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
  const TableSpec asked = table_from_json(Json::parse(request.text));
  STRATA_CHECK(asked.name == request.table, kInvalidArgument, "[ps] got a table '", asked.name,
               "' under another name, of ", request.table.size(), " bytes");
  const uint64_t bytes = Shard::state_bytes(asked, among.server, servers);
  const uint64_t kept = table_bytes();
  STRATA_CHECK(own.by_name.size() + copied.by_name.size() < kMostTables, kResourceExhausted,
               "[ps] table '", asked.name, "': ", task.to_string(), " has ", kMostTables,
               " tables already; put several variables into one table");
  STRATA_CHECK(bytes <= memory_limit - std::min(kept, memory_limit), kResourceExhausted,
               "[ps] table '", asked.name, "': got ", bytes, " bytes for ", task.to_string(),
               ", which keeps ", kept, " and may keep ", memory_limit,
               " (ServerLimits::memory); use more servers or a smaller table");
  Table table;
  table.spec = request.text;
  table.bytes = bytes;
  table.shard =
      Shard::make(asked, among.server, servers, pool,
                  [this](std::shared_ptr<TableCall> answered) { done(std::move(answered)); });
  table.executor = std::make_unique<SerialExecutor>(str_cat("ps-", request.table));
  if (&among == &own && table.shard->spec().backup && !backup) start_backup();
  Table& made = among.by_name.emplace(request.table, std::move(table)).first->second;
  note_tables();
  return made;
}

void ParameterServer::Impl::refuse(const std::shared_ptr<TableCall>& call, const Status& why) {
  if (const auto count = refusals.admit()) {
    STRATA_LOG(kWarning) << "[ps] refuses a request of " << call->worker() << ": " << why.message()
                         << *count;
  }
  call->reply({.code = why.code(), .text = why.message()});
}

/// Of a worker: two requests at a time for all that the tables hold, and some for small ones.
uint64_t ParameterServer::Impl::pending_limit() const {
  return options.limits.pending != 0 ? options.limits.pending : 2 * table_bytes() + kPendingFloor;
}

uint64_t ParameterServer::Impl::table_bytes() const {
  uint64_t bytes = 0;
  for (const Tables* each : {&own, &copied}) {
    for (const auto& [name, table] : each->by_name) bytes += table.bytes;
  }
  return bytes;
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
    const uint64_t most = call->in_place() ? kShortInPlace : kShort;
    arriving.table->executor->run([shard, call] { shard->run(call); }, bytes <= most);
  } catch (...) {
    refuse(call, Status::from_current_exception());
  }
}

/// A call comes back: its answer is on its way. On a executor.
void ParameterServer::Impl::done(std::shared_ptr<TableCall> call) {
  if (call->sent()) return;
  {
    const MutexLock lock(mutex);
    back.push_back(std::move(call));
  }
  finished.store(true, std::memory_order_release);
  transport->wake();
}

/// Ok: it has left in order.
void ParameterServer::Impl::lose(Worker& worker, const Status& why) {
  worker.left = true;
  worker.mailbox.reset();
  if (worker.is_server) {  // workers will say whether it is
    STRATA_VLOG(4) << "[ps] the line from " << worker.name << " has ended: " << why.message();
    worker.receiving.clear();
    return;
  }
  if (const auto count = why.ok() ? std::nullopt : losses.admit()) {
    STRATA_LOG(kWarning) << "[ps] " << worker.name << " is lost: " << why.message()
                         << "; no task waits for it any more" << *count;
  }
  if (backup) backup->forward_leave(worker.name);
  leave(own, worker.name);
  if (copies == Copies::kPrimary) leave(copied, worker.name);
}

void ParameterServer::Impl::leave(Tables& tables, const std::string& worker) {
  for (auto& [name, table] : tables.by_name) {
    table.executor->run([shard = table.shard.get(), worker] { shard->leave(worker); }, false);
  }
}

bool ParameterServer::Impl::workers_are_there() const {
  return std::ranges::any_of(workers, [](const Worker& worker) { return !worker.is_server; });
}

bool ParameterServer::Impl::all_have_come() const {
  size_t workers_of_job = 0;
  for (const std::string_view job : {cluster::kChief, cluster::kWorker}) {
    if (spec.has_job(job)) workers_of_job += static_cast<size_t>(spec.num_tasks(job));
  }
  return came.size() >= workers_of_job;
}

void ParameterServer::Impl::check_liveness() {
  const Clock::time_point now = Clock::now();
  for (Worker& worker : workers) {
    if (worker.left) continue;
    if (worker.mailbox && worker.mailbox->took_request()) detector.heard(worker.id, now);
    try {
      while (worker.connection->try_receive_message(kHeartbeatChannel)) {
        detector.heard(worker.id, now);
        worker.connection->send_message(kHeartbeatChannel, "");
      }
    } catch (const Error&) {
      continue;  // `advance` sees it
    }
    if (detector.is_lost(worker.id, now)) {
      const std::chrono::duration<double> silence = detector.silence(worker.id, now);
      const Status silent(
          ErrorCode::kUnavailable,
          str_cat("[ps] ", worker.name, " has been silent for ", silence.count(), " s"));
      worker.connection->fail(silent);
      lose(worker, silent);
    }
  }
  workers.remove_if([&](const Worker& worker) {
    const bool over = worker.left && worker.receiving.empty();
    if (over) detector.remove(worker.id);
    return over;
  });
  draining.remove_if([&](const DrainingConnection& each) {
    return !each.connection->status().ok() || now - each.since > options.server.liveness;
  });
  const bool there = workers_are_there();
  if (there) last_there = now;
  const MutexLock lock(mutex);
  const bool needless = demoted && workers.empty();
  // A worker may still be starting when another finds nothing left to do.
  const bool late = !all_have_come() && now - last_there <= options.server.liveness;
  const bool over = (job_done && !there && !late) || needless;
  all_workers_gone = now - last_there > options.limits.idle_timeout;
  if (over || all_workers_gone) {
    ended = true;
    changed.notify_all();
  }
  if (there || ended || demoted) {
    alone_notice.reset();
  } else {
    say_that_none_is_there(now);
  }
}

void ParameterServer::Impl::say_that_none_is_there(Clock::time_point now) {
  if (!alone_notice) {
    const auto say = [this] {
      return str_cat("[ps] ", task.to_string(), " at ",
                     options.server.listen_address.value_or(spec.task_address(task)),
                     ": waits for a worker; ", came.empty() ? "none has come" : "all have left",
                     "; are the workers' specs the same? ", spec.to_string());
    };
    alone_notice.emplace(say, last_there, last_there + options.limits.idle_timeout);
  }
  alone_notice->look(now);
}

ParameterServer::ParameterServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                                 ParameterServerOptions options)
    : impl_(std::make_unique<Impl>(spec, task, std::move(options))) {}
ParameterServer::~ParameterServer() = default;

void ParameterServer::join(std::stop_token stop) {
  MutexLock lock(impl_->mutex);
  impl_->changed.wait(lock, stop, [&]() STRATA_REQUIRES(impl_->mutex) { return impl_->ended; });
  STRATA_CHECK(!impl_->all_workers_gone || impl_->job_done, kDeadlineExceeded, "[ps] ",
               impl_->task.to_string(), ": no worker was connected for ",
               std::chrono::duration<double>(impl_->options.limits.idle_timeout).count(),
               " s; are the workers' specs the same? ", impl_->spec.to_string());
}

}  // namespace strata::ps
