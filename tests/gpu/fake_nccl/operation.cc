#include "gpu/fake_nccl/operation.h"

#include "gpu/fake_nccl/reductions.h"

namespace strata::test::fake_nccl {
namespace {

std::vector<Range> range(const void* begin, uint64_t count, const Operation& operation) {
  if (count == 0) return {};
  return {{begin, count * size_of(operation.type)}};
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"AllReduce", "Reduce", "Broadcast", "ReduceScatter",
                                    "AllGather", "Send",   "Recv",      "Split"};
  return kNames[static_cast<uint32_t>(kind)];
}

bool is_collective(Kind kind) { return kind != Kind::kSend && kind != Kind::kRecv; }

bool has_reduction(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

bool has_root(Kind kind) { return kind == Kind::kReduce || kind == Kind::kBroadcast; }

std::vector<Range> reads_of(const Operation& operation, int rank, int ranks) {
  const auto all = static_cast<uint64_t>(ranks);
  switch (operation.kind) {
    case Kind::kRecv:
    case Kind::kSplit:
      return {};
    case Kind::kBroadcast:
      return range(operation.input, rank == operation.peer ? operation.count : 0, operation);
    case Kind::kReduceScatter:
      return range(operation.input, operation.count * all, operation);
    default:
      return range(operation.input, operation.count, operation);
  }
}

std::vector<Range> writes_of(const Operation& operation, int rank, int ranks) {
  const auto all = static_cast<uint64_t>(ranks);
  switch (operation.kind) {
    case Kind::kSend:
    case Kind::kSplit:
      return {};
    case Kind::kReduce:
      return range(operation.output, rank == operation.peer ? operation.count : 0, operation);
    case Kind::kAllGather:
      return range(operation.output, operation.count * all, operation);
    default:
      return range(operation.output, operation.count, operation);
  }
}

Announcement announcement_of(const Operation& operation) {
  return {.kind = operation.kind,
          .type = operation.type,
          .op = has_reduction(operation.kind) ? static_cast<int32_t>(operation.op) : 0,
          .peer = is_collective(operation.kind) && !has_root(operation.kind) ? 0 : operation.peer,
          .count = operation.count,
          .color = 0,
          .key = 0};
}

bool same_collective(const Announcement& a, const Announcement& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.peer == b.peer &&
         a.count == b.count;
}

std::string describe(const Announcement& announcement) {
  std::string text = std::string(announcement.kind == Kind::kSplit ? "ncclComm" : "nccl") +
                     name_of(announcement.kind);
  if (announcement.kind == Kind::kSplit) return text;
  text += "(count " + std::to_string(announcement.count) + ", " + name_of(announcement.type);
  if (has_reduction(announcement.kind)) {
    text += std::string(", ") + name_of(static_cast<ncclRedOp_t>(announcement.op));
  }
  if (has_root(announcement.kind)) text += ", root " + std::to_string(announcement.peer);
  if (!is_collective(announcement.kind)) text += ", peer " + std::to_string(announcement.peer);
  return text + ")";
}

}  // namespace strata::test::fake_nccl
