#include "optim/step/gradient_reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "collective/pack_bytes.h"
#include "graph/host_call.h"
#include "optim/step/gradient_sums.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/span.h"
#include "runtime/variable_placement.h"
#include "strata/collective/communication_options.h"
#include "strata/core/error.h"
#include "tensor/thread_setup.h"

namespace strata::optimizers {
namespace {

/// Tensors in a bucket start at multiples of a cache line.
constexpr int64_t kLine = 64;

/// Elements of a tensor with the padding behind it.
int64_t padded(int64_t elements, at::ScalarType dtype) {
  const int64_t line = kLine / static_cast<int64_t>(c10::elementSize(dtype));
  return (elements + line - 1) / line * line;
}

int max_local_replicas(const collective::Placement& placement) {
  size_t most = 0;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    most = std::max(most, placement.replicas_of(rank).size());
  }
  return static_cast<int>(most);
}

}  // namespace

GradientReducer::GradientReducer(std::string name, std::vector<Variable> variables,
                                 const ReducerOptions& options)
    : name_(std::move(name)),
      variables_(std::move(variables)),
      options_(options),
      group_(variables_[0].group()) {
  early_.assign(static_cast<size_t>(group_.num_local_replicas()),
                std::vector<bool>(variables_.size(), false));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::skip_ranges(size_t variable, std::vector<collective::Range> ranges) {
  if (!slots_[variable] || buckets_[slots_[variable]->bucket].buffers[0].all.empty()) return;
  skipped_.resize(variables_.size());
  skipped_[variable] = std::move(ranges);
}

void GradientReducer::mark_ready(int local, size_t variable, const at::Tensor& gradient) {
  if (!sender_.joinable() || !slots_[variable]) return;
  early_[static_cast<size_t>(local)][variable] = true;
  copy_into_bucket(local, variable, gradient);
}

void GradientReducer::add(int local, const std::vector<at::Tensor>& gradients) {
  if (slots_.empty()) return;  // the first step's are put once all know who has what
  std::vector<bool>& early = early_[static_cast<size_t>(local)];
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (slots_[i] && !early[i]) copy_into_bucket(local, i, gradients[i]);
    early[i] = false;
  }
}

void GradientReducer::copy_into_bucket(int local, size_t variable, const at::Tensor& gradient) {
  const BucketSlot& home = *slots_[variable];
  at::Tensor& view =
      memory_of(buckets_[home.bucket]).local[static_cast<size_t>(local)].views[home.view];
  if (!gradient.defined()) {
    view.fill_(kSumIdentity);
  } else if (gradient.is_cpu() && !gradient.is_sparse() && gradient.strides() == view.strides() &&
             gradient.scalar_type() == view.scalar_type()) {
    const auto width = static_cast<int64_t>(gradient.element_size());
    const auto copy = [to = static_cast<std::byte*>(view.mutable_data_ptr()),
                       from = static_cast<const std::byte*>(gradient.const_data_ptr()),
                       width](int64_t begin, int64_t end) {
      if (begin == end) return;
      std::memcpy(to + begin * width, from + begin * width,
                  static_cast<size_t>((end - begin) * width));
    };
    int64_t begin = 0;
    for (const collective::Range& range : skipped(variable)) {
      copy(begin, range.begin);
      begin = range.end;
    }
    copy(begin, gradient.numel());
  } else {
    view.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  if (!sender_.joinable()) return;
  const MutexLock lock(mutex_);
  if (local == 0) observer_ = strata::detail::span_observer();
  if (--missing_[home.bucket] == 0) changed_.notify_all();
}

GradientReducer::Result GradientReducer::reduce(const std::vector<Part>& parts) {
  const StepMetadata metadata = agree_on_metadata(parts);
  if (options_.on_cards) return reduce_beside_cards(metadata, parts);
  const bool first = slots_.empty();
  if (first) {
    make_buckets(metadata);
    for (size_t local = 0; local < parts.size(); ++local) {
      add(static_cast<int>(local), *parts[local].gradients);
    }
    // Later the agreement says that they are there.
    if (metadata.by_callers) {
      group_.communicator()->barrier({.name = str_cat("first step of ", name_)});
    }
  }
  if (sender_.joinable()) {
    wait_until_reduced();
  } else {
    for (size_t b = 0; b < buckets_.size(); ++b)
      reduce_bucket(b, {}, strata::detail::span_observer());
  }
  if (first && group_.options().reduction.overlap) {
    {
      const MutexLock lock(mutex_);
      for (const Bucket& bucket : buckets_) {
        missing_.push_back(static_cast<int>(bucket.variables.size() * parts.size()));
      }
    }
    sender_ = Thread("gradients", [this](const std::stop_token& stop) {
      const tensor::FlushDenormals flush;
      reduce_in_order(stop);
    });
  }
  Result result{.sums = {}, .weight = metadata.weight, .by_callers = metadata.by_callers};
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!slots_[i]) {
      result.sums.push_back(reduce_separately(i, metadata, parts));
      continue;
    }
    const bool used = std::ranges::any_of(
        metadata.kinds, [&](const auto& kinds) { return kinds[i] != Kind::kNone; });
    const Memory& memory = memory_of(buckets_[slots_[i]->bucket]);
    GradientSum sum{.used = used};
    if (memory.all.empty()) sum.dense = {sum_of(memory).views[slots_[i]->view]};
    for (const Values& values : memory.all) sum.dense.push_back(values.views[slots_[i]->view]);
    for (size_t local = 0; local < parts.size() && !skipped(i).empty(); ++local) {
      const at::Tensor& gradient = (*parts[local].gradients)[i];
      if (!gradient.defined() || gradient.is_sparse()) continue;  // was put whole
      const int id = group_.replica_id(static_cast<int>(local));
      sum.dense[static_cast<size_t>(id)] = gradient;
    }
    result.sums.push_back(std::move(sum));
  }
  ++step_;
  return result;
}

