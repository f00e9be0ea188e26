#include "ps/tables/server_calls.h"

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <utility>

#include "cluster/failure_detector.h"
#include "cluster/make_transport.h"
#include "core/call_notice.h"
#include "core/current_core.h"
#include "core/join.h"
#include "core/mutex.h"
#include "core/wait_notice.h"
#include "ps/tables/message_blocks.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

using Clock = std::chrono::steady_clock;

/// Where a server is not there, so long until the others are tried.
constexpr std::chrono::seconds kFirstTry{1};
// Shorter than until a connection's own notice: the one of all tries suffices.
constexpr std::chrono::seconds kLongestTry{4};
/// While it waits at a mailbox.
constexpr std::chrono::milliseconds kConnectionLook{10};

}  // namespace

ServerCalls::ServerCalls(const cluster::ClusterSpec& spec, const cluster::TaskId& self,
                         ClientOptions options)
    : options_(std::move(options)), transport_(cluster::make_transport(options_.server)) {
  STRATA_CHECK(spec.has_job(cluster::kPs), kInvalidArgument, "[ps] Client: got ", spec.to_string(),
               "; expected a cluster with tasks of the job \"ps\"");
  STRATA_CHECK(self.job != cluster::kPs, kInvalidArgument, "[ps] Client: got ", self.to_string(),
               " as this task; parameter servers run a ParameterServer");
  connect(spec, self);
  detect_shared_memory_peers();
  pulse_ = Thread("strata-ps-pulse", [this](const std::stop_token& stop) { heartbeat(stop); });
}

ServerCalls::~ServerCalls() {
  pulse_.request_stop();
  pulse_.join();
}

/// A server that is not there may have been replaced by its backup, once that is there.
void ServerCalls::connect(const cluster::ClusterSpec& spec, const cluster::TaskId& self) {
  const wire::Deadline deadline = wire::Deadline::after(options_.server.start_timeout);
  for (const int index : spec.task_indices(cluster::kPs)) {
    servers_.push_back(std::make_unique<Server>());
    servers_.back()->task = {std::string(cluster::kPs), index};
  }
  const auto try_to = [&](Server& server, wire::Deadline until) {
    server.connection = transport_->connect(
        wire::Address::parse(spec.task_address(server.task)),
        {.job = options_.server.job, .task = self.to_string(), .purpose = std::string(kPurpose)},
        until, {.peer = server.task.to_string()});
    server.heard = Clock::now().time_since_epoch().count();
    server.shares_memory = options_.share_memory;
  };
  std::chrono::nanoseconds limit = num_servers() > 1 ? kFirstTry : options_.server.start_timeout;
  std::string problem;
  strata::detail::WaitNotice notice([&] { return problem; }, Clock::now(), deadline.time());
  for (bool all = false; !all; limit = std::min<std::chrono::nanoseconds>(2 * limit, kLongestTry)) {
    all = true;
    for (int index = 0; index < num_servers(); ++index) {
      Server& server = *servers_[static_cast<size_t>(index)];
      if (server.connection || server.replaced) continue;
      try {
        try_to(server, wire::Deadline::sooner(deadline, wire::Deadline::after(limit)));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kDeadlineExceeded) throw;
        server.replaced = asks_backup(index);
        server.shares_memory = false;
        if (!server.replaced && deadline.passed()) throw;
        all = all && server.replaced;
        problem = error.what();
        if (!server.replaced) notice.look(Clock::now());
      }
    }
  }
}

/// Whether it has taken the server's place. Before there are other calls.
bool ServerCalls::asks_backup(int server) {
  const int backup = backup_of(server);
  if (backup == server || !status_of(backup).ok()) return false;
  std::vector<Pending> all(1);
  all[0].at = all[0].exchange.server = backup;
  all[0].exchange.request = {.kind = RequestKind::kReplaces,
                             .id = ++last_id_,
                             .on_behalf_of = static_cast<uint32_t>(server) + 1};
  try {
    start(all[0]);
    (void)transport_->wait_until([&] { return look(all); },
                                 wire::Deadline::after(options_.server.liveness));
  } catch (const Error&) {
    return false;
  }
  return all[0].reply && all[0].reply->flag;
}

