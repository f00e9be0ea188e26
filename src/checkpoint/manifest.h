#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/checkpoint/state.h"

/// manifest.json: what a checkpoint's folder holds. A folder without a whole one is no checkpoint.
namespace strata::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr int64_t kFormatVersion = 1;

/// @throws kDataLoss with the file and what is wrong with it.
[[noreturn]] void throw_damaged(const std::string& path, const std::string& what);

struct ManifestShard {
  std::string file = {};
  uint64_t bytes = 0;
  std::string sha256 = {};
};

/// Rows of a tensor, in one shard. Those of a tensor follow each other along dimension 0.
struct ManifestPiece {
  int64_t shard = 0;
  std::string key = {};
};

struct ManifestTensor {
  std::string name = {};
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape = {};
  std::string same_as = {};  ///< The tensor under another name; then without pieces.
  std::vector<ManifestPiece> pieces = {};
  std::vector<std::vector<ManifestPiece>> replicas =
      {};  ///< Their own values, where they were apart.
};

/// How the sums of a step were computed: with the same plan a resumed run has the same bits.
struct ManifestPlan {
  std::string strategy = {};
  int64_t replicas = 1;
  int64_t threads_per_replica = 1;
  std::string order = {};    ///< "tree": fixed, by replica id.
  std::string kernels = {};  ///< As kernels_of_replicas names them; empty: GPUs', or not kept.
  bool operator==(const ManifestPlan&) const = default;
};

struct Manifest {
  int64_t version = kFormatVersion;
  std::string strata_version = {};
  int64_t number = 0;   ///< Of the checkpoint: the save counter or the step.
  double saved_at = 0;  ///< Seconds since 1970.
  std::map<std::string, double> metrics = {};
  ManifestPlan plan;
  std::vector<ManifestShard> shards = {};
  std::vector<ManifestTensor> tensors = {};
  std::vector<std::pair<std::string, CheckpointValue>> values = {};
};

/// JSON whose last member is the SHA-256 of all that precedes it.
std::string write_manifest(const Manifest& manifest);

/// @throws Error kDataLoss: damaged or foreign; kUnimplemented: a newer format. Both name `path`.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace strata::checkpoint
