#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto_message.h"
#include "strata/ps/table.h"

/// What a standalone client and a server send each other. The contract is
/// proto/strata/standalone.proto.
namespace strata::standalone {

using strata::detail::MessageOf;

inline constexpr std::string_view kPurpose = "standalone";
inline constexpr std::string_view kJob = "strata-standalone";
inline constexpr uint64_t kProtocol = 1;
inline constexpr uint32_t kControlChannel = 0;
inline constexpr uint32_t kTensorChannel = 1;

enum class RequestKind : uint64_t {
  kNone = 0,
  kOpen = 1,      ///< A session, or one that there is.
  kJoin = 2,      ///< The servers of the session form a group.
  kAdd = 3,       ///< Tensors, optimizers and a step. Elements of new tensors follow the reply.
  kRun = 4,       ///< A step. Inputs follow.
  kFetch = 5,     ///< Elements follow the reply.
  kPush = 6,      ///< Elements follow the reply.
  kClose = 7,     ///< The session ends.
  kDescribe = 8,  ///< A dataset, which this server reads.
};

/// Where an input of a run is instead of behind the request: in a batch of a dataset, from a row on.
struct InputSource {
  int64_t input = 0;  ///< Its number, replica by replica of this server.
  int64_t dataset = 0;
  int64_t epoch = 0;
  int64_t batch = 0;
  int64_t field = 0;
  int64_t row = 0;
};

/// A field of a dataset's batches.
struct FieldSpec {
  uint64_t dtype = 0;
  std::vector<int64_t> sizes = {};
};

/// A tensor of the session.
struct StateSpec {
  std::string name = {};
  uint64_t dtype = 0;
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};
  bool trained = false;  ///< A variable of an optimizer's; else a memory, of one dimension.
  bool shared = false;   ///< One for all replicas, which do not write it.
};

struct UpdateSpec {
  std::string options = {};             ///< JSON, as optimizers::make_shipped takes it.
  std::vector<int64_t> variables = {};  ///< Numbers of tensors.
};

/// The parameter servers of a session, and how its workers use them
/// (ParameterServerStrategyOptions).
struct ParametersSpec {
  std::vector<std::string> addresses = {};
  int64_t workers = 0;
  ps::Consistency consistency = ps::Consistency::kAsynchronous;
  int64_t staleness = 0;
  int64_t backup_workers = 0;
  ps::PushPrecision precision = ps::PushPrecision::kFull;
  bool backup = false;
  bool pull_ahead = false;
};

struct Request {
  RequestKind kind = RequestKind::kNone;
  // kOpen.
  uint64_t protocol = 0;
  std::string session = {};  ///< Its token; empty: a new one.
  uint64_t seed = 0;
  std::vector<std::string> devices = {};
  int64_t rank = 0;
  int64_t servers = 0;
  bool holds_parameters = false;  ///< It is one of the session's parameter servers.
  // kJoin.
  std::string leader = {};  ///< The address of the first one's group.
  std::optional<ParametersSpec> parameters = {};
  // kAdd: all of them, of which the session may have the first ones; and a step's graphs, one a
  // replica of this server. A reply, the elements of new tensors, another reply.
  std::vector<StateSpec> states = {};
  std::vector<UpdateSpec> updates = {};
  std::vector<std::string> graphs = {};
  // kRun.
  int64_t step = 0;
  uint64_t run = 0;                ///< Its number, from 1.
  std::vector<double> rates = {};  ///< Of every optimizer.
  std::vector<InputSource> sources = {};
  // kDescribe.
  std::string dataset = {};  ///< JSON: ServerDatasetOptions.
  // kPush, kFetch.
  std::vector<int64_t> tensors = {};     ///< Numbers.
  std::vector<int64_t> slots = {};       ///< Of these optimizers, all.
  std::vector<int64_t> iterations = {};  ///< kPush: of those.
};

struct Reply {
  uint64_t code = 0;  ///< An ErrorCode.
  std::string message = {};
  std::string session = {};
  int64_t port = 0;  ///< kOpen, of the first server and of parameter servers: where others find it.
  uint64_t runs = 0;
  bool joined = false;
  int64_t states = 0;  ///< That the session has.
  int64_t updates = 0;
  int64_t step = 0;                      ///< kAdd: its number.
  std::vector<int64_t> iterations = {};  ///< kFetch: of the optimizers that were asked for.
  int64_t dataset = 0;                   ///< kDescribe: its number.
  int64_t batches = 0;
  std::vector<FieldSpec> fields = {};
};

void visit_fields(auto& field, MessageOf<StateSpec> auto& spec) {
  field(1, "name", spec.name);
  field(2, "dtype", spec.dtype);
  field(3, "sizes", spec.sizes);
  field(4, "strides", spec.strides);
  field(5, "trained", spec.trained);
  field(6, "shared", spec.shared);
}

void visit_fields(auto& field, MessageOf<UpdateSpec> auto& spec) {
  field(1, "options", spec.options);
  field(2, "variables", spec.variables);
}

void visit_fields(auto& field, MessageOf<InputSource> auto& source) {
  field(1, "input", source.input);
  field(2, "dataset", source.dataset);
  field(3, "epoch", source.epoch);
  field(4, "batch", source.batch);
  field(5, "field", source.field);
  field(6, "row", source.row);
}

void visit_fields(auto& field, MessageOf<FieldSpec> auto& spec) {
  field(1, "dtype", spec.dtype);
  field(2, "sizes", spec.sizes);
}

void visit_fields(auto& field, MessageOf<ParametersSpec> auto& spec) {
  field(1, "addresses", spec.addresses);
  field(2, "workers", spec.workers);
  field(3, "consistency", spec.consistency);
  field(4, "staleness", spec.staleness);
  field(5, "backup_workers", spec.backup_workers);
  field(6, "precision", spec.precision);
  field(7, "backup", spec.backup);
  field(8, "pull_ahead", spec.pull_ahead);
}

void visit_fields(auto& field, MessageOf<Request> auto& request) {
  field(1, "kind", request.kind);
  field(2, "protocol", request.protocol);
  field(3, "session", request.session);
  field(4, "seed", request.seed);
  field(5, "devices", request.devices);
  field(6, "rank", request.rank);
  field(7, "servers", request.servers);
  field(8, "leader", request.leader);
  field(9, "states", request.states);
  field(10, "updates", request.updates);
  field.bytes(11, "graphs", request.graphs);
  field(12, "step", request.step);
  field(13, "run", request.run);
  field(14, "rates", request.rates);
  field(15, "tensors", request.tensors);
  field(16, "slots", request.slots);
  field(17, "iterations", request.iterations);
  field(18, "holds_parameters", request.holds_parameters);
  field(19, "parameters", request.parameters);
  field(20, "sources", request.sources);
  field(21, "dataset", request.dataset);
}

void visit_fields(auto& field, MessageOf<Reply> auto& reply) {
  field(1, "code", reply.code);
  field(2, "message", reply.message);
  field(3, "session", reply.session);
  field(4, "port", reply.port);
  field(5, "runs", reply.runs);
  field(6, "joined", reply.joined);
  field(7, "states", reply.states);
  field(8, "updates", reply.updates);
  field(9, "step", reply.step);
  field(10, "iterations", reply.iterations);
  field(11, "dataset", reply.dataset);
  field(12, "batches", reply.batches);
  field(13, "fields", reply.fields);
}

std::string encode(const Request& request);
std::string encode(const Reply& reply);
/// @throws Error  kDataLoss: not such a message.
Request decode_request(std::string_view bytes);
Reply decode_reply(std::string_view bytes);

}  // namespace strata::standalone
