#include "strategies/standalone/session.h"

#include <utility>

#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::standalone {
namespace {

/// For one look at a connection that has nothing to say; then it is looked at again.
constexpr std::chrono::hours kOneWait{1};
constexpr std::chrono::seconds kCloseTime{2};
constexpr uint64_t kMostBesideGraphs = uint64_t{1} << 20;
constexpr size_t kMostDevices = 64;

}  // namespace

Session::Session(std::string token, std::string owner, const SessionSettings& settings,
                 Budget& budget)
    : token_(std::move(token)), owner_(std::move(owner)), settings_(settings), budget_(budget) {
  thread_ = Thread("session", [this](const std::stop_token& stop) { live(stop); });
}

Session::~Session() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (current_) current_->fail({ErrorCode::kUnavailable, "[standalone] the server stops"});
  }
  thread_.request_stop();
  changed_.notify_all();
  settings_.transport->wake();
  thread_.join();
}

bool Session::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

void Session::attach(std::shared_ptr<wire::Connection> connection, Request open) {
  {
    const MutexLock lock(mutex_);
    if (current_) {
      current_->fail({ErrorCode::kAborted, "[standalone] the client has connected anew"});
    }
    if (waiting_) waiting_->connection->fail({ErrorCode::kAborted, "[standalone] one too many"});
    waiting_.emplace(Client{std::move(connection), std::move(open), {}});
  }
  changed_.notify_all();
}

std::optional<Session::Client> Session::next_client(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + settings_.keep;
  const bool came = changed_.wait_until(
      lock, until, [&]() STRATA_REQUIRES(mutex_) { return waiting_.has_value() || stopping_; });
  if (!came || stopping_ || stop.stop_requested()) return std::nullopt;
  std::optional<Client> client = std::exchange(waiting_, std::nullopt);
  current_ = client->connection;
  return client;
}

void Session::live(const std::stop_token& stop) {
  try {
    while (true) {
      std::optional<Client> client = next_client(stop);
      if (!client) break;
      Outcome outcome = Outcome::kLost;
      try {
        outcome = serve(*client, stop);
      } catch (const Error& error) {
        client->transfer.drop();
        client->connection->fail({error.code(), error.what()});
        STRATA_LOG(kInfo) << "[standalone] session " << token_.substr(0, 8)
                          << " has lost its client: " << error.what();
      }
      {
        const MutexLock lock(mutex_);
        current_.reset();
      }
      if (outcome == Outcome::kClosed) {
        world_.reset();
        parameters_.reset();
      }
      client->connection->close(wire::Deadline::after(kCloseTime));
      if (!joined() || outcome == Outcome::kBroken) break;
      if (world_ && outcome == Outcome::kLost) world_->agree(false);
    }
  } catch (...) {
    const Status status = Status::from_current_exception();
    STRATA_LOG(kWarning) << "[standalone] session " << token_.substr(0, 8)
                         << " ends: " << status.message();
  }
  if (world_) world_->abandon("its session on another server has ended");
  try {
    world_.reset();
    parameters_.reset();
  } catch (...) {
    STRATA_LOG(kWarning) << "[standalone] " << Status::from_current_exception().message();
  }
  const MutexLock lock(mutex_);
  if (waiting_) {
    waiting_->connection->fail({ErrorCode::kNotFound, "[standalone] the session has ended"});
    waiting_.reset();
  }
  ended_ = true;
}

void Session::say(Client& client, Reply reply) {
  reply.runs = world_ ? world_->runs() : 0;
  reply.states = world_ ? static_cast<int64_t>(world_->num_states()) : 0;
  reply.updates = world_ ? static_cast<int64_t>(world_->num_updates()) : 0;
  reply.joined = joined();
  client.connection->send_message(kControlChannel, encode(reply));
}

