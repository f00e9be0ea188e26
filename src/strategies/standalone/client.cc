#include "strategies/standalone/client.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "cluster/job_secret_environment.h"
#include "core/random_hex.h"
#include "graph/describe_node.h"
#include "graph/places.h"
#include "graph/remote/step_graph.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/tensor/fingerprint.h"
#include "strategies/standalone/server_dataset_json.h"
#include "wire/tcp/socket_transport.h"

namespace strata::standalone {
namespace {

constexpr std::chrono::seconds kSilenceOfServers{10};
constexpr std::chrono::seconds kGoodbyeTime{2};

/// A server has answered with an error: to connect anew does not help.
class Refused final : public Error {
 public:
  using Error::Error;
};

bool is_loss(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kCancelled ||
         code == ErrorCode::kAborted;
}

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

/// Memory for what a server sends of a value: as it lies there, if it is dense.
at::Tensor memory_for(const graph::Value& value) {
  const at::TensorOptions options = at::dtype(value.dtype);
  const at::Tensor made = at::empty_strided(value.sizes, value.strides, options);
  return made.is_non_overlapping_and_dense() ? made : at::empty(value.sizes, options);
}

/// All elements of a tensor's memory.
at::Tensor whole_memory(const at::Tensor& tensor) {
  const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return tensor.detach().as_strided({elements}, {1}, 0);
}

/// An error of a server names a node, and does not know the program's lines.
template <typename Work>
void with_places(const graph::Graph& graph, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = graph::with_place(error.what(), graph);
    if (message == error.what()) throw;
    throw Error(error.code(), message);
  }
}

}  // namespace

