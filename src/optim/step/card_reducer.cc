#include "optim/step/card_reducer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <map>
#include <utility>

#include "graph/host_call.h"
#include "optim/step/flat_storage.h"
#include "optim/step/gradient_sums.h"
#include "runtime/group_exchange.h"
#include "strata/core/error.h"

namespace strata::optimizers {

using tensor::StreamEvent;
using tensor::StreamWait;

namespace {

constexpr int64_t kBytesPerBucket = 25 << 20;
/// Smaller, so that communication begins early. Source: torch.nn.parallel.DistributedDataParallel.
constexpr int64_t kBytesOfFirstBucket = 1 << 20;

/// Each once, the first time.
std::vector<int64_t> without_repetitions(const std::vector<size_t>& order, size_t count) {
  std::vector<bool> seen(count, false);
  std::vector<int64_t> result;
  for (const size_t each : order) {
    if (!seen[each]) result.push_back(static_cast<int64_t>(each));
    seen[each] = true;
  }
  return result;
}

}  // namespace

CardReducer::CardReducer(std::string name, std::vector<Variable> variables, LayOut lay_out)
    : name_(std::move(name)),
      variables_(std::move(variables)),
      group_(variables_[0].group()),
      lay_out_(std::move(lay_out)),
      communicator_(group_.options().cards),
      home_(variables_.size()),
      summed_(communicator_->devices().size()),
      finished_(communicator_->devices().size(), 1) {
  const size_t replicas = communicator_->devices().size();
  views_.assign(replicas, std::vector<at::Tensor>(variables_.size()));
  targets_ = views_;
  given_.assign(replicas, std::vector<bool>(variables_.size(), false));
  for (size_t local = 0; local < replicas; ++local) {
    wait_for_communication(static_cast<int>(local));
  }
}

std::vector<size_t> CardReducer::agree_on_order() const {
  std::vector<at::Tensor> seen(communicator_->devices().size());
  if (!order_.empty()) seen[0] = at::tensor(without_repetitions(order_, variables_.size()));
  seen = strata::detail::gather_over_group(group_, seen, str_cat("order of gradients of ", name_));
  const auto first =
      std::ranges::find_if(seen, [](const at::Tensor& each) { return each.defined(); });
  std::vector<size_t> order;
  std::vector<bool> is_listed(variables_.size(), false);
  for (int64_t i = 0; first != seen.end() && i < first->numel(); ++i) {
    const auto variable = (*first)[i].item<int64_t>();
    const auto count = static_cast<int64_t>(variables_.size());
    STRATA_CHECK(0 <= variable && variable < count && !is_listed[static_cast<size_t>(variable)],
                 kInvalidArgument, "[", name_, "] another process has a gradient of variable ",
                 variable, " of ", count, "; expected the same variables in all processes");
    order.push_back(static_cast<size_t>(variable));
    is_listed[order.back()] = true;
  }
  // Of the others nothing is known but that backward uses the last ones first, as a rule.
  for (size_t i = variables_.size(); i-- > 0;) {
    if (!is_listed[i]) order.push_back(i);
  }
  return order;
}

std::vector<CardReducer::Part> CardReducer::memory_in(const std::vector<size_t>& order) const {
  if (lay_out_) return lay_out_(order);
  std::map<at::ScalarType, std::vector<size_t>> by_dtype;
  for (const size_t i : order) by_dtype[variables_[i].dtype()].push_back(i);
  std::vector<Part> parts;
  for (auto& [dtype, variables] : by_dtype) parts.push_back(own_part(std::move(variables)));
  return parts;
}

CardReducer::Part CardReducer::own_part(std::vector<size_t> variables) const {
  std::vector<tensor::ArenaEntry> layouts;
  for (const size_t i : variables) {
    const bool has_gaps = !variables_[i].on_replica(0).is_non_overlapping_and_dense();
    layouts.push_back(has_gaps
                          ? tensor::ArenaEntry{.sizes = variables_[i].on_replica(0).sizes().vec()}
                          : layout_of(variables_[i]));
  }
  Part part{.variables = std::move(variables), .gradients = {}};
  for (const c10::Device& device : communicator_->devices()) {
    part.gradients.emplace_back(layouts, variables_[part.variables[0]].dtype(), device);
  }
  return part;
}

void CardReducer::make_buckets(const std::vector<bool>& is_elsewhere) {
  const std::vector<size_t> order = agree_on_order();
  parts_ = memory_in(order);
  made_ = true;
  std::vector<size_t> turn(order.size());  // by variable
  for (size_t i = 0; i < order.size(); ++i) turn[order[i]] = i;
  for (size_t p = 0; p < parts_.size(); ++p) add_buckets(p, is_elsewhere);
  // Of all dtypes: those first that are complete first.
  std::ranges::stable_sort(buckets_, std::less(), [&](const Bucket& bucket) {
    size_t last = 0;
    for (const size_t variable : bucket.variables) last = std::max(last, turn[variable]);
    return last;
  });
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (size_t place = 0; place < buckets_[b].variables.size(); ++place) {
      home_[buckets_[b].variables[place]] = {static_cast<int64_t>(b), place};
    }
  }
  shares_.resize(communicator_->devices().size());
  for (size_t local = 0; local < shares_.size(); ++local) {
    shares_[local] = std::vector<Share>(buckets_.size());
    reset(static_cast<int>(local));
  }
}

