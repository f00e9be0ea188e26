#include "strategies/standalone/server_connections.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cluster/job_secret_environment.h"
#include "core/random_hex.h"
#include "strata/cluster/tls_environment.h"
#include "wire/tcp/socket_transport.h"

namespace strata::standalone {
namespace {

constexpr std::chrono::seconds kSilenceOfServers{10};
constexpr std::chrono::seconds kGoodbyeTime{2};

std::vector<std::string> split_tokens(const std::string& text) {
  std::vector<std::string> tokens;
  size_t begin = 0;
  while (begin <= text.size() && !text.empty()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    tokens.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return tokens;
}

std::vector<ServerConnections::Server> servers_at(const std::vector<std::string>& addresses) {
  std::vector<ServerConnections::Server> servers;
  for (const std::string& address : addresses) {
    servers.push_back({.address = wire::Address::parse(address)});
  }
  return servers;
}

}  // namespace

ServerConnections::ServerConnections(Settings settings) : settings_(std::move(settings)) {
  const StandaloneOptions& options = settings_.options;
  STRATA_CHECK(!options.servers.empty(), kInvalidArgument,
               "[standalone] got no servers; expected \"HOST:PORT\" of each `strata server`");
  const std::vector<std::string> tokens = split_tokens(options.session);
  workers_ = servers_at(options.servers);
  parameter_servers_ = servers_at(options.parameter_servers);
  const std::vector<Server*> all = all_servers();
  STRATA_CHECK(tokens.empty() || tokens.size() == all.size(), kInvalidArgument,
               "[standalone] got a session of ", tokens.size(), " servers, and ", all.size(),
               " servers; expected the servers that it was begun with");
  for (size_t i = 0; i < tokens.size(); ++i) all[i]->token = tokens[i];
  wire::SocketOptions socket{
      .tls = options.tls, .job_secret = options.job_secret, .silence_limit = kSilenceOfServers};
  if (!socket.tls) socket.tls = cluster::tls_from_environment(cluster::TaskId::parse(options.task));
  if (!socket.job_secret) socket.job_secret = cluster::job_secret_from_environment();
  transport_ = wire::make_socket_transport(socket);
  connect();
}

/// Workers first, as in a session's text.
std::vector<ServerConnections::Server*> ServerConnections::all_servers() {
  std::vector<Server*> all;
  for (std::vector<Server>* servers : {&workers_, &parameter_servers_}) {
    for (Server& server : *servers) all.push_back(&server);
  }
  return all;
}

std::string ServerConnections::session() const {
  std::string text;
  for (const std::vector<Server>* servers : {&workers_, &parameter_servers_}) {
    for (const Server& server : *servers) text += (text.empty() ? "" : ",") + server.token;
  }
  return text;
}

// --- Messages

Reply ServerConnections::reply_of(Server& server) const {
  const Reply reply = decode_reply(server.connection->receive_message(kControlChannel, deadline()));
  if (reply.code != 0) {
    throw Refused(static_cast<ErrorCode>(reply.code),
                  str_cat(reply.message, " (server ", server.address.to_string(), ")"));
  }
  return reply;
}

std::vector<Reply> ServerConnections::replies_of_workers() {
  std::vector<Reply> replies;
  std::exception_ptr lost;
  for (Server& server : workers_) {
    try {
      replies.push_back(reply_of(server));
    } catch (const Refused& refused) {
      if (refused.code() != ErrorCode::kAborted) throw;
      if (!lost) lost = std::current_exception();
    } catch (const Error&) {
      if (!lost) lost = std::current_exception();
    }
  }
  if (lost) std::rethrow_exception(lost);
  return replies;
}

void ServerConnections::ask_workers(const std::function<Request(size_t worker)>& request) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].connection->send_message(kControlChannel, encode(request(i)));
  }
}

/// Asks all before it waits for their replies.
void ServerConnections::ask_each(std::vector<Server>& servers, const Request& request) const {
  for (Server& server : servers) server.connection->send_message(kControlChannel, encode(request));
  for (Server& server : servers) reply_of(server);
}