StandaloneClient::StandaloneClient(Settings settings) : settings_(std::move(settings)) {
  const StandaloneOptions& options = settings_.options;
  STRATA_CHECK(!options.servers.empty(), kInvalidArgument,
               "[standalone] got no servers; expected \"HOST:PORT\" of each `strata server`");
  const std::vector<std::string> tokens = split_tokens(options.session);
  servers_ = servers_at(options.servers);
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

StandaloneClient::~StandaloneClient() { disconnect(); }

// --- Connections

std::vector<StandaloneClient::Server> StandaloneClient::servers_at(
    const std::vector<std::string>& addresses) {
  std::vector<Server> servers;
  for (const std::string& address : addresses) {
    servers.push_back(
        {.address = wire::Address::parse(address), .token = {}, .connection = {}, .transfer = {}});
  }
  return servers;
}

std::vector<StandaloneClient::Server*> StandaloneClient::all_servers() {
  std::vector<Server*> all;
  for (std::vector<Server>* servers : {&servers_, &parameter_servers_}) {
    for (Server& server : *servers) all.push_back(&server);
  }
  return all;
}

Reply StandaloneClient::receive_reply(Server& server) const {
  const Reply reply = decode_reply(server.connection->receive_message(kControlChannel, deadline()));
  if (reply.code != 0) {
    throw Refused(static_cast<ErrorCode>(reply.code),
                  str_cat(reply.message, " (server ", server.address.to_string(), ")"));
  }
  return reply;
}

/// Of all servers. What one refuses is why the others are lost.
std::vector<Reply> StandaloneClient::receive_replies() {
  std::vector<Reply> replies;
  std::exception_ptr lost;
  for (Server& server : servers_) {
    try {
      replies.push_back(receive_reply(server));
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

void StandaloneClient::ask_all(const std::function<Request(size_t)>& request) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    servers_[i].connection->send_message(kControlChannel, encode(request(i)));
  }
}

void StandaloneClient::disconnect() {
  for (Server* server : all_servers()) {
    server->transfer = {};
    if (server->connection) {
      server->connection->fail({ErrorCode::kCancelled, "[standalone] the client has disconnected"});
    }
    server->connection.reset();
  }
  connected_ = false;
}

/// A session on each of `servers`, or the one that there is.
std::vector<Reply> StandaloneClient::open(std::vector<Server>& servers, bool hold_parameters) {
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
    replies.push_back(receive_reply(server));
    server.token = replies.back().session;
  }
  return replies;
}

/// The servers of a new session get to know each other.
void StandaloneClient::join(const std::vector<Reply>& workers,
                            const std::vector<Reply>& parameter_servers) {
  const auto address_of = [](const Server& server, const Reply& reply) {
    return wire::Address{server.address.host, static_cast<uint16_t>(reply.port)}.to_string();
  };
  Request request{.kind = RequestKind::kJoin,
                  .session = strata::detail::random_hex(16),
                  .leader = address_of(servers_[0], workers[0]),
                  .parameters = settings_.parameters};
  for (size_t i = 0; i < parameter_servers_.size(); ++i) {
    request.parameters->addresses.push_back(
        address_of(parameter_servers_[i], parameter_servers[i]));
  }
  if (request.parameters) request.parameters->workers = num_servers();
  for (std::vector<Server>* servers : {&parameter_servers_, &servers_}) {
    for (Server& server : *servers) {
      server.connection->send_message(kControlChannel, encode(request));
    }
    for (Server& server : *servers) receive_reply(server);
  }
}

void StandaloneClient::connect() {
  STRATA_CHECK(!closed_, kFailedPrecondition,
               "[standalone] the session is closed; make another strategy");
  if (connected_) return;
  try {
    const std::vector<Reply> replies = open(servers_, /*hold_parameters=*/false);
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

/// Makes `call`, and once more if connections were lost meanwhile. A server's refusal is final.
template <typename Call>
void StandaloneClient::resuming(const Call& call) {
  const auto until = wire::Deadline::after(settings_.timeout);
  while (true) {
    try {
      connect();
      return call();
    } catch (const Refused& refused) {
      disconnect();
      // That the client was lost on another server.
      const bool lost = refused.code() == ErrorCode::kAborted && !until.passed();
      if (!lost) throw;
    } catch (const Error& error) {
      const bool lost = connected_ && !until.passed() && is_loss(error.code());
      disconnect();
      if (!lost) throw;
      STRATA_LOG(kWarning) << "[standalone] connects anew: " << error.what();
    } catch (...) {
      disconnect();
      throw;
    }
  }
}

std::string StandaloneClient::session() const {
  std::string text;
  for (const std::vector<Server>* servers : {&servers_, &parameter_servers_}) {
    for (const Server& server : *servers) text += (text.empty() ? "" : ",") + server.token;
  }
  return text;
}

/// Workers first: they take leave of the parameter servers.
void StandaloneClient::close() {
  const MutexLock lock(mutex_);
  if (closed_) return;
  connect();
  for (std::vector<Server>* servers : {&servers_, &parameter_servers_}) {
    for (Server& server : *servers) {
      server.connection->send_message(kControlChannel,
                                      encode(Request{.kind = RequestKind::kClose}));
    }
    for (Server& server : *servers) receive_reply(server);
    for (Server& server : *servers) server.connection->close(wire::Deadline::after(kGoodbyeTime));
  }
  disconnect();
  closed_ = true;
}

/// Of the variables: each worker's pushes are one, unless they make a step together.
int64_t StandaloneClient::updates_per_run() const {
  const bool together =
      !settings_.parameters || settings_.parameters->consistency == ps::Consistency::kSynchronous;
  return together ? 1 : num_servers();
}

// --- Steps

void StandaloneClient::on_run_begin(int /*local*/) { graph::set_step_runner(this); }
void StandaloneClient::on_run_end(int /*local*/) { graph::set_step_runner(nullptr); }

std::vector<at::Tensor> StandaloneClient::run_step(const std::shared_ptr<const graph::Trace>& trace,
                                                   const std::vector<at::Tensor>& inputs) {
  Visit visit{.trace = trace, .inputs = inputs, .outputs = {}};
  get_replica_context()->synchronize(
      "a step on servers", &visit, [this](const std::vector<void*>& all) {
        std::vector<Visit*> visits;
        for (void* each : all) {
          visits.push_back(static_cast<Visit*>(each));
        }
        with_places(visits[0]->trace->graph, [&] { run_together(visits); });
      });
  return std::move(visit.outputs);
}

/// Those of one value on all replicas, as the graphs of one program have them.
size_t StandaloneClient::memory_of(const Traces& traces, size_t value) {
  std::vector<const void*> key;
  for (const auto& trace : traces) {
    key.push_back(trace->graph.values[value].tensor.storage().unsafeGetStorageImpl());
  }
  const auto [found, is_new] = memories_.emplace(key, states_.size());
  if (!is_new) return found->second;
  State state;
  for (const auto& trace : traces) {
    state.replicas.push_back(whole_memory(trace->graph.values[value].tensor));
  }
  const at::Tensor& first = state.replicas[0];
  for (const at::Tensor& each : state.replicas) {
    STRATA_CHECK(each.sizes() == first.sizes() && each.scalar_type() == first.scalar_type(),
                 kUnimplemented, "[standalone] replicas read tensors of different sizes, ",
                 first.sizes(), " and ", each.sizes(), "; make them equal");
  }
  const bool one = std::ranges::all_of(key, [&](const void* each) { return each == key[0]; });
  state.spec = {.name = "tensor",
                .dtype = static_cast<uint64_t>(first.scalar_type()),
                .sizes = first.sizes().vec(),
                .strides = {1},
                .trained = false,
                .shared = one && key.size() > 1};
  states_.push_back(std::move(state));
  return found->second;
}

graph::remote::StatePlace StandaloneClient::place_of(const Traces& traces, size_t value,
                                                     int replica) {
  const at::Tensor& tensor = traces[static_cast<size_t>(replica)]->graph.values[value].tensor;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].variable) continue;
    const at::Tensor& variable = states_[i].variable->on_replica(replica);
    if (variable.storage().unsafeGetStorageImpl() != tensor.storage().unsafeGetStorageImpl()) {
      continue;
    }
    const int64_t offset = tensor.storage_offset() - variable.storage_offset();
    if (offset >= 0 && offset < std::max<int64_t>(variable.numel(), 1)) {
      return {static_cast<int64_t>(i), offset};
    }
  }
  return {static_cast<int64_t>(memory_of(traces, value)), tensor.storage_offset()};
}

