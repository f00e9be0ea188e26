#include "optim/gradient_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/group_exchange.h"
#include "strata/collective/communication_options.h"
#include "strata/core/error.h"

namespace strata::optimizers {
namespace {

/// Tensors in a bucket start at multiples of a cache line.
constexpr int64_t kLine = 64;

/// x + -0 is x, for x = -0, too.
constexpr double kNeutral = -0.0;

int max_local_replicas(const collective::Placement& placement) {
  size_t most = 0;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    most = std::max(most, placement.replicas_of(rank).size());
  }
  return static_cast<int>(most);
}

}  // namespace

GradientExchange::GradientExchange(std::string name, std::vector<Variable> variables)
    : name_(std::move(name)), variables_(std::move(variables)), group_(variables_[0].group()) {
  early_.assign(static_cast<size_t>(group_.num_local_replicas()),
                std::vector<bool>(variables_.size(), false));
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::put_early(int local, size_t variable, const at::Tensor& gradient) {
  if (!sender_.joinable() || !homes_[variable]) return;
  early_[static_cast<size_t>(local)][variable] = true;
  put_one(local, variable, gradient);
}

void GradientExchange::put(int local, const std::vector<at::Tensor>& gradients) {
  if (homes_.empty()) return;  // the first step's are put once all know who has what
  std::vector<bool>& early = early_[static_cast<size_t>(local)];
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (homes_[i] && !early[i]) put_one(local, i, gradients[i]);
    early[i] = false;
  }
}

void GradientExchange::put_one(int local, size_t variable, const at::Tensor& gradient) {
  const Home& home = *homes_[variable];
  at::Tensor place = view(buckets_[home.bucket].values[static_cast<size_t>(local)], variable);
  if (!gradient.defined()) {
    place.fill_(kNeutral);
  } else if (gradient.is_cpu() && !gradient.is_sparse() && gradient.strides() == place.strides() &&
             gradient.scalar_type() == place.scalar_type()) {
    if (gradient.numel() > 0) {
      std::memcpy(place.mutable_data_ptr(), gradient.const_data_ptr(), gradient.nbytes());
    }
  } else {
    place.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  if (!sender_.joinable()) return;
  const std::lock_guard lock(mutex_);
  if (--missing_[home.bucket] == 0) changed_.notify_all();
}

at::Tensor GradientExchange::view(const at::Tensor& flat, size_t variable) const {
  const at::Tensor& like = variables_[variable].on_replica(0);
  return flat.as_strided(like.sizes(), like.strides(),
                         flat.storage_offset() + homes_[variable]->offset);
}

GradientExchange::Result GradientExchange::exchange(const std::vector<Part>& parts) {
  const Agreed agreed = agree(parts);
  const bool first = homes_.empty();
  if (first) {
    make_buckets(agreed);
    for (size_t local = 0; local < parts.size(); ++local) {
      put(static_cast<int>(local), *parts[local].gradients);
    }
  }
  if (sender_.joinable()) {
    wait_until_sent();
  } else {
    for (size_t b = 0; b < buckets_.size(); ++b) reduce(b, {});
  }
  if (first && group_.options().overlap) {
    for (const Bucket& bucket : buckets_) {
      missing_.push_back(static_cast<int>(bucket.variables.size() * parts.size()));
    }
    sender_ = Thread("gradients", [this](const std::stop_token& stop) { send_in_order(stop); });
  }
  Result result{.sums = {}, .weight = agreed.weight};
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!homes_[i]) {
      result.sums.push_back(exchange_alone(i, agreed, parts));
      continue;
    }
    const bool used = std::ranges::any_of(
        agreed.kinds, [&](const auto& kinds) { return kinds[i] != Kind::kNone; });
    result.sums.push_back({.used = used, .dense = view(buckets_[homes_[i]->bucket].values[0], i)});
  }
  return result;
}

void GradientExchange::reduce(size_t bucket, std::stop_token stop) {
  std::vector<at::Tensor>& values = buckets_[bucket].values;
  group_.communicator()->all_reduce(values, values[0], ReduceOp::kSum,
                                    {.id = static_cast<uint32_t>(bucket + 1),
                                     .name = str_cat("gradients of ", name_),
                                     .stop = std::move(stop)});
}

void GradientExchange::send_in_order(const std::stop_token& stop) {
  while (true) {
    size_t bucket = 0;
    {
      std::unique_lock lock(mutex_);  // ends with the next gradients, or this object
      const bool ready = changed_.wait(
          lock, stop, [&] { return sent_ < buckets_.size() && missing_[sent_] == 0; });
      if (!ready) return;
      bucket = sent_;
    }
    std::exception_ptr error;
    try {
      reduce(bucket, stop);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ++sent_;
    error_ = error;
    changed_.notify_all();
    if (error) return;
  }
}

void GradientExchange::wait_until_sent() {
  std::unique_lock lock(mutex_);  // ends with the sums' own deadline
  changed_.wait(lock, [&] { return sent_ == buckets_.size() || error_; });
  if (error_) std::rethrow_exception(error_);
  sent_ = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    missing_[b] = static_cast<int>(buckets_[b].variables.size() * buckets_[b].values.size());
  }
}