void ServerConnections::wait_for_transfers() {
  for (Server& worker : workers_) worker.transfer.wait(*transport_, deadline());
}

// --- The session

/// Begins a session on each of `servers`, or resumes the one that there is.
std::vector<Reply> ServerConnections::open(std::vector<Server>& servers, bool hold_parameters) {
  const auto until = wire::Deadline::after(settings_.options.connect_timeout);
  const wire::Hello hello{
      .job = std::string(kJob), .task = settings_.options.task, .purpose = std::string(kPurpose)};
  for (size_t i = 0; i < servers.size(); ++i) {
    servers[i].connection = transport_->connect(servers[i].address, hello, until);
    servers[i].connection->send_message(
        kControlChannel, encode(Request{.kind = RequestKind::kOpen,
                                        .protocol = kProtocol,
                                        .session = servers[i].token,
                                        .seed = settings_.seed,
                                        .devices = settings_.devices,
                                        .rank = static_cast<int64_t>(i),
                                        .servers = static_cast<int64_t>(servers.size()),
                                        .holds_parameters = hold_parameters}));
  }
  std::vector<Reply> replies;
  for (Server& server : servers) {
    replies.push_back(reply_of(server));
    server.token = replies.back().session;
  }
  return replies;
}

/// The servers of a new session get to know each other.
void ServerConnections::join(const std::vector<Reply>& workers,
                             const std::vector<Reply>& parameter_servers) {
  const auto address_of = [](const Server& server, const Reply& reply) {
    return wire::Address{server.address.host, static_cast<uint16_t>(reply.port)}.to_string();
  };
  Request request{.kind = RequestKind::kJoin,
                  .session = strata::detail::random_hex(16),
                  .leader = address_of(workers_[0], workers[0]),
                  .parameters = settings_.parameters};
  for (size_t i = 0; i < parameter_servers_.size(); ++i) {
    request.parameters->addresses.push_back(
        address_of(parameter_servers_[i], parameter_servers[i]));
  }
  if (request.parameters) request.parameters->workers = static_cast<int64_t>(num_workers());
  ask_each(parameter_servers_, request);
  ask_each(workers_, request);
}

void ServerConnections::connect() {
  STRATA_CHECK(!closed_, kFailedPrecondition,
               "[standalone] the session is closed; make another strategy");
  if (connected_) return;
  try {
    const std::vector<Reply> replies = open(workers_, /*hold_parameters=*/false);
    const std::vector<Reply> others = open(parameter_servers_, /*hold_parameters=*/true);
    const auto joined = std::ranges::count(replies, true, &Reply::joined) +
                        std::ranges::count(others, true, &Reply::joined);
    if (joined == 0) {
      join(replies, others);
    } else {
      STRATA_CHECK(joined == static_cast<int64_t>(all_servers().size()), kDataLoss,
                   "[standalone] some servers no longer have the session; begin a new one, and "
                   "restore a checkpoint");
    }
    for (const Reply& reply : replies) {
      STRATA_CHECK(reply.runs == replies[0].runs, kDataLoss, "[standalone] got ", reply.runs,
                   " runs on one server and ", replies[0].runs,
                   " on another; begin a new session, and restore a checkpoint");
    }
    runs_ = replies[0].runs;
    connected_ = true;
  } catch (...) {
    disconnect();
    throw;
  }
}

bool ServerConnections::is_loss(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kCancelled ||
         code == ErrorCode::kAborted;
}

void ServerConnections::disconnect() {
  for (Server* server : all_servers()) {
    server->transfer = {};
    if (server->connection) {
      server->connection->fail({ErrorCode::kCancelled, "[standalone] the client has disconnected"});
    }
    server->connection.reset();
  }
  connected_ = false;
}

/// Workers first: they take leave of the parameter servers.
void ServerConnections::close() {
  if (closed_) return;
  connect();
  for (std::vector<Server>* servers : {&workers_, &parameter_servers_}) {
    ask_each(*servers, Request{.kind = RequestKind::kClose});
    for (Server& server : *servers) server.connection->close(wire::Deadline::after(kGoodbyeTime));
  }
  disconnect();
  closed_ = true;
}

}  // namespace strata::standalone