size_t StandaloneClient::update_of(const graph::Node& node) {
  const auto update = std::dynamic_pointer_cast<optimizers::ShippedUpdate>(node.subject.lock());
  STRATA_CHECK(update != nullptr, kUnimplemented, "[standalone] the step has the node ", node.name,
               graph::describe_place(node),
               ", which servers cannot do; docs/standalone.md lists what they do");
  const auto known = std::ranges::find(updates_, update);
  if (known != updates_.end()) return static_cast<size_t>(known - updates_.begin());
  const std::string why = update->why_not_shipped();
  STRATA_CHECK(why.empty(), kUnimplemented,
               "[standalone] an optimizer cannot be sent to a server: ", why);
  UpdateSpec spec{.options = update->shipped_options().dump(), .variables = {}};
  for (const Variable& variable : update->shipped_variables()) {
    const at::Tensor& tensor = variable.on_replica(0);
    const void* const memory = tensor.storage().unsafeGetStorageImpl();
    const bool sent =
        std::ranges::any_of(memories_, [&](const auto& known) { return known.first[0] == memory; });
    STRATA_CHECK(!sent, kFailedPrecondition, "[standalone] '", variable.name(),
                 "' was read by a function that ran before the first one that trains it; call that "
                 "one first, so that the servers have one tensor for both");
    spec.variables.push_back(static_cast<int64_t>(states_.size()));
    states_.push_back({.spec = {.name = variable.name(),
                                .dtype = static_cast<uint64_t>(tensor.scalar_type()),
                                .sizes = tensor.sizes().vec(),
                                .strides = tensor.strides().vec(),
                                .trained = true,
                                .shared = false},
                       .variable = variable,
                       .replicas = {},
                       .written = true});
  }
  updates_.push_back(update);
  update_specs_.push_back(std::move(spec));
  return updates_.size() - 1;
}

