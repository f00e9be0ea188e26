#include <algorithm>
#include <set>
#include <utility>

#include "ps/permissions.h"
#include "ps/tables/parameter_server_impl.h"
#include "strata/cluster/roles.h"
#include "strata/core/log.h"

namespace strata::ps {

cluster::TaskId ParameterServer::Impl::backup_peer(int offset) const {
  const int all = std::max(1, servers);
  return {std::string(cluster::kPs), (task.index + offset + all) % all};
}

void ParameterServer::Impl::start_backup() {
  const cluster::TaskId holder = backup_peer(1);
  backup = std::make_unique<BackupReplicator>(
      BackupReplicator::Options{.transport = transport,
                                .holder = holder.to_string(),
                                .address = wire::Address::parse(spec.task_address(holder)),
                                .hello = {.job = options.server.job,
                                          .task = task.to_string(),
                                          .purpose = std::string(kBackupPurpose)},
                                .liveness = options.server.liveness});
  if (copies == Copies::kPrimary) backup->set_replaces();
}

void ParameterServer::Impl::replicate(const Arriving& arriving) {
  const std::shared_ptr<TableCall>& call = arriving.call;
  const bool is_own = call->request().worker.empty() && call->request().on_behalf_of == 0;
  const bool changes = changes_table(call->request().kind);
  if (!is_own || !changes || !arriving.table->shard->spec().backup) return;
  backup->forward(call);
}

void ParameterServer::Impl::tend_backup() {
  backup->tend();
  if (!backup->replaced() || demoted) return;
  demoted = true;
  for (auto& [name, table] : own.by_name) {
    if (!table.shard->spec().backup) continue;
    table.executor->run(
        [shard = table.shard.get(), why = backup->why_replaced()] { shard->give_up(why); }, false);
  }
}

/// A server whose backup this is has come: for the first time in its life, or to decide which
/// continues on, since the line was broken.
void ParameterServer::Impl::greet(Worker& server, const Request& request) {
  // Copies without the server that they are of: it was started anew, and has nothing.
  if (!request.flag && copies == Copies::kBackup && !copied.by_name.empty()) replace(server.name);
  Reply reply;
  if (copies == Copies::kPrimary) {
    reply.code = ErrorCode::kAborted;
  } else if (request.flag) {
    copies = Copies::kStale;
    copied.by_name.clear();
    note_tables();
  } else if (copies == Copies::kStale) {
    reply.code = ErrorCode::kFailedPrecondition;
    reply.text = "a previous incarnation of this server continued without its backup";
  }
  send_reply(*server.connection, reply);
}

void ParameterServer::Impl::begin_input(Worker& server, Request request) {
  if (request.kind == RequestKind::kBackup) return greet(server, request);
  if (copies != Copies::kBackup) return;
  const std::string worker = request.worker;
  STRATA_CHECK(permitted(spec, worker, Action::kRead).ok(), kDataLoss, "[ps] got an input of ",
               server.name, " that names no worker of ", spec.to_string());
  STRATA_CHECK(changes_table(request.kind) || request.kind == RequestKind::kLeave, kDataLoss,
               "[ps] got request ", static_cast<uint32_t>(request.kind), " of ", server.name,
               ", which changes no table");
  // A copy answers no worker, whatever the request says.
  if (request.kind != RequestKind::kCreate) request.flag = false;
  request.memory.clear();
  const auto call = std::make_shared<TableCall>(std::move(request), server.connection, worker);
  Arriving arriving{.call = call, .table = nullptr};
  if (call->request().kind != RequestKind::kLeave) {
    arriving.table = &table_of(*call, copied);
    call->receive(pool, arriving.table->shard->data_sizes_of(call->request()));
  }
  server.receiving.push_back(std::move(arriving));
}

/// In their order. They are acknowledged at once: received requests will be executed.
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
  } catch (...) {
    lose(server, Status::from_current_exception());
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
                       << backup_peer(-1).to_string() << ", which " << who << " has lost";
  copies = Copies::kPrimary;
  if (backup) backup->set_replaces();
  tell_servers(ErrorCode::kAborted);
  std::set<std::string> there;
  for (const Worker& worker : workers) {
    if (!worker.left && !worker.is_server) there.insert(worker.name);
  }
  for (auto& [name, table] : copied.by_name) {
    table.executor->run([shard = table.shard.get(), there] { shard->keep_only(there); }, false);
  }
}

/// For a worker that cannot reach the other server: it has been replaced, or was there and is lost.
bool ParameterServer::Impl::may_replace() const {
  if (copies != Copies::kBackup) return copies == Copies::kPrimary;
  const bool line =
      std::ranges::any_of(workers, [](const Worker& each) { return each.is_server && !each.left; });
  return !copied.by_name.empty() && !line;
}

void ParameterServer::Impl::tell_servers(ErrorCode code) {
  for (Worker& server : workers) {
    if (!server.is_server || server.left) continue;
    send_reply(*server.connection, {.code = code});
    lose(server, Status(code, "it received notice of the failure"));
  }
}

/// A worker that asks for another server's table reports that server as lost.
ParameterServer::Impl::Tables& ParameterServer::Impl::tables_for(const Request& request,
                                                                 const std::string& who) {
  if (request.on_behalf_of == 0) return own;
  const cluster::TaskId before = backup_peer(-1);
  STRATA_CHECK(
      servers > 1 && request.on_behalf_of == before.index + 1u, kInvalidArgument,
      "[ps] got a request in the place of /job:ps/task:", int64_t{request.on_behalf_of} - 1, "; ",
      task.to_string(), " keeps copies for ", before.to_string());
  STRATA_CHECK(copies != Copies::kStale, kUnavailable, "[ps] ", task.to_string(),
               " cannot take the place of ", before.to_string(),
               ", which continued without it: its copies are behind. Start the job again from its "
               "last checkpoint");
  if (copies == Copies::kBackup) replace(who);
  return copied;
}

}  // namespace strata::ps