/// Cuts a part from its beginning on, leaving out what is summed elsewhere.
void CardReducer::add_buckets(size_t p, const std::vector<bool>& is_elsewhere) {
  const Part& part = parts_[p];
  const tensor::Arena& arena = part.gradients[0];
  const at::ScalarType wire_dtype = group_.options().reduction.dtype_on_wire(arena.dtype());
  const bool is_compressed = wire_dtype != arena.dtype();
  wire_.emplace_back(part.gradients.size());
  for (size_t local = 0; local < part.gradients.size(); ++local) {
    if (is_compressed) wire_[p][local] = at::zeros_like(part.gradients[local].flat(), wire_dtype);
    for (size_t e = 0; e < part.variables.size(); ++e) {
      const at::Tensor view = part.gradients[local].view(static_cast<int64_t>(e));
      views_[local][part.variables[e]] = view;
      targets_[local][part.variables[e]] =
          is_compressed ? wire_[p][local].as_strided(view.sizes(), view.strides(),
                                                     arena.offset(static_cast<int64_t>(e)))
                        : view;
    }
  }
  const auto width = static_cast<int64_t>(c10::elementSize(arena.dtype()));
  const int64_t bytes = group_.options().reduction.bytes_per_pack;
  std::vector<size_t> run;
  int64_t begin = 0;
  const auto close = [&](int64_t end) {
    if (!run.empty()) buckets_.push_back({p, begin, end, std::exchange(run, {})});
    begin = end;
  };
  for (size_t e = 0; e < part.variables.size(); ++e) {
    const auto entry = static_cast<int64_t>(e);
    const int64_t end = e + 1 < part.variables.size() ? arena.offset(entry + 1) : arena.numel();
    if (is_elsewhere[part.variables[e]]) {
      close(arena.offset(entry));
      begin = end;
      continue;
    }
    run.push_back(part.variables[e]);
    const int64_t limit = bytes > 0          ? bytes
                          : buckets_.empty() ? kBytesOfFirstBucket
                                             : kBytesPerBucket;
    if ((end - begin) * width >= limit) close(end);
  }
  close(arena.numel());
}

void CardReducer::reset(int local) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Share& share = shares_[static_cast<size_t>(local)][b];
    share.missing = buckets_[b].variables.size();
    share.gradients.assign(share.missing, {});
    share.complete = false;
  }
  std::vector<bool>& given = given_[static_cast<size_t>(local)];
  given.assign(given.size(), false);
}

void CardReducer::begin(int local) {
  if (!made_) {
    if (local == 0) order_.clear();
    return;
  }
  if (!std::exchange(finished_[static_cast<size_t>(local)], 0)) wait_for_communication(local);
  const MutexLock lock(mutex_);
  reset(local);
  next_ = 0;  // no sum of this run can have begun without this replica
}

/// What a step that failed has left may still use the gradients' memory.
void CardReducer::wait_for_communication(int local) const {
  const auto index = static_cast<size_t>(local);
  StreamEvent end;
  end.record(communicator_->streams()[index]);
  end.block(StreamWait::kUpdateForSums, tensor::current_stream(communicator_->devices()[index]));
}

void CardReducer::mark_ready(int local, size_t variable, const at::Tensor& gradient) {
  if (!made_ && local == 0) order_.push_back(variable);
  if (has(variable)) take(local, variable, gradient);
}

void CardReducer::add(int local, const std::vector<at::Tensor>& gradients) {
  if (!made_) return;  // the first step's are taken once all know who has what
  const std::vector<bool>& given = given_[static_cast<size_t>(local)];
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (has(i) && !given[i]) take(local, i, gradients[i]);
  }
}

void CardReducer::take(int local, size_t variable, const at::Tensor& gradient) {
  const Home& home = home_[variable];
  const auto b = static_cast<size_t>(home.bucket);
  Share& share = shares_[static_cast<size_t>(local)][b];
  share.gradients[home.place] = gradient;
  given_[static_cast<size_t>(local)][variable] = true;
  if (--share.missing == 0) copy_to_bucket(local, b);
}

void CardReducer::copy_to_bucket(int local, size_t b) {
  const at::NoGradGuard no_grad;
  Share& share = shares_[static_cast<size_t>(local)][b];
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> sources;
  for (size_t i = 0; i < share.gradients.size(); ++i) {
    at::Tensor target = targets_[static_cast<size_t>(local)][buckets_[b].variables[i]];
    at::Tensor& gradient = share.gradients[i];
    if (!gradient.defined()) {
      target.fill_(kSumIdentity);
      continue;
    }
    targets.push_back(std::move(target));
    sources.push_back(gradient.is_sparse() ? gradient.to_dense() : std::move(gradient));
  }
  if (!targets.empty()) at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
  share.gradients.assign(share.gradients.size(), {});
  const c10::Device device = communicator_->devices()[static_cast<size_t>(local)];
  share.copied.record(tensor::current_stream(device));
  const MutexLock lock(mutex_);
  share.complete = true;
  sum_what_is_complete();
}