/// Makes the graphs that a server gets of its replicas.
void StandaloneClient::describe(Step& step, std::vector<std::string>* graphs_of_server) {
  const graph::Graph& first = step.traces[0]->graph;
  for (const auto& trace : step.traces) {
    STRATA_CHECK(trace->effects.empty(), kUnimplemented, "[standalone] ", first.name,
                 " leaves gradients in .grad(); let an optimizer's minimize take them");
    STRATA_CHECK(trace->graph.values.size() == first.values.size() &&
                     trace->graph.nodes.size() == first.nodes.size(),
                 kUnimplemented, "[standalone] ", first.name,
                 " is another step on another replica; make the same calls on all of them");
  }
  for (const graph::Node& node : first.nodes) {
    if (graph::remote::work_of(node) == graph::remote::Work::kUpdate) {
      step.updates.push_back(update_of(node));
    }
  }
  for (size_t r = 0; r < step.traces.size(); ++r) {
    const graph::Trace& trace = *step.traces[r];
    const auto place = [&](const graph::Value& value) {
      const auto index = static_cast<size_t>(&value - trace.graph.values.data());
      const graph::remote::StatePlace found = place_of(step.traces, index, static_cast<int>(r));
      State& state = states_[static_cast<size_t>(found.state)];
      state.constant = value.kind == graph::ValueKind::kConstant;
      state.written = state.written || value.kind == graph::ValueKind::kState;
      STRATA_CHECK(!state.written || !state.spec.shared, kUnimplemented, "[standalone] ",
                   first.name, ": all replicas write one tensor, of ", value.dtype, " ",
                   at::IntArrayRef(value.sizes),
                   "; make it a Variable, or a buffer of a module that Strategy::replicate makes");
      return found;
    };
    const auto update = [&](const graph::Node& node) {
      return static_cast<int64_t>(update_of(node));
    };
    graphs_of_server[r / static_cast<size_t>(replicas_per_server())].push_back(
        graph::remote::encode_step(trace, place, update));
  }
}

StandaloneClient::Step& StandaloneClient::step_of(const std::vector<Visit*>& visits) {
  Traces traces;
  for (const Visit* visit : visits) traces.push_back(visit->trace);
  for (Step& step : steps_) {
    if (step.traces == traces) return step;
  }
  Step step{.traces = std::move(traces), .updates = {}, .number = -1};
  add(step);
  steps_.push_back(std::move(step));
  return steps_.back();
}

void StandaloneClient::add(Step& step) {
  const size_t states_before = states_.size();
  const size_t updates_before = updates_.size();
  const auto memories_before = memories_;
  try {
    std::vector<std::vector<std::string>> graphs(servers_.size());
    describe(step, graphs.data());
    resuming([&] {
      ask_all([&](size_t i) {
        Request request{.kind = RequestKind::kAdd, .updates = update_specs_, .graphs = graphs[i]};
        for (const State& state : states_) request.states.push_back(state.spec);
        return request;
      });
      std::vector<Reply> replies;
      for (Server& server : servers_) replies.push_back(receive_reply(server));
      exchange_new(replies);
      for (Server& server : servers_) step.number = receive_reply(server).step;
      // What servers had before is the session's, once it has run; all else is the client's.
      std::vector<size_t> known_states, known_updates, states, updates;
      for (size_t i = states_before; i < states_.size(); ++i) {
        if (states_[i].constant || static_cast<int64_t>(i) >= replies[0].states) continue;
        (runs_ > 0 ? known_states : states).push_back(i);
      }
      for (size_t u = updates_before; u < updates_.size(); ++u) {
        const bool known = runs_ > 0 && static_cast<int64_t>(u) < replies[0].updates;
        (known ? known_updates : updates).push_back(u);
      }
      fetch_now(known_states, known_updates);
      push_now(states, updates);
      for (size_t i = states_before; i < states_.size(); ++i) {
        note_equal(states_[i]);
      }
    });
  } catch (...) {
    states_.resize(states_before);
    updates_.resize(updates_before);
    update_specs_.resize(updates_before);
    memories_ = memories_before;
    throw;
  }
}