void ServerCalls::has_backup(const std::string& table) {
  const MutexLock lock(call_mutex_);
  with_backup_.insert(table);
}

Status ServerCalls::status_of(int server) const {
  const auto& connection = servers_[static_cast<size_t>(server)]->connection;
  return connection ? connection->status()
                    : Status(ErrorCode::kUnavailable, "it was lost before this worker came");
}

void ServerCalls::start(Pending& pending) {
  Exchange& exchange = pending.exchange;
  wire::Connection& connection = *servers_[static_cast<size_t>(pending.at)]->connection;
  const wire::Tag tag = {.channel = kDataChannel, .id = exchange.request.id};
  pending.started = true;
  if (!exchange.request.memory.empty()) {  // nothing else travels
    exchange.request.core = strata::detail::current_core();
    const std::string bytes = encode(exchange.request);
    const auto& mailbox = servers_[static_cast<size_t>(pending.at)]->mailbox;
    pending.by_mailbox = pending.by_mailbox && mailbox->request.put(bytes);
    if (!pending.by_mailbox) connection.send_message(kTableChannel, bytes);
    return;
  }
  for (const std::span<std::byte> part : exchange.in) {
    for_each_message(part.size(), [&](size_t offset, size_t bytes) {
      pending.transfers.push_back(connection.receive(tag, part.subspan(offset, bytes)));
    });
  }
  connection.send_message(kTableChannel, encode(exchange.request));
  for (const std::span<const std::byte> part : exchange.out) {
    for_each_message(part.size(), [&](size_t offset, size_t bytes) {
      pending.transfers.push_back(connection.send(tag, part.subspan(offset, bytes)));
    });
  }
}

void ServerCalls::next_id() {
  if (++last_id_ == 0) ++last_id_;
}

/// Answers to what a mailbox brought come there, too, if there is room.
std::optional<std::string> ServerCalls::next_answer(Server& server) {
  if (server.mailbox != nullptr) {
    if (auto answer = server.mailbox->reply.take()) return answer;
  }
  return server.connection->try_receive_message(kTableChannel);
}

/// Takes the replies that have come. @return whether all have, or there is something to do first.
bool ServerCalls::look(std::vector<Pending>& all) {
  bool complete = true;
  for (Pending& pending : all) {
    if (pending.reply) continue;
    Server& server = *servers_[static_cast<size_t>(pending.at)];
    try {
      while (const auto message = next_answer(server)) {
        Reply reply = decode_reply(*message);
        server.heard = Clock::now().time_since_epoch().count();
        // Of two requests to this server, or of one that was given up.
        const auto whose = std::ranges::find_if(all, [&](const Pending& each) {
          return each.at == pending.at && each.exchange.request.id == reply.id;
        });
        if (whose != all.end()) whose->reply = std::move(reply);
        if (pending.reply) break;
      }
    } catch (const Error& error) {  // the connection has failed, or does now
      server.connection->fail(Status(error.code(), error.what()));
      return true;
    }
    if (!pending.reply) {
      complete = false;
    } else if (pending.reply->code == ErrorCode::kUnavailable) {
      return true;
    }
  }
  return complete;
}

/// Ok: it is answered, or may still be.
Status ServerCalls::outcome(Pending& pending, wire::Deadline deadline) {
  if (!pending.reply) return status_of(pending.at);
  if (pending.reply->code != ErrorCode::kOk) {
    return Status(pending.reply->code, pending.reply->text);
  }
  return transport_->wait_all(pending.transfers, deadline);
}