GradientReducer::Result GradientReducer::reduce_beside_cards(const StepMetadata& metadata,
                                                             const std::vector<Part>& parts) {
  const auto someone_has = [&](size_t variable, auto&& is_kind) {
    return std::ranges::any_of(metadata.kinds,
                               [&](const auto& kinds) { return is_kind(kinds[variable]); });
  };
  if (beside_cards_.empty()) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      beside_cards_.push_back(someone_has(i, [](Kind kind) { return kind == Kind::kSparse; }));
    }
  }
  Result result{.sums = {}, .weight = metadata.weight, .is_here = beside_cards_};
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (beside_cards_[i]) {
      result.sums.push_back(reduce_separately(i, metadata, parts));
    } else {
      result.sums.push_back(
          {.used = someone_has(i, [](Kind kind) { return kind != Kind::kNone; })});
    }
  }
  return result;
}

void GradientReducer::reduce_bucket(size_t bucket, std::stop_token stop,
                                    const std::shared_ptr<SpanObserver>& observer) {
  const strata::detail::Span span(observer, "gradients of ", name_, ", bucket ", bucket + 1, " of ",
                                  buckets_.size());
  const Memory& memory = memory_of(buckets_[bucket]);
  if (!memory.all.empty()) return;
  std::vector<at::Tensor> values;
  for (const Values& each : memory.local) values.push_back(each.flat);
  const collective::CallOptions call = {.id = static_cast<uint32_t>(bucket + 1),
                                        .name = str_cat("gradients of ", name_),
                                        .stop = std::move(stop)};
  if (buckets_[bucket].part == 0 || options_.whole_sums) {
    group_.communicator()->all_reduce(values, values[0], ReduceOp::kSum, call);
    if (memory.sum.flat.defined()) at::Tensor(memory.sum.flat).copy_(values[0]);
    return;
  }
  at::Tensor sums = at::empty_like(owned_part(buckets_[bucket], values[0]));
  group_.communicator()->reduce_scatter(values, sums, ReduceOp::kSum, call);
  owned_part(buckets_[bucket], sum_of(memory).flat).copy_(sums);
}

void GradientReducer::reduce_in_order(const std::stop_token& stop) {
  while (true) {
    size_t bucket = 0;
    std::shared_ptr<SpanObserver> observer;
    {
      MutexLock lock(mutex_);  // ends with the next gradients, or this object
      const bool ready = changed_.wait(lock, stop, [&]() STRATA_REQUIRES(mutex_) {
        return sent_ < buckets_.size() && missing_[sent_] == 0;
      });
      if (!ready) return;
      bucket = sent_;
      observer = observer_;
    }
    std::exception_ptr error;
    try {
      reduce_bucket(bucket, stop, observer);
    } catch (...) {
      error = std::current_exception();
    }
    const MutexLock lock(mutex_);
    ++sent_;
    error_ = error;
    changed_.notify_all();
    if (error) return;
  }
}

void GradientReducer::wait_until_reduced() {
  MutexLock lock(mutex_);  // ends with the sums' own deadline
  changed_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return sent_ == buckets_.size() || error_; });
  observer_.reset();
  if (error_) std::rethrow_exception(error_);
  sent_ = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    missing_[b] = static_cast<int>(buckets_[b].variables.size() * early_.size());
  }
}