/// Sends the elements of tensors that the servers do not have.
void StandaloneClient::exchange_new(const std::vector<Reply>& replies) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    std::vector<at::Tensor> elements;
    for (auto s = static_cast<size_t>(replies[i].states); s < states_.size(); ++s) {
      const State& state = states_[s];
      if (state.variable) {
        elements.push_back(state.variable->on_replica(0).detach());
        continue;
      }
      const int copies = state.spec.shared ? 1 : replicas_per_server();
      for (int r = 0; r < copies; ++r) {
        elements.push_back(state.replicas[i * static_cast<size_t>(replicas_per_server()) +
                                          static_cast<size_t>(r)]);
      }
    }
    servers_[i].transfer.send(*servers_[i].connection, elements);
  }
  for (Server& server : servers_) server.transfer.wait(*transport_, deadline());
}

/// Makes the inputs dense tensors, and leaves out those that the servers read. @return these, by server.
std::vector<std::vector<InputSource>> StandaloneClient::take_inputs(
    const std::vector<Visit*>& visits) const {
  const auto per_server = static_cast<size_t>(replicas_per_server());
  std::vector<std::vector<InputSource>> sources(servers_.size());
  for (size_t r = 0; r < visits.size(); ++r) {
    std::vector<at::Tensor>& inputs = visits[r]->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      at::Tensor& input = inputs[i];
      if (const auto origin = stand_ins_->find(input)) {
        sources[r / per_server].push_back(
            {.input = static_cast<int64_t>((r % per_server) * inputs.size() + i),
             .dataset = origin->dataset,
             .epoch = origin->epoch,
             .batch = origin->batch,
             .field = origin->field,
             .row = origin->row});
        input = at::Tensor();
      }
      if (!input.defined()) continue;
      STRATA_CHECK(input.is_non_overlapping_and_dense(), kUnimplemented,
                   "[standalone] got an input of ", input.sizes(), " with strides ",
                   input.strides(), "; expected one without gaps: call contiguous()");
      input = input.detach();
    }
  }
  return sources;
}

void StandaloneClient::run_together(const std::vector<Visit*>& visits) {
  const MutexLock lock(mutex_);
  connect();
  const std::vector<std::vector<InputSource>> sources = take_inputs(visits);
  Step& step = step_of(visits);
  push_changed();
  const uint64_t run = runs_ + 1;
  const auto per_server = static_cast<size_t>(replicas_per_server());
  resuming([&] {
    STRATA_CHECK(runs_ + 1 == run || runs_ == run, kDataLoss, "[standalone] the servers have made ",
                 runs_, " runs, and this client ", run - 1,
                 "; another client has the session: begin a new one");
    ask_all([&](size_t i) {
      Request request{.kind = RequestKind::kRun, .step = step.number, .run = run};
      request.sources = sources[i];
      for (const auto& update : updates_) request.rates.push_back(update->next_rate());
      return request;
    });
    for (size_t r = 0; r < visits.size(); ++r) {
      Server& server = servers_[r / per_server];
      server.transfer.send(*server.connection, visits[r]->inputs);
    }
    receive_replies();
    for (size_t r = 0; r < visits.size(); ++r) {
      Server& server = servers_[r / per_server];
      const graph::Graph& graph = visits[r]->trace->graph;
      visits[r]->outputs.clear();
      for (const graph::ValueId id : graph.outputs) {
        visits[r]->outputs.push_back(id == graph::kNoValue
                                         ? at::Tensor()
                                         : memory_for(graph.values[static_cast<size_t>(id)]));
      }
      server.transfer.receive(*server.connection, visits[r]->outputs);
    }
    for (Server& server : servers_) server.transfer.wait(*transport_, deadline());
  });
  runs_ = run;
  stale_ = true;
  for (const size_t update : step.updates) {
    updates_[update]->set_finished(updates_[update]->finished() + updates_per_run());
  }
}

