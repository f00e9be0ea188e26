#include "optim/step/card_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <utility>

#include "optim/step/gradient_sums.h"
#include "strata/core/error.h"

namespace strata::optimizers {

using tensor::StreamEvent;
using tensor::StreamWait;

CardReducer::CardReducer(std::string name, std::vector<Part> parts,
                         std::shared_ptr<collective::CardCommunicator> communicator,
                         const Options& options)
    : name_(std::move(name)),
      parts_(std::move(parts)),
      communicator_(std::move(communicator)),
      options_(options),
      summed_(communicator_->devices().size()),
      finished_(communicator_->devices().size(), 1) {
  size_t variables = 0;
  for (const Part& part : parts_) {
    for (const size_t variable : part.variables) variables = std::max(variables, variable + 1);
  }
  home_.resize(variables);
  const size_t replicas = communicator_->devices().size();
  views_.assign(replicas, std::vector<at::Tensor>(variables));
  given_.assign(replicas, std::vector<bool>(variables, false));
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (size_t e = 0; e < parts_[p].variables.size(); ++e) {
      const size_t variable = parts_[p].variables[e];
      for (size_t local = 0; local < replicas; ++local) {
        views_[local][variable] = parts_[p].gradients[local].view(static_cast<int64_t>(e));
      }
    }
  }
  for (size_t local = 0; local < replicas; ++local) {
    wait_for_communication(static_cast<int>(local));
  }
}

void CardReducer::make_buckets(const std::vector<bool>& is_elsewhere) {
  made_ = true;
  for (size_t p = 0; p < parts_.size(); ++p) add_buckets(p, is_elsewhere);
  // Of all dtypes: backward makes the last variables' gradients first.
  std::ranges::stable_sort(buckets_, std::greater(),
                           [](const Bucket& bucket) { return bucket.variables.front(); });
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

/// Cuts a part from its end on, leaving out what is summed elsewhere.
void CardReducer::add_buckets(size_t p, const std::vector<bool>& is_elsewhere) {
  const Part& part = parts_[p];
  const tensor::Arena& arena = part.gradients[0];
  const auto width = static_cast<int64_t>(c10::elementSize(arena.dtype()));
  std::vector<size_t> run;  // the last first
  int64_t end = arena.numel();
  const auto close = [&](int64_t begin) {
    if (!run.empty()) buckets_.push_back({p, begin, end, std::exchange(run, {})});
    end = begin;
  };
  for (auto e = static_cast<int64_t>(part.variables.size()) - 1; e >= 0; --e) {
    const size_t variable = part.variables[static_cast<size_t>(e)];
    if (is_elsewhere[variable]) {
      close(e + 1 < arena.num_tensors() ? arena.offset(e + 1) : arena.numel());
      end = arena.offset(e);
      continue;
    }
    run.push_back(variable);
    const int64_t limit = buckets_.empty() ? options_.bytes_of_first : options_.bytes_per_bucket;
    if ((end - arena.offset(e)) * width >= limit) close(arena.offset(e));
  }
  close(0);
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
  if (!made_) return;
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
    at::Tensor view = sum(buckets_[b].variables[i], local);
    at::Tensor& gradient = share.gradients[i];
    if (!gradient.defined()) {
      view.fill_(kSumIdentity);
      continue;
    }
    targets.push_back(std::move(view));
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
    values.push_back(parts_[bucket.part].gradients[local].flat().narrow(0, bucket.begin,
                                                                        bucket.end - bucket.begin));
  }
  const std::string name =
      str_cat("gradients of ", name_, ", bucket ", b + 1, " of ", buckets_.size());
  if (options_.scatter) {
    communicator_->reduce_scatter(values, ReduceOp::kSum, name);
  } else {
    communicator_->all_reduce(values, ReduceOp::kSum, name);
  }
  for (size_t local = 0; local < summed_.size(); ++local) {
    summed_[local].record(communicator_->streams()[local]);
  }
}

void CardReducer::finish(const std::vector<const std::vector<at::Tensor>*>& gradients,
                         const std::vector<bool>& is_elsewhere) {
  if (!made_) {
    make_buckets(is_elsewhere);
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

}  // namespace strata::optimizers