/// How this process's caller adds; all have to do it alike. 0: not at all.
uint8_t GradientReducer::reduction_mode() const {
  if (options_.add == ReduceSite::kReducer || !group_.communicator()->shares_memory() ||
      group_.options().reduction.overlap || group_.options().reduction.wire_dtype) {
    return 0;
  }
  if (!group_.placement().may_share_storage(group_)) return 1;
  return group_.options().replicas.share_storage ? 2 : 3;  // where parameters lie: see FlatStorage
}

/// One message of fixed size: of each replica its weight, how its process adds, and a byte a
/// variable.
GradientReducer::StepMetadata GradientReducer::agree_on_metadata(
    const std::vector<Part>& parts) const {
  collective::Communicator& communicator = *group_.communicator();
  const size_t variables = variables_.size();
  constexpr size_t kHead = sizeof(double) + 1;
  const size_t size = kHead + variables;
  const uint8_t own_manner = reduction_mode();
  const int64_t bytes = static_cast<int64_t>(size) * max_local_replicas(communicator.placement());
  const at::TensorOptions options(at::kByte);
  at::Tensor local = at::empty({bytes}, options);
  auto* to = local.mutable_data_ptr<uint8_t>();
  std::fill(to, to + bytes, uint8_t{0});
  for (const Part& part : parts) {
    std::memcpy(to, &part.weight, sizeof(double));
    to[sizeof(double)] = own_manner;
    for (size_t i = 0; i < variables; ++i) {
      const at::Tensor& gradient = (*part.gradients)[i];
      const Kind kind = !gradient.defined()    ? Kind::kNone
                        : gradient.is_sparse() ? Kind::kSparse
                                               : Kind::kDense;
      to[kHead + i] = static_cast<uint8_t>(kind);
    }
    to += size;
  }
  at::Tensor all = at::empty({bytes * communicator.num_ranks()}, options);
  communicator.all_gather(local, all, {.name = str_cat("step of ", name_)});

  StepMetadata metadata{.kinds = {}, .weight = 0, .by_callers = own_manner != 0};
  std::vector<double> weights(static_cast<size_t>(group_.num_replicas()));
  metadata.kinds.resize(weights.size());
  for (int rank = 0; rank < communicator.num_ranks(); ++rank) {
    const auto* from = all.const_data_ptr<uint8_t>() + bytes * rank;
    for (const int id : communicator.placement().replicas_of(rank)) {
      std::memcpy(&weights[static_cast<size_t>(id)], from, sizeof(double));
      metadata.by_callers = metadata.by_callers && from[sizeof(double)] == own_manner;
      auto& kinds = metadata.kinds[static_cast<size_t>(id)];
      for (size_t i = 0; i < variables; ++i) {
        kinds.push_back(static_cast<Kind>(from[kHead + i]));
      }
      from += size;
    }
  }
  for (const double weight : weights) metadata.weight += weight;
  return metadata;
}

int64_t GradientReducer::pack_bytes(const std::vector<int64_t>& sizes) const {
  const ReductionOptions& options = group_.options().reduction;
  if (options.bytes_per_pack > 0 || !options.overlap) return options.bytes_per_pack;
  return collective::overlapped_pack_bytes(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
}

void GradientReducer::make_buckets(const StepMetadata& metadata) {
  slots_.resize(variables_.size());
  std::map<at::ScalarType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const bool sparse = std::ranges::any_of(
        metadata.kinds, [&](const auto& kinds) { return kinds[i] == Kind::kSparse; });
    if (!sparse) by_dtype[variables_[i].dtype()].push_back(i);
  }
  for (const auto& [dtype, variables] : by_dtype) {
    std::vector<int64_t> bytes;
    for (const size_t i : variables) {
      bytes.push_back(static_cast<int64_t>(variables_[i].on_replica(0).nbytes()));
    }
    for (const auto& pack : collective::packs_of(bytes, pack_bytes(bytes))) {
      std::vector<size_t> members;
      for (const size_t p : pack) {
        slots_[variables[p]] = BucketSlot{.bucket = buckets_.size(), .view = members.size()};
        members.push_back(variables[p]);
      }
      buckets_.push_back(make_bucket(dtype, std::move(members), metadata.by_callers));
    }
  }
}