data::Dataset StandaloneClient::describe(const ServerDatasetOptions& options) {
  const MutexLock lock(mutex_);
  check_dataset(options);
  const std::string text = to_json(options).dump();
  std::vector<Reply> replies;
  resuming([&] {
    ask_all([&](size_t) { return Request{.kind = RequestKind::kDescribe, .dataset = text}; });
    replies = receive_replies();
  });
  data::ElementSpec fields;
  for (const FieldSpec& field : replies[0].fields) {
    fields.push_back({.shape = field.sizes, .dtype = static_cast<at::ScalarType>(field.dtype)});
  }
  for (const Reply& reply : replies) {
    STRATA_CHECK(reply.batches == replies[0].batches && reply.dataset == replies[0].dataset,
                 kFailedPrecondition, "[standalone] server_dataset: got ", reply.batches,
                 " batches on one server and ", replies[0].batches,
                 " on another; give all of them the same files");
  }
  return data::Dataset::range(replies[0].batches)
      .map([stand_ins = stand_ins_, fields, number = replies[0].dataset](
               const data::Example& batch, const data::ElementKey& key) {
        return stand_ins->make({.dataset = number,
                                .epoch = static_cast<int64_t>(key.epoch),
                                .batch = batch.x().item<int64_t>()},
                               fields);
      });
}

// --- Values

std::vector<int64_t> StandaloneClient::versions_of(const State& state) const {
  std::vector<int64_t> versions;
  if (state.variable) {
    for (int r = 0; r < group_->num_local_replicas(); ++r) {
      versions.push_back(state.variable->on_replica(r)._version());
    }
  } else {
    for (const at::Tensor& each : state.replicas) versions.push_back(each._version());
  }
  return versions;
}

std::string StandaloneClient::contents_of(const State& state) {
  if (state.variable) return tensor::fingerprint({state.variable->on_replica(0).detach()});
  return tensor::fingerprint(state.replicas);
}

void StandaloneClient::note_equal(State& state) const {
  state.versions = versions_of(state);
  if (!state.constant) state.contents = contents_of(state);
}

/// Versions also change where a tensor is written with what it has.
bool StandaloneClient::has_changed(State& state) const {
  std::vector<int64_t> versions = versions_of(state);
  if (versions == state.versions) return false;
  if (contents_of(state) != state.contents) return true;
  state.versions = std::move(versions);
  return false;
}

/// What the program has written since the servers got it.
void StandaloneClient::push_changed() {
  std::vector<size_t> changed;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].constant && has_changed(states_[i])) changed.push_back(i);
  }
  if (changed.empty()) return;
  resuming([&] { push_now(changed, {}); });
}

void StandaloneClient::push_now(const std::vector<size_t>& states,
                                const std::vector<size_t>& updates) {
  if (states.empty() && updates.empty()) return;
  ask_all([&](size_t) {
    Request request{.kind = RequestKind::kPush};
    request.tensors.assign(states.begin(), states.end());
    request.slots.assign(updates.begin(), updates.end());
    for (const size_t u : updates) request.iterations.push_back(updates_[u]->finished());
    return request;
  });
  for (Server& server : servers_) receive_reply(server);
  const auto per_server = static_cast<size_t>(replicas_per_server());
  for (size_t i = 0; i < servers_.size(); ++i) {
    std::vector<at::Tensor> values;
    for (const size_t s : states) {
      const State& state = states_[s];
      if (state.variable) {
        values.push_back(state.variable->on_replica(0).detach());
        continue;
      }
      const size_t copies = state.spec.shared ? 1 : per_server;
      for (size_t r = 0; r < copies; ++r) values.push_back(state.replicas[i * per_server + r]);
    }
    for (const size_t u : updates) {
      for (const auto& [name, slot] : updates_[u]->shipped_slots()) {
        values.push_back(slot.detach().contiguous());
      }
    }
    servers_[i].transfer.send(*servers_[i].connection, values);
  }
  for (Server& server : servers_) server.transfer.wait(*transport_, deadline());
  for (Server& server : servers_) receive_reply(server);
  for (const size_t s : states) note_equal(states_[s]);
}

