#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/fake_nccl/device_hooks.h"
#include "gpu/fake_nccl/exported_nccl.h"

namespace strata::test::fake_nccl {

enum class Kind : uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kSend,
  kRecv,
  kSplit
};

/// "AllReduce".
const char* name_of(Kind kind);

/// One call of NCCL.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t count = 0;  ///< As the call has it.
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  ///< The root, or the other rank of a send or receive.
  void* stream = nullptr;
};

bool is_collective(Kind kind);
bool has_reduction(Kind kind);
bool has_root(Kind kind);

/// What an operation reads and writes on `rank` of `ranks`: nothing, or one range.
std::vector<Range> reads_of(const Operation& operation, int rank, int ranks);
std::vector<Range> writes_of(const Operation& operation, int rank, int ranks);

/// What a rank tells others of an operation before data move.
struct Announcement {
  Kind kind = Kind::kAllReduce;
  ncclDataType_t type = ncclInt8;
  int32_t op = 0;
  int32_t peer = 0;
  uint64_t count = 0;
  // Of a split.
  int32_t color = 0;
  int32_t key = 0;
};

Announcement announcement_of(const Operation& operation);

/// Whether ranks call the same collective.
bool same_collective(const Announcement& a, const Announcement& b);

/// "ncclAllReduce(count 5, float32, sum)".
std::string describe(const Announcement& announcement);

}  // namespace strata::test::fake_nccl