/// A call to a server that is lost, or that its backup has replaced. @return false: it has no
/// backup that can be asked.
bool ServerCalls::fail_over(Pending& pending, const Status& why) {
  Exchange& exchange = pending.exchange;
  const RequestKind kind = exchange.request.kind;
  const bool of_the_server = kind == RequestKind::kLeave || kind == RequestKind::kMapSegment;
  if (of_the_server && !with_backup_.empty()) {  // it need not hear
    pending.transfers.clear();
    pending.reply = Reply();
    return true;
  }
  const int index = exchange.server;
  Server& server = *servers_[static_cast<size_t>(index)];
  const bool behind = server.unreplicated && !server.replaced;
  const bool has_one = with_backup_.contains(exchange.request.table);
  if (pending.at != index || behind || !has_one) return false;
  const Server& backup = *servers_[static_cast<size_t>(backup_of(index))];
  if (!server.replaced) {
    STRATA_LOG(kWarning) << "[ps] " << server.task.to_string() << " is lost: " << why.message()
                         << "; its backup " << backup.task.to_string() << " takes its place";
    server.replaced = true;
  }
  pending.transfers.clear();  // their memory is no longer accessed
  pending.reply.reset();
  pending.at = backup_of(index);
  pending.by_mailbox = false;
  exchange.request.on_behalf_of = static_cast<uint32_t>(index) + 1;
  next_id();
  exchange.request.id = last_id_;  // the backup may be asked for parts of its own, too
  std::vector<uint64_t>& places = exchange.request.memory;
  if (!pending.started) {
    if (!backup.shares_memory || unseen_segment(backup, places)) places.clear();
    return true;
  }
  if (places.empty()) return true;
  add_segments(places, pending.lost_segments);
  places.clear();
  for (std::span<std::byte>& part : exchange.in) {
    pending.late.push_back({.bytes = std::vector<std::byte>(part.size()), .to = part});
    part = pending.late.back().bytes;
  }
  return true;
}

/// What a reply says of backups. @throws Error  kDataLoss: two servers have changed the same part.
void ServerCalls::note(const Pending& pending) {
  const int index = pending.at;
  if (index != pending.exchange.server) return;
  Server& server = *servers_[static_cast<size_t>(index)];
  Server& before = *servers_[static_cast<size_t>((index + num_servers() - 1) % num_servers())];
  server.unreplicated = server.unreplicated || pending.reply->unreplicated;
  const RequestKind kind = pending.exchange.request.kind;
  if (pending.reply->unreplicated && changes_table(kind) && kind != RequestKind::kCreate) {
    server.changed_alone = true;
  }
  before.replaced = before.replaced || pending.reply->promoted;
  for (const Server* each : {&server, &before}) {
    STRATA_CHECK(!each->replaced || !each->changed_alone, kDataLoss, "[ps] ",
                 each->task.to_string(),
                 " and its backup have lost each other, and both serve its tables: links between "
                 "several tasks were cut at once. Start the job again from its last checkpoint");
  }
}

void ServerCalls::fail(const Pending& pending, const Status& status,
                       const std::string& what) const {
  const Server& server = *servers_[static_cast<size_t>(pending.at)];
  const Server& meant = *servers_[static_cast<size_t>(pending.exchange.server)];
  std::string text = str_cat("[ps] ", what, ": ", server.task.to_string());
  if (&server != &meant) text += str_cat(" in the place of ", meant.task.to_string());
  text += str_cat(": ", status.message());
  if (&server == &meant && meant.unreplicated) text += " (its backup had been lost before)";
  throw Error(status.code(), text);
}

std::vector<Reply> ServerCalls::run(std::vector<Exchange> exchanges, const std::string& what) {
  const MutexLock lock(call_mutex_);
  take_open_answers();
  use_memory(exchanges, what);
  for (Exchange& exchange : exchanges) exchange.request.waits = true;
  return exchange_all(std::move(exchanges), what);
}

uint64_t ServerCalls::begin(std::vector<Exchange> exchanges, const std::string& what) {
  const MutexLock lock(call_mutex_);
  take_open_answers();
  use_memory(exchanges, what);
  OpenRound round{.all = start_all(std::move(exchanges), what), .what = what};
  open_.emplace(++last_round_, std::move(round));
  return last_round_;
}

