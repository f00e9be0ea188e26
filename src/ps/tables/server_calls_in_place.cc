// How requests to servers of this host find their data, and put their answers, in its memory.
#include <algorithm>
#include <iterator>
#include <utility>

#include "ps/tables/server_calls.h"

namespace strata::ps {
namespace {

/// Whether the answer is written over the data, which a backup is still being sent.
bool overlap(const ServerCalls::Exchange& exchange) {
  const auto disjoint = [](std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.data() + a.size() <= b.data() || b.data() + b.size() <= a.data();
  };
  return std::ranges::any_of(exchange.in, [&](std::span<const std::byte> in) {
    return std::ranges::any_of(exchange.out,
                               [&](std::span<const std::byte> out) { return !disjoint(in, out); });
  });
}

}  // namespace

void ServerCalls::detect_shared_memory_peers() {
  memory_.set_shared(
      std::ranges::any_of(servers_, [](const auto& server) { return server->shares_memory; }));
}

/// Where the bytes of an exchange lie, if all are in memory that can be shared.
std::optional<std::vector<uint64_t>> ServerCalls::places_of(const Exchange& exchange) const {
  std::vector<uint64_t> places;
  const auto add = [&](std::span<const std::byte> part) {
    if (part.empty()) return true;
    const auto place = memory_.segments().find(part);
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
  const auto server_of = [&](const Exchange& exchange) STRATA_REQUIRES(call_mutex_) -> Server& {
    return *servers_[static_cast<size_t>(server_for(exchange))];
  };
  for (Exchange& exchange : exchanges) {
    if (!server_of(exchange).shares_memory || !status_of(server_for(exchange)).ok()) continue;
    if (with_backup_.contains(exchange.request.table) && overlap(exchange)) continue;
    if (auto places = places_of(exchange)) exchange.request.memory = std::move(*places);
  }
  introduce_segments(exchanges, what);
  open_mailboxes(exchanges, what);
}

/// Segments that a server has not seen are introduced to it, one a round. Where a server cannot map
/// them the exchange has no memory any more.
void ServerCalls::introduce_segments(std::vector<Exchange>& exchanges, const std::string& what) {
  while (true) {
    std::vector<Exchange> introductions;
    for (Exchange& exchange : exchanges) {
      Server& server = *servers_[static_cast<size_t>(server_for(exchange))];
      if (!server.shares_memory) exchange.request.memory.clear();
      const std::optional<uint64_t> segment = unseen_segment(server, exchange.request.memory);
      const bool is_met = std::ranges::find(introductions, server_for(exchange),
                                            &Exchange::server) != introductions.end();
      if (!segment || is_met) continue;  // one server may be asked for two parts
      introductions.push_back({.server = server_for(exchange),
                               .request = {.kind = RequestKind::kMapSegment,
                                           .text = memory_.segments().introduce(*segment),
                                           .slot = static_cast<int64_t>(*segment)}});
    }
    if (introductions.empty()) return;
    const std::vector<Reply> replies = exchange_all(introductions, what);
    for (size_t i = 0; i < replies.size(); ++i) {
      Server& server = *servers_[static_cast<size_t>(introductions[i].server)];
      server.shares_memory = replies[i].flag;
      server.segments.insert(static_cast<uint64_t>(introductions[i].request.slot));
    }
    detect_shared_memory_peers();
  }
}

/// Each server that shares memory is asked once. Tables with a backup do without: a server's serving
/// thread replicates what changes them, and mailboxes have threads of their own.
void ServerCalls::open_mailboxes(const std::vector<Exchange>& exchanges, const std::string& what) {
  std::vector<Exchange> openings;
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  for (const Exchange& exchange : exchanges) {
    Server& server = *servers_[static_cast<size_t>(exchange.server)];
    const Request& request = exchange.request;
    if (request.memory.empty() || with_backup_.contains(request.table)) continue;
    if (std::exchange(server.has_been_asked, true)) continue;
    auto block = memory_.segments().take(sizeof(Mailbox::Memory));
    if (block == nullptr) continue;
    const auto place = memory_.segments().find({block.get(), sizeof(Mailbox::Memory)});
    openings.push_back({.server = exchange.server,
                        .request = {.kind = RequestKind::kOpenMailbox,
                                    .memory = {place->segment, place->offset}}});
    mailboxes.push_back(std::make_unique<Mailbox>(std::move(block)));
  }
  introduce_segments(openings, what);
  for (size_t i = 0; i < openings.size(); ++i) {
    if (openings[i].request.memory.empty()) continue;
    if (!exchange_all({openings[i]}, what)[0].flag) continue;
    servers_[static_cast<size_t>(openings[i].server)]->mailbox = std::move(mailboxes[i]);
  }
}

bool ServerCalls::can_use_mailbox(const Exchange& exchange) const {
  const Request& request = exchange.request;
  return !request.memory.empty() && !with_backup_.contains(request.table) &&
         servers_[static_cast<size_t>(exchange.server)]->mailbox != nullptr;
}

std::optional<uint64_t> ServerCalls::unseen_segment(const Server& server,
                                                    const std::vector<uint64_t>& places) {
  for (size_t i = 0; i < places.size(); i += 2) {
    if (!server.segments.contains(places[i])) return places[i];
  }
  return std::nullopt;
}

void ServerCalls::add_segments(const std::vector<uint64_t>& places,
                               std::vector<uint64_t>& segments) {
  for (size_t i = 0; i < places.size(); i += 2) segments.push_back(places[i]);
}

void ServerCalls::forget_gone() {
  for (const uint64_t segment : memory_.segments().take_gone()) {
    for (const std::unique_ptr<Server>& server : servers_) {
      if (server->segments.erase(segment) == 0 || !server->connection->status().ok()) continue;
      next_id();  // no thread waits for the answer
      server->connection->send_message(kTableChannel,
                                       encode(Request{.kind = RequestKind::kUnmapSegment,
                                                      .id = last_id_,
                                                      .slot = static_cast<int64_t>(segment)}));
    }
  }
}

/// A server that has not answered may still write where the answer was to be.
void ServerCalls::withdraw_from_lost(std::vector<Pending>& all) {
  std::vector<uint64_t> segments;
  for (Pending& pending : all) {
    std::ranges::move(pending.lost_segments, std::back_inserter(segments));
    if (pending.reply || !pending.started) continue;
    add_segments(pending.exchange.request.memory, segments);
  }
  if (!segments.empty()) memory_.segments().withdraw(segments);
}

}  // namespace strata::ps