GradientReducer::Bucket GradientReducer::make_bucket(at::ScalarType dtype,
                                                     std::vector<size_t> variables,
                                                     bool by_callers) const {
  collective::Communicator& communicator = *group_.communicator();
  const collective::Placement& placement = communicator.placement();
  const at::ScalarType wire = group_.options().reduction.dtype_on_wire(dtype);
  int64_t elements = 0;
  for (const size_t i : variables) elements += padded(variables_[i].numel(), wire);
  const bool floats = dtype == at::kFloat || dtype == at::kDouble;
  by_callers = by_callers && floats;
  int64_t part = 0;
  if (options_.shard && floats && !by_callers) {
    const int64_t ranks = placement.num_ranks();
    part = padded((elements + ranks - 1) / ranks, wire);
    elements = part * ranks;
  }
  // As much on every rank, although some have fewer replicas.
  const int64_t elements_a_rank = elements * max_local_replicas(placement);
  const auto values_at = [&](const at::Tensor& memory, int64_t local) {
    Values values{.flat = memory.narrow(0, elements * local, elements), .views = {}};
    int64_t offset = values.flat.storage_offset();
    for (const size_t i : variables) {
      const at::Tensor& like = variables_[i].on_replica(0);
      values.views.push_back(values.flat.as_strided(like.sizes(), like.strides(), offset));
      offset += padded(like.numel(), wire);
    }
    return values;
  };
  std::vector<Memory> buffers;
  for (int turn = 0; turn < (by_callers ? 2 : 1); ++turn) {
    Memory memory;
    if (by_callers) {
      const std::vector<at::Tensor> of_rank = communicator.buffers(elements_a_rank, dtype);
      memory.all.resize(placement.rank_of_replica.size());
      for (int rank = 0; rank < communicator.num_ranks(); ++rank) {
        int64_t local = 0;
        for (const int id : placement.replicas_of(rank)) {
          memory.all[static_cast<size_t>(id)] =
              values_at(of_rank[static_cast<size_t>(rank)], local++);
        }
      }
      for (const int id : communicator.replicas()) {
        memory.local.push_back(memory.all[static_cast<size_t>(id)]);
      }
    } else {
      const at::Tensor own = communicator.buffer(elements_a_rank, wire);
      for (int local = 0; local < group_.num_local_replicas(); ++local) {
        memory.local.push_back(values_at(own, local));
      }
      if (wire != dtype) memory.sum = values_at(at::empty({elements}, dtype), 0);
    }
    buffers.push_back(std::move(memory));
  }
  return {.variables = std::move(variables), .buffers = std::move(buffers), .part = part};
}

GradientSum GradientReducer::reduce_separately(size_t variable, const StepMetadata& metadata,
                                               const std::vector<Part>& parts) const {
  const Variable& like = variables_[variable];
  const std::string what = str_cat("gradient of '", like.name(), "'");
  bool dense = false;
  bool used = false;
  for (const auto& kinds : metadata.kinds) {
    used = used || kinds[variable] != Kind::kNone;
    dense = dense || kinds[variable] == Kind::kDense;
  }
  if (!used) return {};
  if (dense) {
    std::vector<at::Tensor> values;
    for (const Part& part : parts) {
      const at::Tensor& gradient = (*part.gradients)[variable];
      values.push_back(gradient.defined() && gradient.is_sparse() ? gradient.to_dense() : gradient);
    }
    at::Tensor sum = at::zeros_like(like.on_replica(0).detach()).cpu();
    group_.communicator()->all_reduce(values, sum, ReduceOp::kSum, {.name = what});
    return {.used = true, .dense = {sum}};
  }
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> values;
  for (const Part& part : parts) {
    const at::Tensor& gradient = (*part.gradients)[variable];
    indices.push_back(gradient.defined() ? gradient._indices() : at::Tensor());
    values.push_back(gradient.defined() ? gradient._values() : at::Tensor());
  }
  indices = detail::gather_over_group(group_, indices, what);
  values = detail::gather_over_group(group_, values, what);
  GradientSum sum{.used = true};
  for (size_t r = 0; r < indices.size(); ++r) {
    sum.sparse.push_back(
        indices[r].defined()
            ? at::sparse_coo_tensor(indices[r].to(values[r].device()), values[r], like.sizes())
            : at::Tensor());
  }
  return sum;
}

OnGradient marks_ready(const std::unique_ptr<GradientReducer>& reducer, int local) {
  if (!reducer) return {};
  return [&reducer, local](size_t variable, const at::Tensor& gradient) {
    if (!graph::tracing()) return reducer->mark_ready(local, variable, gradient);
    graph::call_host(
        "strata::mark_ready", {gradient}, {},
        [&reducer, local, variable](const std::vector<at::Tensor>& given) {
          reducer->mark_ready(local, variable, given[0]);
          return std::vector<at::Tensor>();
        },
        {}, graph::HostInputs::kOfThisRun);
  };
}

}  // namespace strata::optimizers