std::vector<Reply> ServerCalls::finish(uint64_t round) {
  const MutexLock lock(call_mutex_);
  take_open_answers();
  const auto node = open_.extract(round);
  STRATA_DCHECK(!node.empty());
  if (node.mapped().error) std::rethrow_exception(node.mapped().error);
  return std::move(node.mapped().replies);
}

/// Replies are for the round that waits, so an open one is brought to its end before another.
void ServerCalls::take_open_answers() {
  for (auto& [number, round] : open_) {
    if (std::exchange(round.answered, true)) continue;
    try {
      round.replies = finish_all(round.all, round.what);
    } catch (...) {
      round.error = std::current_exception();
    }
    round.all.clear();
  }
}

std::vector<Reply> ServerCalls::exchange_all(std::vector<Exchange> exchanges,
                                             const std::string& what) {
  std::vector<Pending> all = start_all(std::move(exchanges), what);
  return finish_all(all, what);
}

std::vector<ServerCalls::Pending> ServerCalls::start_all(std::vector<Exchange> exchanges,
                                                         const std::string& what) {
  next_id();
  std::vector<Pending> all;
  for (Exchange& exchange : exchanges) {
    exchange.request.id = last_id_;
    all.push_back({.exchange = std::move(exchange)});
    all.back().at = all.back().exchange.server;
  }
  const bool by_mailbox =
      std::ranges::all_of(all, [&](const Pending& pending) STRATA_REQUIRES(call_mutex_) {
        return can_use_mailbox(pending.exchange);
      });
  for (Pending& pending : all) pending.by_mailbox = by_mailbox;
  try {
    for (Pending& pending : all) start_or_fail_over(pending, what);
  } catch (const Error&) {
    withdraw_from_lost(all);
    throw;
  }
  return all;
}

std::vector<Reply> ServerCalls::finish_all(std::vector<Pending>& all, const std::string& what) {
  try {
    wait_for_all(all, wire::Deadline::after(options_.timeout), what);
  } catch (const Error&) {
    withdraw_from_lost(all);
    throw;
  }
  withdraw_from_lost(all);
  std::vector<Reply> replies;
  for (Pending& pending : all) {
    note(pending);
    for (const Pending::DeferredCopy& late : pending.late)
      std::ranges::copy(late.bytes, late.to.begin());
    replies.push_back(std::move(*pending.reply));
  }
  return replies;
}

/// A server that is lost is asked no more, where there is a backup.
void ServerCalls::start_or_fail_over(Pending& pending, const std::string& what) {
  Status status = status_of(pending.at);
  const bool replaced = pending.at != server_for(pending.exchange);
  if ((replaced || !status.ok()) && fail_over(pending, status)) {
    if (pending.reply) return;
    status = status_of(pending.at);
  }
  if (!status.ok()) fail(pending, status, what);
  start(pending);
}

/// Waits until `look` has something to say, or for a while. The connections are looked at between:
/// a server that is lost answers in no mailbox, and a long answer comes over the connection.
bool ServerCalls::wait_for_any(std::vector<Pending>& all, wire::Deadline until) {
  const auto asked =
      std::ranges::find_if(all, [](const Pending& each) { return each.by_mailbox && !each.reply; });
  if (asked == all.end()) return transport_->wait_until([&] { return look(all); }, until);
  if (look(all)) return true;
  const auto left = std::max(until.time() - Clock::now(), Clock::duration::zero());
  servers_[static_cast<size_t>(asked->at)]->mailbox->reply.wait(
      std::min<Clock::duration>(left, kConnectionLook));
  if (look(all)) return true;
  transport_->progress();
  return false;
}

bool ServerCalls::wait_for_answers(std::vector<Pending>& all, wire::Deadline deadline,
                                   const std::string& what) {
  strata::detail::CallNotice notice(
      [&] {
        std::vector<std::string> names;
        for (const Pending& pending : all) {
          if (pending.reply) continue;
          names.push_back(servers_[static_cast<size_t>(pending.at)]->connection->name());
        }
        return str_cat("[ps] ", what, ": waits for an answer of ", join(names));
      },
      Clock::now(), deadline.time());
  while (true) {
    const auto until = wire::Deadline::sooner(deadline, wire::Deadline::at(notice.next()));
    if (wait_for_any(all, until)) return !deadline.passed();
    if (deadline.passed()) return false;
    notice.look(Clock::now());
  }
}

