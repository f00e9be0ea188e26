#include "ps/tables/server_calls.h"

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <utility>

#include "cluster/make_transport.h"
#include "ps/tables/message_blocks.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

/// One request under way.
struct ServerCalls::Pending {
  Exchange exchange;
  std::vector<wire::Transfer> transfers = {};
  std::optional<Reply> reply = {};
};

ServerCalls::ServerCalls(const cluster::ClusterSpec& spec, const cluster::TaskId& self,
                         ClientOptions options)
    : options_(std::move(options)), transport_(cluster::make_transport(options_.server)) {
  STRATA_CHECK(spec.has_job(cluster::kPs), kInvalidArgument, "[ps] Client: got ", spec.to_string(),
               "; expected a cluster with tasks of the job \"ps\"");
  STRATA_CHECK(self.job != cluster::kPs, kInvalidArgument, "[ps] Client: got ", self.to_string(),
               " as this task; parameter servers run a ParameterServer");
  connect(spec, self);
  pulse_ = Thread("strata-ps-pulse", [this](const std::stop_token& stop) { pulse(stop); });
}

ServerCalls::~ServerCalls() {
  pulse_.request_stop();
  pulse_.join();
}

void ServerCalls::connect(const cluster::ClusterSpec& spec, const cluster::TaskId& self) {
  const wire::Deadline deadline = wire::Deadline::after(options_.server.start_timeout);
  for (const int index : spec.task_indices(cluster::kPs)) {
    const cluster::TaskId task = {std::string(cluster::kPs), index};
    auto server = std::make_unique<Server>();
    server->task = task;
    server->connection = transport_->connect(
        wire::Address::parse(spec.task_address(task)),
        {.job = options_.server.job, .task = self.to_string(), .purpose = std::string(kPurpose)},
        deadline, {.peer = task.to_string()});
    server->heard = Clock::now().time_since_epoch().count();
    servers_.push_back(std::move(server));
  }
}

void ServerCalls::start(Pending& pending) {
  Exchange& exchange = pending.exchange;
  wire::Connection& connection = *servers_[static_cast<size_t>(exchange.server)]->connection;
  exchange.request.id = last_id_;
  const wire::Tag tag = {.channel = kDataChannel, .id = last_id_};
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

/// Takes the replies that have come. @return whether all have, or one never will.
bool ServerCalls::look(std::vector<Pending>& all) {
  bool complete = true;
  for (Pending& pending : all) {
    if (pending.reply) continue;
    Server& server = *servers_[static_cast<size_t>(pending.exchange.server)];
    try {
      while (const auto message = server.connection->try_receive_message(kTableChannel)) {
        Reply reply = decode_reply(*message);
        if (reply.id != pending.exchange.request.id) continue;  // of a request that was given up
        server.heard = Clock::now().time_since_epoch().count();
        pending.reply = std::move(reply);
        break;
      }
    } catch (const Error&) {  // the connection has failed
      return true;
    }
    if (!pending.reply) complete = false;
  }
  return complete;
}

std::vector<Reply> ServerCalls::run(std::vector<Exchange> exchanges, const std::string& what) {
  const std::lock_guard lock(turn_);
  if (++last_id_ == 0) ++last_id_;
  const wire::Deadline deadline = wire::Deadline::after(options_.timeout);
  std::vector<Pending> all;
  for (Exchange& exchange : exchanges) all.push_back({.exchange = std::move(exchange)});
  const auto check = [&](const Pending& pending, const Status& status) {
    if (status.ok()) return;
    throw Error(status.code(),
                str_cat("[ps] ", what, ": ",
                        servers_[static_cast<size_t>(pending.exchange.server)]->task.to_string(),
                        ": ", status.message()));
  };
  for (Pending& pending : all) {
    const Server& server = *servers_[static_cast<size_t>(pending.exchange.server)];
    check(pending, server.connection->status());
    start(pending);
  }
  (void)transport_->wait_until([&] { return look(all); }, deadline);
  for (const Pending& pending : all) {  // whose loss has ended the wait
    const Server& server = *servers_[static_cast<size_t>(pending.exchange.server)];
    if (!pending.reply) check(pending, server.connection->status());
  }
  std::vector<Reply> replies;
  for (Pending& pending : all) {
    if (!pending.reply) {
      check(pending, Status(ErrorCode::kDeadlineExceeded, "no answer in time"));
    }
    check(pending, Status(pending.reply->code, pending.reply->text));
    check(pending, transport_->wait_all(pending.transfers, deadline));
    replies.push_back(std::move(*pending.reply));
  }
  return replies;
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
void ServerCalls::pulse(const std::stop_token& stop) {
  const auto interval = options_.server.liveness / 4;
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); })) {
    transport_->progress();
    for (const std::unique_ptr<Server>& server : servers_) {
      try {
        while (server->connection->try_receive_message(kBeatChannel)) {
          server->heard = Clock::now().time_since_epoch().count();
        }
        server->connection->send_message(kBeatChannel, "");
      } catch (const Error&) {
        continue;  // the next call reports it
      }
      const Clock::duration silence =
          Clock::now().time_since_epoch() - Clock::duration(server->heard);
      if (silence <= options_.server.liveness) continue;
      server->connection->fail(
          Status(ErrorCode::kUnavailable,
                 str_cat("silent for ", std::chrono::duration<double>(silence).count(), " s")));
    }
  }
}

}  // namespace strata::ps