/// One message of fixed size: of each replica its weight, and a byte a variable.
GradientExchange::Agreed GradientExchange::agree(const std::vector<Part>& parts) const {
  collective::Communicator& communicator = *group_.communicator();
  const size_t variables = variables_.size();
  const size_t size = sizeof(double) + variables;
  const int64_t bytes = static_cast<int64_t>(size) * max_local_replicas(communicator.placement());
  const at::TensorOptions options(at::kByte);
  at::Tensor mine = at::empty({bytes}, options);
  auto* to = mine.mutable_data_ptr<uint8_t>();
  std::fill(to, to + bytes, uint8_t{0});
  for (const Part& part : parts) {
    std::memcpy(to, &part.weight, sizeof(double));
    for (size_t i = 0; i < variables; ++i) {
      const at::Tensor& gradient = (*part.gradients)[i];
      const Kind kind = !gradient.defined()    ? Kind::kNone
                        : gradient.is_sparse() ? Kind::kSparse
                                               : Kind::kDense;
      to[sizeof(double) + i] = static_cast<uint8_t>(kind);
    }
    to += size;
  }
  at::Tensor all = at::empty({bytes * communicator.num_ranks()}, options);
  communicator.all_gather(mine, all, {.name = str_cat("step of ", name_)});

  Agreed agreed;
  std::vector<double> weights(static_cast<size_t>(group_.num_replicas()));
  agreed.kinds.resize(weights.size());
  for (int rank = 0; rank < communicator.num_ranks(); ++rank) {
    const auto* from = all.const_data_ptr<uint8_t>() + bytes * rank;
    for (const int id : communicator.placement().replicas_of(rank)) {
      std::memcpy(&weights[static_cast<size_t>(id)], from, sizeof(double));
      auto& kinds = agreed.kinds[static_cast<size_t>(id)];
      for (size_t i = 0; i < variables; ++i) {
        kinds.push_back(static_cast<Kind>(from[sizeof(double) + i]));
      }
      from += size;
    }
  }
  for (const double weight : weights) agreed.weight += weight;
  return agreed;
}

int64_t GradientExchange::pack_bytes(const std::vector<int64_t>& sizes) const {
  const ReplicaGroupOptions& options = group_.options();
  if (options.bytes_per_pack > 0 || !options.overlap) return options.bytes_per_pack;
  // Backward hides all packs but the last, so that should be small; each costs some latencies.
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  return std::clamp(total / 16, int64_t{256} << 10, int64_t{25} << 20);
}

void GradientExchange::make_buckets(const Agreed& agreed) {
  homes_.resize(variables_.size());
  std::map<at::ScalarType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const bool sparse = std::ranges::any_of(
        agreed.kinds, [&](const auto& kinds) { return kinds[i] == Kind::kSparse; });
    if (!sparse) by_dtype[variables_[i].dtype()].push_back(i);
  }
  collective::Communicator& communicator = *group_.communicator();
  for (const auto& [dtype, variables] : by_dtype) {
    std::vector<int64_t> bytes;
    for (const size_t i : variables) {
      bytes.push_back(static_cast<int64_t>(variables_[i].on_replica(0).nbytes()));
    }
    for (const auto& pack : collective::packs_of(bytes, pack_bytes(bytes))) {
      Bucket bucket{.dtype = dtype, .variables = {}, .elements = 0, .values = {}};
      const int64_t line = kLine / static_cast<int64_t>(c10::elementSize(dtype));
      for (const size_t p : pack) {
        bucket.variables.push_back(variables[p]);
        homes_[variables[p]] = Home{buckets_.size(), bucket.elements};
        bucket.elements += (variables_[variables[p]].numel() + line - 1) / line * line;
      }
      // As much on every rank, although some have fewer replicas.
      const at::Tensor memory = communicator.buffer(
          bucket.elements * max_local_replicas(communicator.placement()), dtype);
      for (int local = 0; local < group_.num_local_replicas(); ++local) {
        bucket.values.push_back(memory.narrow(0, bucket.elements * local, bucket.elements));
      }
      buckets_.push_back(std::move(bucket));
    }
  }
}

GradientSum GradientExchange::exchange_alone(size_t variable, const Agreed& agreed,
                                             const std::vector<Part>& parts) const {
  const Variable& like = variables_[variable];
  const std::string what = str_cat("gradient of '", like.name(), "'");
  bool dense = false;
  bool used = false;
  for (const auto& kinds : agreed.kinds) {
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
    return {.used = true, .dense = sum};
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

}  // namespace strata::optimizers
