#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto_message.h"
#include "strata/core/error.h"

namespace strata::ps {

/// What a connection between a worker and a server is for, and what travels on it.
constexpr std::string_view kPurpose = "ps";
/// The same between a server and the one that keeps a copy of its tables.
constexpr std::string_view kBackupPurpose = "ps-backup";
constexpr uint32_t kTableChannel = 1;      ///< requests and replies
constexpr uint32_t kHeartbeatChannel = 2;  ///< signs of life
constexpr uint32_t kDataChannel = 3;  ///< values, ids and gradients, tagged with the request's id

/// What workers ask servers. Numbers are the wire's: never reuse one.
enum class RequestKind : uint32_t {
  kCreate = 1,       ///< text: the table's spec as JSON; flag: waits until the table has its values
  kFill = 2,         ///< data: a flat table's first values, or new ones (slot 0), or a slot's
  kPull = 3,         ///< brings a flat table's values
  kPush = 4,         ///< data: gradients of a flat table; flag: brings the new values
  kPullRows = 5,     ///< data: row numbers; brings these rows
  kPushRows = 6,     ///< data: row numbers, and gradients of these rows
  kRead = 7,         ///< brings values (slot 0) or a slot, without waiting for other workers
  kCounters = 8,     ///< brings the table's counters, as JSON
  kLeave = 9,        ///< this worker has ended in order; flag: the job has, too
  kMapSegment = 10,  ///< text: how to map a segment (slot: its number) of the worker's memory
  kUnmapSegment = 11,  ///< slot: a segment that is no more
  kBackup = 12,    ///< a server to its backup, the first: its copies begin; flag: are worth nothing
  kReplaces = 13,  ///< reply's flag: whether the receiver has (or can take) `on_behalf_of`'s place
  kOpenMailbox = 14,  ///< memory: of a mailbox, from which requests are taken, too
};

/// Whether a table is another one behind it: its backup must have it, too.
constexpr bool changes_table(RequestKind kind) {
  return kind == RequestKind::kCreate || kind == RequestKind::kFill || kind == RequestKind::kPush ||
         kind == RequestKind::kPushRows;
}

/// How gradients travel. The numbers are the wire's.
enum class PushEncoding : uint32_t { kFull = 0, kFloat16 = 1, kBFloat16 = 2 };

struct Request {
  RequestKind kind = RequestKind::kCreate;
  uint32_t id = 0;         ///< the sender's, never 0; its data and the reply have it, too
  std::string table = {};  ///< empty: none
  std::string text = {};
  bool flag = false;
  int64_t slot = 0;         ///< 0: the values; k: the rule's slot k - 1
  uint64_t rows = 0;        ///< how many numbers of rows follow
  uint64_t data_bytes = 0;  ///< how many bytes of values or gradients follow
  int64_t step = 0;         ///< of a push: of the values that it is for; kFill: the version now
  uint64_t sequence = 0;    ///< of a push or fill: of this worker's to this table, from 1
  double learning_rate = 0;
  double weight_decay = 0;
  double clip_value = 0;
  double scale = 1;   ///< gradients are multiplied by it
  double weight = 0;  ///< kSynchronous: divides the sum by the workers' total of it; 0: does not
  PushEncoding encoding = PushEncoding::kFull;
  /// Where rows, data and answer are in the worker's memory, for each part of at least a byte its
  /// segment and its offset there. Empty: they travel.
  std::vector<uint64_t> memory = {};
  uint32_t on_behalf_of = 0;  ///< 0, or 1 + the server in whose place the receiver is asked
  std::string worker = {};    ///< between servers: who has brought the sender this
  uint32_t core = 0;          ///< 1 + the core that the sender runs on; 0: unknown
  bool waits = false;         ///< the sender leaves that core until it has the answer

  friend bool operator==(const Request&, const Request&) = default;
};

struct Reply {
  uint32_t id = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string text = {};  ///< of the error; kCounters: the counters
  int64_t version = 0;    ///< of the table: how many updates it has had
  int64_t step = 0;       ///< kSynchronous: the step that the table is in
  bool flag = false;      ///< kCreate: it wants its first values; kPush: it was dropped as stale;
                          ///< kMapSegment: it is mapped
  bool unreplicated = false;  ///< the server has lost its backup: do not turn to that
  bool promoted = false;      ///< the server has taken the place of the one before it
  bool same_core = false;     ///< kPush: the server has read the gradients on the worker's core

  friend bool operator==(const Reply&, const Reply&) = default;
};

void visit_fields(auto& field, strata::detail::MessageOf<Request> auto& request) {
  field(1, "kind", request.kind);
  field(2, "id", request.id);
  field(3, "table", request.table);
  field(4, "text", request.text);
  field(5, "flag", request.flag);
  field(6, "slot", request.slot);
  field(7, "rows", request.rows);
  field(8, "data_bytes", request.data_bytes);
  field(9, "step", request.step);
  field(10, "sequence", request.sequence);
  field.always(11, "learning_rate", request.learning_rate);
  field.always(12, "weight_decay", request.weight_decay);
  field.always(13, "clip_value", request.clip_value);
  field.always(14, "scale", request.scale);
  field.always(15, "weight", request.weight);
  field(16, "encoding", request.encoding);
  field(17, "memory", request.memory);
  field(18, "on_behalf_of", request.on_behalf_of);
  field(19, "worker", request.worker);
  field(20, "core", request.core);
  field(21, "waits", request.waits);
}

void visit_fields(auto& field, strata::detail::MessageOf<Reply> auto& reply) {
  field(1, "id", reply.id);
  field(2, "code", reply.code);
  field(3, "text", reply.text);
  field(4, "version", reply.version);
  field(5, "flag", reply.flag);
  field(6, "step", reply.step);
  field(7, "unreplicated", reply.unreplicated);
  field(8, "promoted", reply.promoted);
  field(9, "same_core", reply.same_core);
}

/// Their contract is proto/strata/table_request.proto.
std::string encode(const Request& request);
std::string encode(const Reply& reply);

/// @throws Error  kDataLoss: not such a message; says where.
Request decode_request(std::string_view bytes);
Reply decode_reply(std::string_view bytes);

}  // namespace strata::ps