void Session::answer_open(Client& client) {
  const Request& open = client.open;
  if (!group_) {
    constexpr int64_t kMostServers = 1024;
    STRATA_CHECK(open.servers >= 1 && open.servers <= kMostServers && open.rank >= 0 &&
                     open.rank < open.servers,
                 kInvalidArgument, "[standalone] open: got server ", open.rank, " of ",
                 open.servers, "; expected 1 to ", kMostServers);
    STRATA_CHECK(open.devices.size() <= kMostDevices, kInvalidArgument, "[standalone] open: got ",
                 open.devices.size(), " devices; expected ", kMostDevices, " at most");
    group_ = settings_.group;
    group_->devices = open.devices.empty() ? std::vector<std::string>{"cpu:0"} : open.devices;
    group_->seed = open.seed;
    group_->rank = static_cast<int>(open.rank);
    group_->servers = static_cast<int>(open.servers);
    holds_parameters_ = open.holds_parameters;
  }
  Reply reply{.session = token_};
  const bool is_found = holds_parameters_ || (group_->rank == 0 && group_->servers > 1);
  if (!joined() && is_found) {
    port_.emplace(settings_.address.host);
    reply.port = port_->number();
    group_->listen_address = wire::Address{settings_.address.host, port_->number()}.to_string();
  }
  say(client, std::move(reply));
}

Session::Outcome Session::serve(Client& client, const std::stop_token& stop) {
  try {
    answer_open(client);
  } catch (const Error& error) {
    say(client, {.code = static_cast<uint64_t>(error.code()), .message = error.what()});
    return Outcome::kLost;
  }
  while (true) {
    std::string text;
    try {
      text = client.connection->receive_message(kControlChannel, wire::Deadline::after(kOneWait),
                                                stop);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeadlineExceeded) continue;
      throw;
    }
    // What is read of it may take a hundred times its bytes.
    const uint64_t most = kMostBesideGraphs + settings_.limits.graph_bytes * group_->devices.size();
    STRATA_CHECK(text.size() <= most, kResourceExhausted, "[standalone] got a request of ",
                 text.size(), " bytes; expected ", most, " at most (--graph)");
    const Outcome outcome = handle(client, decode_request(text), stop);
    if (outcome != Outcome::kContinue) return outcome;
  }
}

/// A request that is refused costs the client this connection: what it sends behind the request is not
/// waited for.
Session::Outcome Session::handle(Client& client, const Request& request,
                                 const std::stop_token& stop) {
  Reply refusal;
  try {
    if (request.kind == RequestKind::kClose) {
      say(client, {});
      return Outcome::kClosed;
    }
    if (request.kind == RequestKind::kJoin) {
      join(request);
      say(client, {});
      return Outcome::kContinue;
    }
    return handle_joined(client, request, stop);
  } catch (const Error& error) {
    if (!client.connection->status().ok()) throw;
    refusal = {.code = static_cast<uint64_t>(error.code()), .message = error.what()};
  } catch (const std::exception& error) {
    refusal = {.code = static_cast<uint64_t>(ErrorCode::kInternal), .message = error.what()};
  }
  client.transfer.drop();
  say(client, std::move(refusal));
  return Outcome::kLost;
}

Session::Outcome Session::handle_joined(Client& client, const Request& request,
                                        const std::stop_token& stop) {
  STRATA_CHECK(world_ != nullptr, kFailedPrecondition,
               parameters_ ? "[standalone] got a request for a parameter server; expected close"
                           : "[standalone] got a request before the servers have joined; expected "
                             "join");
  switch (request.kind) {
    case RequestKind::kAdd:
      return add(client, request, stop);
    case RequestKind::kDescribe:
      return describe(client, request);
    case RequestKind::kRun:
      return run(client, request, stop);
    case RequestKind::kPush:
      return push(client, request, stop);
    case RequestKind::kFetch:
      fetch(client, request, stop);
      return Outcome::kContinue;
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  str_cat("[standalone] got a request of kind ",
                          static_cast<uint64_t>(request.kind), "; expected join to close"));
  }
}

void Session::join(const Request& request) {
  if (joined()) return;
  group_->leader = request.leader;
  group_->job = str_cat("standalone/", request.session);
  group_->parameters = request.parameters;
  if (holds_parameters_) {
    STRATA_CHECK(request.parameters.has_value(), kInvalidArgument,
                 "[standalone] join: got no workers for a parameter server");
    parameters_ = std::make_unique<ParameterHost>(*group_, budget_);
    port_.reset();
    return;
  }
  world_ = std::make_unique<SessionWorld>(*group_, settings_.limits, budget_);
  port_.reset();
}