void StandaloneClient::fetch_now(const std::vector<size_t>& states,
                                 const std::vector<size_t>& updates) {
  if (states.empty() && updates.empty()) return;
  const at::NoGradGuard no_grad;
  // Variables and slots are the same everywhere: the first server's.
  const auto is_sent = [&](size_t server, const State& state) {
    return server == 0 || !(state.variable || state.spec.shared);
  };
  ask_all([&](size_t i) {
    Request request{.kind = RequestKind::kFetch};
    for (const size_t s : states) {
      if (is_sent(i, states_[s])) request.tensors.push_back(static_cast<int64_t>(s));
    }
    if (i == 0) request.slots.assign(updates.begin(), updates.end());
    return request;
  });
  const auto per_server = static_cast<size_t>(replicas_per_server());
  std::vector<std::pair<size_t, at::Tensor>> variables;
  std::vector<std::vector<at::Tensor>> slots;
  std::vector<int64_t> iterations;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const Reply reply = receive_reply(servers_[i]);
    std::vector<at::Tensor> memory;
    for (const size_t s : states) {
      const State& state = states_[s];
      if (!is_sent(i, state)) continue;
      if (state.variable) {
        memory.push_back(at::empty_like(state.variable->on_replica(0).detach()));
        variables.emplace_back(s, memory.back());
        continue;
      }
      const size_t copies = state.spec.shared ? 1 : per_server;
      for (size_t r = 0; r < copies; ++r) memory.push_back(at::empty_like(state.replicas[0]));
    }
    if (i == 0) {
      iterations = reply.iterations;
      for (const size_t u : updates) {
        auto& of_update = slots.emplace_back();
        for (const auto& [name, slot] : updates_[u]->shipped_slots()) {
          of_update.push_back(at::empty_like(slot, at::MemoryFormat::Contiguous));
        }
        memory.insert(memory.end(), of_update.begin(), of_update.end());
      }
    }
    servers_[i].transfer.receive(*servers_[i].connection, memory);
    servers_[i].transfer.wait(*transport_, deadline());
    size_t next = 0;
    for (const size_t s : states) {
      State& state = states_[s];
      if (!is_sent(i, state)) continue;
      if (state.variable) {
        ++next;
        continue;
      }
      const size_t copies = state.spec.shared ? 1 : per_server;
      for (size_t r = 0; r < copies; ++r) {
        state.replicas[i * per_server + r].copy_(memory[next++]);
      }
    }
  }
  STRATA_CHECK(iterations.size() == updates.size(), kDataLoss, "[standalone] fetch: got ",
               iterations.size(), " numbers of iterations; expected ", updates.size());
  for (auto& [s, value] : variables) states_[s].variable->assign(value);
  for (size_t k = 0; k < updates.size(); ++k) {
    for (size_t slot = 0; slot < slots[k].size(); ++slot) {
      updates_[updates[k]]->set_shipped_slot(slot, slots[k][slot]);
    }
    updates_[updates[k]]->set_finished(iterations[k]);
  }
  for (const size_t s : states) note_equal(states_[s]);
}

void StandaloneClient::fetch() {
  const MutexLock lock(mutex_);
  if (!stale_) return;
  stale_ = false;  // what follows reads values of this process
  try {
    push_changed();  // or they were lost
    std::vector<size_t> states, updates;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].written) states.push_back(i);
    }
    for (size_t u = 0; u < updates_.size(); ++u) updates.push_back(u);
    resuming([&] { fetch_now(states, updates); });
  } catch (...) {
    stale_ = true;
    throw;
  }
}

void StandaloneClient::push() {
  const MutexLock lock(mutex_);
  std::vector<size_t> states, updates;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].constant) states.push_back(i);
  }
  for (size_t u = 0; u < updates_.size(); ++u) updates.push_back(u);
  resuming([&] { push_now(states, updates); });
  stale_ = false;
}

}  // namespace strata::standalone