void ServerCalls::wait_for_all(std::vector<Pending>& all, wire::Deadline deadline,
                               const std::string& what) {
  for (bool complete = false; !complete;) {
    const bool in_time = wait_for_answers(all, deadline, what);
    complete = true;
    for (Pending& pending : all) {  // whose loss has ended the wait
      const Status status = outcome(pending, deadline);
      if (status.ok()) {
        complete = complete && pending.reply;
        continue;
      }
      const bool lost = status.code() == ErrorCode::kUnavailable || !status_of(pending.at).ok();
      if (!lost || !fail_over(pending, status)) fail(pending, status, what);
      if (!pending.reply) start_or_fail_over(pending, what);
      complete = false;
    }
    for (const Pending& pending : all) {
      if (!complete && !in_time && !pending.reply) {
        fail(pending, Status(ErrorCode::kDeadlineExceeded, "no answer in time"), what);
      }
    }
  }
}

/// Which server serves it now.
int ServerCalls::server_for(const Exchange& exchange) const {
  const bool replaced = servers_[static_cast<size_t>(exchange.server)]->replaced &&
                        with_backup_.contains(exchange.request.table);
  return replaced ? backup_of(exchange.server) : exchange.server;
}

std::vector<TableCounters> ServerCalls::counters(const std::string& table) {
  std::vector<Exchange> exchanges;
  for (int server = 0; server < num_servers(); ++server) {
    exchanges.push_back(
        {.server = server, .request = {.kind = RequestKind::kCounters, .table = table}});
  }
  std::vector<TableCounters> counters;
  for (const Reply& reply : run(std::move(exchanges), str_cat("counters of table '", table, "'"))) {
    const Json json = Json::parse(reply.text);
    counters.push_back({.version = json.at("version").as_int(),
                        .pushes = json.at("pushes").as_int(),
                        .dropped = json.at("dropped").as_int(),
                        .rejected = json.at("rejected").as_int(),
                        .repeated = json.at("repeated").as_int(),
                        .most_lead = json.at("most_lead").as_int(),
                        .workers = json.at("workers").as_int()});
  }
  return counters;
}

/// Signs of life, both ways. It does not wait on the transport, where it would take turns with
/// those who wait for answers.
void ServerCalls::heartbeat(const std::stop_token& stop) {
  cluster::FailureDetector detector(cluster::table_timing(options_.server.liveness));
  const auto heard = [](const Server& server) {
    return Clock::time_point(Clock::duration(server.heard));
  };
  for (uint64_t index = 0; index < servers_.size(); ++index) {
    if (servers_[index]->connection) detector.add(index, heard(*servers_[index]));
  }
  Mutex mutex;
  std::condition_variable_any never;
  MutexLock lock(mutex);
  while (!never.wait_for(lock, stop, detector.timing().heartbeat_interval,
                         [&] { return stop.stop_requested(); })) {
    transport_->progress();
    for (uint64_t index = 0; index < servers_.size(); ++index) {
      const std::unique_ptr<Server>& server = servers_[index];
      if (!server->connection) continue;
      try {
        while (server->connection->try_receive_message(kHeartbeatChannel)) {
          server->heard = Clock::now().time_since_epoch().count();
        }
        server->connection->send_message(kHeartbeatChannel, "");
      } catch (...) {
        continue;  // the next call reports it
      }
      detector.heard(index, heard(*server));  // replies count, too: `look` notes them
      const Clock::time_point now = Clock::now();
      if (!detector.is_lost(index, now)) continue;
      const std::chrono::duration<double> silence = detector.silence(index, now);
      server->connection->fail(
          Status(ErrorCode::kUnavailable, str_cat("silent for ", silence.count(), " s")));
    }
  }
}

}  // namespace strata::ps