/// @return false: they have not come; the client is lost.
bool Session::receive(Client& client, const std::vector<at::Tensor>& tensors,
                      const std::stop_token& stop) {
  try {
    client.transfer.receive(*client.connection, tensors);
    client.transfer.wait(*settings_.transport, wire::Deadline::after(settings_.keep), stop);
    return true;
  } catch (const Error& error) {
    answered_status_ = {error.code(), error.what()};
    return false;
  }
}

Session::Outcome Session::add(Client& client, const Request& request, const std::stop_token& stop) {
  SessionWorld::Addition addition = world_->begin_add(request);
  say(client, {});
  const bool all = receive(client, addition.tensors(), stop);
  if (!world_->agree(all)) {
    if (all) answered_status_ = {ErrorCode::kAborted, "[standalone] another server lacks a tensor"};
    return Outcome::kLostAndVoted;
  }
  int64_t step = -1;
  try {
    step = world_->finish_add(std::move(addition));
  } catch (...) {
    const Status status = Status::from_current_exception();
    say(client, {.code = static_cast<uint64_t>(status.code()), .message = status.message()});
    return Outcome::kBroken;
  }
  say(client, {.step = step});
  return Outcome::kContinue;
}

Session::Outcome Session::describe(Client& client, const Request& request) {
  SessionWorld::Description description = world_->begin_describe(request);
  if (!world_->agree(true)) {
    answered_status_ = {ErrorCode::kAborted, "[standalone] another server lacks the dataset"};
    return Outcome::kLostAndVoted;
  }
  Reply reply{.dataset = static_cast<int64_t>(description.number)};
  world_->finish_describe(std::move(description));
  const ServedDataset& dataset = world_->dataset(static_cast<size_t>(reply.dataset));
  reply.batches = dataset.batches();
  for (const data::TensorSpec& field : dataset.fields()) {
    reply.fields.push_back({.dtype = static_cast<uint64_t>(field.dtype), .sizes = field.shape});
  }
  say(client, std::move(reply));
  return Outcome::kContinue;
}

Session::Outcome Session::run(Client& client, const Request& request, const std::stop_token& stop) {
  const bool again = request.run != 0 && request.run == answered_run_;
  Request expected = request;
  if (again) ++expected.run;  // as if it were the next one: its inputs come all the same
  std::vector<at::Tensor> inputs = world_->inputs_of(expected);
  const bool all = receive(client, inputs, stop);
  if (again && !all) return Outcome::kLost;
  if (!again) {
    world_->read_inputs(expected, inputs);
    if (!world_->agree(all)) {
      if (all) {
        answered_status_ = {ErrorCode::kAborted, "[standalone] another server lacks an input"};
      }
      return Outcome::kLostAndVoted;
    }
    answered_run_ = request.run;
    answered_outputs_.clear();
    answered_status_ = {};
    try {
      answered_outputs_ = world_->run(request, inputs);
    } catch (...) {
      answered_status_ = Status::from_current_exception();
    }
  }
  say(client, {.code = static_cast<uint64_t>(answered_status_.code()),
               .message = answered_status_.message()});
  client.transfer.send(*client.connection, answered_outputs_);
  client.transfer.wait(*settings_.transport, wire::Deadline::after(settings_.keep), stop);
  return Outcome::kContinue;
}

Session::Outcome Session::push(Client& client, const Request& request,
                               const std::stop_token& stop) {
  const std::vector<at::Tensor> values = world_->memory_for_push(request);
  say(client, {});
  const bool all = receive(client, values, stop);
  if (!world_->agree(all)) {
    if (all) answered_status_ = {ErrorCode::kAborted, "[standalone] another server lacks a tensor"};
    return Outcome::kLostAndVoted;
  }
  try {
    world_->push(request, values);
  } catch (...) {
    const Status status = Status::from_current_exception();
    say(client, {.code = static_cast<uint64_t>(status.code()), .message = status.message()});
    return Outcome::kBroken;
  }
  say(client, {});
  return Outcome::kContinue;
}

void Session::fetch(Client& client, const Request& request, const std::stop_token& stop) {
  if (!request.tensors.empty()) world_->fetch_parameters();
  const std::vector<at::Tensor> values = world_->fetch(request);
  say(client, {.iterations = world_->iterations_of(request)});
  client.transfer.send(*client.connection, values);
  client.transfer.wait(*settings_.transport, wire::Deadline::after(settings_.keep), stop);
}

}  // namespace strata::standalone
