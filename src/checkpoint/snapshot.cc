#include "checkpoint/snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdio>

#include "checkpoint/copy.h"
#include "core/seconds.h"
#include "kernels/kernel_agreement.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"

namespace strata::checkpoint {
namespace {

/// A tensor, or some of its rows, on its way into a shard.
struct Part {
  std::string key;
  at::Tensor tensor;
  size_t shard = 0;
};

class Layout {
 public:
  Layout(int64_t shard_bytes, std::string prefix)
      : limit_(std::max<int64_t>(shard_bytes, 1)), prefix_(std::move(prefix)) {}

  /// Places `tensor`, cut into rows where it is larger than a shard.
  std::vector<ManifestPiece> place(const std::string& key, const at::Tensor& tensor) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes <= limit_ || tensor.dim() == 0 || tensor.size(0) < 2) return {put(key, tensor)};
    const int64_t rows = tensor.size(0);
    const int64_t step = std::max<int64_t>(1, limit_ / std::max<int64_t>(1, bytes / rows));
    std::vector<ManifestPiece> pieces;
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      pieces.push_back(
          put(str_cat(key, '[', begin, ':', begin + count, ']'), tensor.narrow(0, begin, count)));
    }
    return pieces;
  }

  std::vector<Part>& parts() { return parts_; }
  size_t num_shards() const { return fill_.size(); }
  std::string file(size_t shard) const {
    char number[32];
    std::snprintf(number, sizeof number, "%05zu", shard);
    return str_cat(prefix_, number, ".safetensors");
  }

 private:
  ManifestPiece put(const std::string& key, const at::Tensor& tensor) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (fill_.empty() || (fill_.back() > 0 && fill_.back() + bytes > limit_)) fill_.push_back(0);
    fill_.back() += bytes;
    parts_.push_back({key, tensor, fill_.size() - 1});
    return {.shard = static_cast<int64_t>(fill_.size() - 1), .key = key};
  }

  const int64_t limit_;
  const std::string prefix_;
  std::vector<int64_t> fill_;  // bytes in each shard
  std::vector<Part> parts_;
};

void check_tensor(const std::string& name, const at::Tensor& tensor) {
  STRATA_CHECK(tensor.defined(), kInvalidArgument, "[checkpoint] save: '", name,
               "' is an undefined tensor; give it a value first");
  STRATA_CHECK(tensor.layout() == c10::kStrided && !tensor.is_quantized(), kInvalidArgument,
               "[checkpoint] save: '", name, "' is sparse or quantized; expected a dense tensor");
  (void)dtype_name(tensor.scalar_type(), name);
}

/// As bytes in memory that stay: the tensor's own where they lie in order on the CPU.
at::Tensor in_order(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
}

bool plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/// Headers of all shards, and where the staged bytes of each part go.
void lay_out(Snapshot& snapshot, Layout& layout, Staging* staging) {
  std::vector<std::vector<const Part*>> by_shard(layout.num_shards());
  for (const Part& part : layout.parts()) by_shard[part.shard].push_back(&part);

  std::vector<CopyTask> copies;
  std::vector<std::pair<std::byte*, const Part*>> conversions;
  std::byte* home = nullptr;
  if (staging != nullptr) {
    uint64_t total = 0;
    for (const Part& part : layout.parts()) total += part.tensor.nbytes();
    home = staging->reserve(total);
  }
  for (size_t i = 0; i < by_shard.size(); ++i) {
    std::vector<TensorRecord> records;
    std::map<std::string, const Part*> parts;
    for (const Part* part : by_shard[i]) {
      records.push_back({.name = part->key,
                         .dtype = part->tensor.scalar_type(),
                         .shape = part->tensor.sizes().vec()});
      parts[part->key] = part;
    }
    SnapshotShard shard;
    shard.header = make_header(records, {});
    shard.data_bytes = records.empty() ? 0 : records.back().end;
    for (const TensorRecord& record : records) {
      const Part& part = *parts.at(record.name);
      if (staging == nullptr) {
        const at::Tensor tensor = in_order(part.tensor);
        snapshot.owners.push_back(tensor);
        shard.data.emplace_back(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                tensor.nbytes());
      } else if (plain(part.tensor)) {
        copies.push_back({home + record.begin,
                          static_cast<const std::byte*>(part.tensor.const_data_ptr()),
                          part.tensor.nbytes()});
      } else {
        conversions.emplace_back(home + record.begin, &part);
      }
    }
    if (staging != nullptr) {
      shard.data.emplace_back(home, shard.data_bytes);
      home += shard.data_bytes;
    }
    snapshot.manifest.shards.push_back(
        {.file = layout.file(i), .bytes = shard.header.size() + shard.data_bytes, .sha256 = ""});
    snapshot.shards.push_back(std::move(shard));
  }
  for (const auto& [to, part] : conversions) {
    at::from_blob(to, part->tensor.sizes(), at::TensorOptions(part->tensor.scalar_type()))
        .copy_(part->tensor);
  }
  copy_all(copies);
}

ManifestPlan plan_of(const ReplicaGroup& group) {
  return {.strategy = group.name(),
          .replicas = group.num_replicas(),
          .threads_per_replica = group.options().replicas.threads_per_replica,
          .order = "tree",
          .kernels = kernels_of(group)};
}

}  // namespace

std::string kernels_of(const ReplicaGroup& group) {
  for (int i = 0; i < group.num_local_replicas(); ++i) {
    if (!group.device(i).physical.is_cpu()) return "";
  }
  return kernels::kernels_of_replicas(group.options().replicas.bits == Bits::kPortable);
}

std::byte* Staging::reserve(uint64_t bytes) {
  if (bytes > capacity_) {
    arena_ = {};  // first, so that both need not fit
    arena_ = tensor::Arena({{.sizes = {static_cast<int64_t>(bytes)}}}, at::kByte);
    capacity_ = bytes;
  }
  return capacity_ == 0 ? nullptr : static_cast<std::byte*>(arena_.flat().data_ptr());
}

Snapshot take_snapshot(const Graph& graph, const SnapshotOptions& options, Staging* staging) {
  const at::NoGradGuard no_grad;
  Snapshot snapshot;
  snapshot.in_a_hurry = staging == nullptr;
  Manifest& manifest = snapshot.manifest;
  manifest.strata_version = STRATA_VERSION;
  manifest.saved_at = strata::detail::unix_time();
  manifest.plan = plan_of(*graph.groups[0]);
  Layout layout(options.shard_bytes, options.shard_prefix);
  for (const GraphTensor& each : graph.tensors) {
    ManifestTensor tensor{.name = each.name, .same_as = each.same_as};
    if (each.same_as.empty()) {
      const at::Tensor value = each.state.read();
      check_tensor(each.name, value);
      tensor.dtype = value.scalar_type();
      tensor.shape = value.sizes().vec();
      tensor.pieces = layout.place(each.name, value);
      if (options.per_replica && each.state.read_replicas) {
        const std::vector<at::Tensor> replicas = each.state.read_replicas();
        for (size_t r = 0; r < replicas.size(); ++r) {
          tensor.replicas.push_back(
              layout.place(str_cat(each.name, "@replica", r), replicas[r].detach()));
        }
      }
    }
    manifest.tensors.push_back(std::move(tensor));
  }
  for (const GraphValue& each : graph.values) {
    manifest.values.emplace_back(each.name, each.state.read());
  }
  if (!options.writes) return {};
  lay_out(snapshot, layout, staging);
  return snapshot;
}

}  // namespace strata::checkpoint
