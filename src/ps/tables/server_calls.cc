#include "ps/tables/server_calls.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

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
    : options_(std::move(options)),
      transport_(cluster::make_transport(options_.server)),
      pool_(std::make_shared<BufferPool>([this](size_t bytes) { return fresh_block(bytes); })) {
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
    server->is_near = options_.share_memory;
    servers_.push_back(std::move(server));
  }
}

BufferPool::Block ServerCalls::fresh_block(size_t bytes) {
  BufferPool::Block block = shares_memory() ? memory_.take(bytes) : nullptr;
  if (block) return block;
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

void ServerCalls::start(Pending& pending) {
  Exchange& exchange = pending.exchange;
  wire::Connection& connection = *servers_[static_cast<size_t>(exchange.server)]->connection;
  exchange.request.id = last_id_;
  const wire::Tag tag = {.channel = kDataChannel, .id = last_id_};
  const bool in_place = !exchange.request.memory.empty();
  for (const std::span<std::byte> part : exchange.in) {
    if (in_place) break;
    for_each_message(part.size(), [&](size_t offset, size_t bytes) {
      pending.transfers.push_back(connection.receive(tag, part.subspan(offset, bytes)));
    });
  }
  connection.send_message(kTableChannel, encode(exchange.request));
  if (!exchange.request.memory.empty()) return;
  for (const std::span<const std::byte> part : exchange.out) {
    for_each_message(part.size(), [&](size_t offset, size_t bytes) {
      pending.transfers.push_back(connection.send(tag, part.subspan(offset, bytes)));
    });
  }
}

void ServerCalls::next_id() {
  if (++last_id_ == 0) ++last_id_;
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
  use_memory(exchanges, what);
  return exchange_all(std::move(exchanges), what);
}

std::vector<Reply> ServerCalls::exchange_all(std::vector<Exchange> exchanges,
                                             const std::string& what) {
  next_id();
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
  withdraw_unanswered(all);
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

bool ServerCalls::shares_memory() const {
  return std::ranges::any_of(servers_, [](const auto& server) { return server->is_near.load(); });
}

/// Where the bytes of an exchange lie, if all are in memory that can be shared.
std::optional<std::vector<uint64_t>> ServerCalls::places_of(const Exchange& exchange) const {
  std::vector<uint64_t> places;
  const auto add = [&](std::span<const std::byte> part) {
    if (part.empty()) return true;
    const auto place = memory_.find(part);
    if (!place) return false;
    places.insert(places.end(), {place->segment, place->offset});
    return true;
  };
  if (std::ranges::all_of(exchange.out, add) && std::ranges::all_of(exchange.in, add)) {
    return places;
  }
  return std::nullopt;
}

/// Has the servers of this host find the data, and put the answers, where they are.
void ServerCalls::use_memory(std::vector<Exchange>& exchanges, const std::string& what) {
  forget_gone();
  const auto server_of = [&](const Exchange& exchange) -> Server& {
    return *servers_[static_cast<size_t>(exchange.server)];
  };
  for (Exchange& exchange : exchanges) {
    if (!server_of(exchange).is_near) continue;
    if (auto places = places_of(exchange)) exchange.request.memory = std::move(*places);
  }
  while (true) {  // segments that a server has not seen are introduced to it, one a round
    std::vector<Exchange> introductions;
    for (Exchange& exchange : exchanges) {
      Server& server = server_of(exchange);
      if (!server.is_near) exchange.request.memory.clear();
      const std::optional<uint64_t> segment = unseen_segment(server, exchange.request.memory);
      if (!segment) continue;
      introductions.push_back({.server = exchange.server,
                               .request = {.kind = RequestKind::kMap,
                                           .text = memory_.introduce(*segment),
                                           .slot = static_cast<int64_t>(*segment)}});
    }
    if (introductions.empty()) return;
    const std::vector<Reply> replies = exchange_all(introductions, what);
    for (size_t i = 0; i < replies.size(); ++i) {
      Server& server = server_of(introductions[i]);
      server.is_near = replies[i].flag;
      server.segments.insert(static_cast<uint64_t>(introductions[i].request.slot));
    }
  }
}

std::optional<uint64_t> ServerCalls::unseen_segment(const Server& server,
                                                    const std::vector<uint64_t>& places) {
  for (size_t i = 0; i < places.size(); i += 2) {
    if (!server.segments.contains(places[i])) return places[i];
  }
  return std::nullopt;
}

void ServerCalls::forget_gone() {
  for (const uint64_t segment : memory_.take_gone()) {
    for (const std::unique_ptr<Server>& server : servers_) {
      if (server->segments.erase(segment) == 0 || !server->connection->status().ok()) continue;
      next_id();  // nobody waits for the answer
      server->connection->send_message(kTableChannel,
                                       encode(Request{.kind = RequestKind::kForget,
                                                      .id = last_id_,
                                                      .slot = static_cast<int64_t>(segment)}));
    }
  }
}

/// A server that has not answered may still write where the answer was to be.
void ServerCalls::withdraw_unanswered(const std::vector<Pending>& all) {
  std::vector<uint64_t> segments;
  for (const Pending& pending : all) {
    if (pending.reply) continue;
    const std::vector<uint64_t>& places = pending.exchange.request.memory;
    for (size_t i = 0; i < places.size(); i += 2) segments.push_back(places[i]);
  }
  if (!segments.empty()) memory_.withdraw(segments);
}

at::Tensor ServerCalls::make_tensor(at::IntArrayRef sizes, c10::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  if (!shares_memory()) return at::empty(sizes, options);
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  auto buffer = std::make_shared<BufferPool::Buffer>(pool_->take(bytes));
  return at::from_blob(
      buffer->data(), sizes, [buffer, pool = pool_](void*) mutable { buffer.reset(); }, options);
}

at::Tensor ServerCalls::within_reach(const at::Tensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (!shares_memory() || memory_.find({data, tensor.nbytes()})) return tensor;
  at::Tensor copy = make_tensor(tensor.sizes(), tensor.scalar_type());
  std::memcpy(copy.mutable_data_ptr(), data, tensor.nbytes());
  return copy;
}

at::Tensor ServerCalls::make_buffer(int64_t elements, c10::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  auto block = shares_memory()
                   ? memory_.take(static_cast<size_t>(elements) * c10::elementSize(dtype))
                   : nullptr;
  if (!block) return at::zeros({elements}, options);
  return at::from_blob(
      block.get(), {elements}, [block](void*) {}, options);
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