void CardReducer::sum_what_is_complete() {
  for (; next_ < buckets_.size(); ++next_) {
    const auto is_complete = [bucket = next_](const std::vector<Share>& of_replica) {
      return of_replica[bucket].complete;
    };
    if (!std::ranges::all_of(shares_, is_complete)) return;
    enqueue_sum(next_);
  }
}

void CardReducer::enqueue_sum(size_t b) {
  const Bucket& bucket = buckets_[b];
  std::vector<at::Tensor> values;
  for (size_t local = 0; local < shares_.size(); ++local) {
    shares_[local][b].copied.block(StreamWait::kSumForGradients, communicator_->streams()[local]);
    const at::Tensor& wire = wire_[bucket.part][local];
    const at::Tensor memory = wire.defined() ? wire : parts_[bucket.part].gradients[local].flat();
    values.push_back(memory.narrow(0, bucket.begin, bucket.end - bucket.begin));
  }
  const std::string name =
      str_cat("gradients of ", name_, ", bucket ", b + 1, " of ", buckets_.size());
  if (parts_[bucket.part].scatter) {
    communicator_->reduce_scatter(values, ReduceOp::kSum, name);
  } else {
    communicator_->all_reduce(values, ReduceOp::kSum, name);
  }
  if (wire_[bucket.part][0].defined()) widen(bucket, values);
  for (size_t local = 0; local < summed_.size(); ++local) {
    summed_[local].record(communicator_->streams()[local]);
  }
}

void CardReducer::widen(const Bucket& bucket, const std::vector<at::Tensor>& travelled) const {
  const at::NoGradGuard no_grad;
  const Part& part = parts_[bucket.part];
  for (size_t local = 0; local < travelled.size(); ++local) {
    const c10::StreamGuard guard(communicator_->streams()[local]);
    collective::Range range{.begin = 0, .end = bucket.end - bucket.begin};
    if (part.scatter) {  // the rest is no sum
      const CardShards shards{.buckets = {range}, .num_replicas = communicator_->num_replicas()};
      range = shards.part(0, group_.replica_id(static_cast<int>(local)));
    }
    part.gradients[local]
        .flat()
        .narrow(0, bucket.begin + range.begin, range.size())
        .copy_(travelled[local].narrow(0, range.begin, range.size()), /*non_blocking=*/true);
  }
}

/// Of which some replica of this process has a sparse gradient.
std::vector<bool> CardReducer::sparse_ones(
    const std::vector<const std::vector<at::Tensor>*>& gradients) const {
  std::vector<bool> is_sparse(variables_.size(), false);
  for (const std::vector<at::Tensor>* of_replica : gradients) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      const at::Tensor& gradient = (*of_replica)[i];
      if (gradient.defined() && gradient.is_sparse()) is_sparse[i] = true;
    }
  }
  return is_sparse;
}

void CardReducer::finish(const std::vector<const std::vector<at::Tensor>*>& gradients,
                         const std::vector<bool>& is_elsewhere) {
  if (!made_) {
    make_buckets(is_elsewhere.empty() ? sparse_ones(gradients) : is_elsewhere);
    for (size_t local = 0; local < gradients.size(); ++local) {
      add(static_cast<int>(local), *gradients[local]);
    }
  }
  const MutexLock lock(mutex_);
  STRATA_CHECK(next_ == buckets_.size(), kInternal, "[", name_, "] ", next_, " of ",
               buckets_.size(), " buckets are summed after all gradients have come");
  next_ = 0;
  communicator_->status().throw_if_error();
  for (size_t local = 0; local < shares_.size(); ++local) {
    reset(static_cast<int>(local));
    finished_[local] = 1;
    wait(static_cast<int>(local));
  }
}

CardShards CardReducer::shards_of(size_t part) const {
  CardShards shards{.num_replicas = communicator_->num_replicas()};
  for (const Bucket& bucket : buckets_) {
    if (bucket.part == part) shards.buckets.push_back({bucket.begin, bucket.end});
  }
  return shards;
}

void CardReducer::wait(int local) const {
  if (buckets_.empty()) return;
  const auto index = static_cast<size_t>(local);
  summed_[index].block(StreamWait::kUpdateForSums,
                       tensor::current_stream(communicator_->devices()[index]));
}

OnGradient marks_ready(const std::unique_ptr<CardReducer>& cards, int local) {
  return [&cards, local](size_t variable, const at::Tensor& gradient) {
    if (!graph::tracing()) return cards->mark_ready(local, variable, gradient);
    // At its place in a run, so that sums are enqueued beside the rest of backward there, too.
    graph::call_host(
        "strata::mark_ready", {gradient}, {},
        [&cards, local, variable](const std::vector<at::Tensor>& given) {
          if (cards) cards->mark_ready(local, variable, given[0]);
          return std::vector<at::Tensor>();
        },
        {}, graph::HostInputs::kOfThisRun);
  };
}

}  // namespace strata::optimizers
