#include "collective/cards/card_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "collective/algorithms/tree_op.h"
#include "collective/planner/algorithm_options.h"
#include "strata/core/error.h"
#include "tensor/stream_event.h"
#include "tensor/tree_sum.h"

namespace strata::collective {
namespace {

Placement one_rank_a_replica(const std::vector<int>& hosts) {
  Placement placement;
  for (size_t replica = 0; replica < hosts.size(); ++replica) {
    placement.rank_of_replica.push_back(static_cast<int>(replica));
  }
  placement.host_of_rank = hosts;
  return placement;
}

bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

at::ScalarType partial_dtype(at::ScalarType dtype) { return is_half(dtype) ? at::kFloat : dtype; }

/// target = a op b
void join(tensor::TreeOp op, at::Tensor& target, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case tensor::TreeOp::kSum:
      at::add_out(target, a, b);
      return;
    case tensor::TreeOp::kMin:
      at::minimum_out(target, a, b);
      return;
    case tensor::TreeOp::kMax:
      at::maximum_out(target, a, b);
      return;
  }
}

/// target = the tree over `sources`, undefined where absent, all of target's dtype.
void reduce_into(tensor::TreeOp op, at::Tensor target, const std::vector<at::Tensor>& sources) {
  const c10::ArrayRef<at::Tensor> all(sources);
  if (all.size() > 1) {
    const auto left =
        static_cast<size_t>(tensor::tree_left_count(static_cast<int64_t>(all.size())));
    const at::Tensor a = tensor::reduce_in_tree_order(op, all.slice(0, left));
    const at::Tensor b = tensor::reduce_in_tree_order(op, all.slice(left));
    if (a.defined() && b.defined()) return join(op, target, a, b);
  }
  const at::Tensor only = tensor::reduce_in_tree_order(op, all);
  if (!only.defined()) {
    target.zero_();
  } else if (!only.is_alias_of(target) || only.const_data_ptr() != target.const_data_ptr()) {
    target.copy_(only);
  }
}

/// One rank's side of a call: what its slots are on its card.
class CardRun {
 public:
  CardRun(const Schedule& schedule, const ScratchLayout& layout, int rank, const at::Tensor& value,
          ReduceOp op)
      : schedule_(schedule),
        layout_(layout),
        kinds_(schedule.slots[static_cast<size_t>(rank)]),
        value_(value),
        op_(op),
        scratch_(layout.runs().size()) {}

  /// The chunks of a step in one of its slots.
  at::Tensor memory(const Step& step, int slot) {
    const Range range = range_of(step);
    const Schedule::Slot kind = kinds_[static_cast<size_t>(slot)];
    if (kind == Schedule::Slot::kResult || kind == Schedule::Slot::kValue) {
      return value_.narrow(0, range.begin, range.size());
    }
    const auto run = static_cast<size_t>(layout_.run_of(slot, step.chunk));
    const Range room = room_of(layout_.runs()[run]);
    if (!scratch_[run].defined()) {
      const at::ScalarType dtype = value_.scalar_type();
      scratch_[run] = at::empty(
          {room.size()},
          value_.options().dtype(layout_.runs()[run].partial ? partial_dtype(dtype) : dtype));
    }
    return scratch_[run].narrow(0, range.begin - room.begin, range.size());
  }
  bool is_empty(const Step& step) const { return range_of(step).size() == 0; }

  void run(const Step& step) {
    if (is_empty(step)) return;
    at::Tensor target = memory(step, step.target);
    if (step.kind == Step::Kind::kCopy) {
      target.copy_(memory(step, source(step.first)));
      return;
    }
    std::vector<at::Tensor> sources;
    for (int i = step.first; i < step.last; ++i) {
      const int slot = source(i);
      sources.push_back(slot == Schedule::kAbsent ? at::Tensor() : memory(step, slot));
    }
    reduce(sources, std::move(target), kinds_[static_cast<size_t>(step.target)]);
  }

 private:
  int source(int index) const { return schedule_.sources[static_cast<size_t>(index)]; }

  Range range_of(const Step& step) const {
    return schedule_.range(value_.numel(), step.chunk, step.chunks);
  }
  Range room_of(const ScratchLayout::Run& run) const {
    return schedule_.range(value_.numel(), run.first_chunk, run.last_chunk - run.first_chunk);
  }

  void reduce(std::vector<at::Tensor>& sources, at::Tensor target, Schedule::Slot kind) const {
    const at::ScalarType dtype = partial_dtype(value_.scalar_type());
    for (at::Tensor& each : sources) {
      if (each.defined()) each = each.to(dtype);
    }
    const bool finish = kind == Schedule::Slot::kResult;
    const bool rounds = target.scalar_type() != dtype;
    at::Tensor sum = rounds ? at::empty_like(target, target.options().dtype(dtype)) : target;
    reduce_into(tree_op(op_), sum, sources);
    if (finish && op_ == ReduceOp::kMean) sum.div_(static_cast<double>(schedule_.num_ranks()));
    if (rounds) target.copy_(sum);
  }

  const Schedule& schedule_;
  const ScratchLayout& layout_;
  const std::vector<Schedule::Slot>& kinds_;
  at::Tensor value_;
  const ReduceOp op_;
  std::vector<at::Tensor> scratch_;  // by run of the layout
};

}  // namespace

CardCommunicator::CardCommunicator(Options options)
    : options_(std::move(options)),
      planner_(one_rank_a_replica(options_.hosts), LinkModel::typical_cards(),
               algorithm_options(options_.communication)) {
  STRATA_DCHECK(options_.devices.size() == options_.replicas.size());
  for (const c10::Device& device : options_.devices) {
    streams_.push_back(tensor::side_stream(device, options_.work));
    // A guard that is given a card's stream twice leaves it behind.
    if (std::ranges::find(distinct_streams_, streams_.back()) == distinct_streams_.end()) {
      distinct_streams_.push_back(streams_.back());
    }
  }
}

const CardCommunicator::Plan& CardCommunicator::plan_for(const Wanted& wanted) {
  const Choice choice = planner_.choose(wanted);
  const auto [place, is_new] = plans_.try_emplace(choice.schedule.get());
  Plan& plan = place->second;
  if (is_new) {
    plan.schedule = choice.schedule;
    for (const int rank : options_.replicas) {
      plan.rounds.push_back(card_rounds(*plan.schedule, rank));
      plan.layouts.emplace_back(*plan.schedule, rank);
    }
  }
  return plan;
}

void CardCommunicator::all_reduce(const std::vector<at::Tensor>& values, ReduceOp op,
                                  const std::string& name) {
  if (num_replicas() == 1 || values[0].numel() == 0) return;
  const at::NoGradGuard no_grad;
  const c10::MultiStreamGuard guard(distinct_streams_);
  if (options_.communication.order == Order::kAny &&
      options_.transport->all_reduce(values, op, name)) {
    return;
  }
  run(Collective::kAllReduce, values, op, name);
}

void CardCommunicator::check_parts(const std::vector<at::Tensor>& values,
                                   const std::string& name) const {
  STRATA_CHECK(values[0].numel() % num_replicas() == 0, kInternal, "[collective] ", name, ": ",
               values[0].numel(), " elements cannot be cut into ", num_replicas(), " equal parts");
}

void CardCommunicator::reduce_scatter(const std::vector<at::Tensor>& values, ReduceOp op,
                                      const std::string& name) {
  check_parts(values, name);
  if (num_replicas() == 1 || values[0].numel() == 0) return;
  const at::NoGradGuard no_grad;
  const c10::MultiStreamGuard guard(distinct_streams_);
  if (options_.communication.order == Order::kAny &&
      options_.transport->reduce_scatter(values, parts_of(values), op, name)) {
    return;
  }
  run(Collective::kReduceScatter, values, op, name);
}

std::vector<at::Tensor> CardCommunicator::parts_of(const std::vector<at::Tensor>& values) const {
  std::vector<at::Tensor> parts;
  for (size_t local = 0; local < values.size(); ++local) {
    const int64_t size = values[local].numel() / num_replicas();
    parts.push_back(values[local].narrow(0, size * options_.replicas[local], size));
  }
  return parts;
}

void CardCommunicator::all_gather_parts(const std::vector<at::Tensor>& values,
                                        const std::string& name) {
  check_parts(values, name);
  if (num_replicas() == 1 || values[0].numel() == 0) return;
  const at::NoGradGuard no_grad;
  const c10::MultiStreamGuard guard(distinct_streams_);
  // Nothing is added, so that all ways have the same bits.
  if (options_.transport->all_gather(parts_of(values), values, name)) return;
  run(Collective::kAllGather, values, ReduceOp::kSum, name);
}

void CardCommunicator::run(Collective collective, const std::vector<at::Tensor>& values,
                           ReduceOp op, const std::string& name) {
  const at::ScalarType dtype = values[0].scalar_type();
  const Plan& plan =
      plan_for({.collective = collective,
                .elements = values[0].numel(),
                .element_bytes = static_cast<int64_t>(c10::elementSize(dtype)),
                .partial_bytes = static_cast<int64_t>(c10::elementSize(partial_dtype(dtype)))});
  std::vector<CardRun> runs;
  for (size_t local = 0; local < values.size(); ++local) {
    runs.emplace_back(*plan.schedule, plan.layouts[local], options_.replicas[local], values[local],
                      op);
  }
  std::vector<CardMessage> messages;
  for (size_t round = 0; round < plan.rounds[0].size(); ++round) {
    messages.clear();
    for (size_t local = 0; local < runs.size(); ++local) {
      CardRun& run = runs[local];
      const CardRound& part = plan.rounds[local][round];
      const int rank = options_.replicas[local];
      for (const Step& step : part.sums) run.run(step);
      for (const Step& step : part.sends) {
        if (run.is_empty(step)) continue;
        messages.push_back({rank, step.peer, /*is_send=*/true, run.memory(step, step.target)});
      }
      for (const Step& step : part.receives) {
        if (run.is_empty(step)) continue;
        messages.push_back({step.peer, rank, /*is_send=*/false, run.memory(step, step.target)});
      }
    }
    if (!messages.empty()) options_.transport->exchange(messages, name);
  }
}

void CardCommunicator::all_gather(const std::vector<at::Tensor>& values,
                                  const std::vector<at::Tensor>& results, const std::string& name) {
  const int64_t size = values[0].numel();
  if (size == 0) return;
  const at::NoGradGuard no_grad;
  const c10::MultiStreamGuard guard(distinct_streams_);
  if (num_replicas() > 1 && options_.transport->all_gather(values, results, name)) return;
  std::vector<CardMessage> messages;
  for (size_t local = 0; local < values.size(); ++local) {
    const int rank = options_.replicas[local];
    const auto place_of = [&](int replica) {
      return results[local].view({-1}).narrow(0, replica * size, size);
    };
    place_of(rank).copy_(values[local]);
    for (int other = 0; other < num_replicas(); ++other) {
      if (other == rank) continue;
      messages.push_back({rank, other, /*is_send=*/true, values[local]});
      messages.push_back({other, rank, /*is_send=*/false, place_of(other)});
    }
  }
  if (!messages.empty()) options_.transport->exchange(messages, name);
}

CardCommunicator& CardCommunicator::for_values() {
  {
    const MutexLock lock(mutex_);
    if (values_) return *values_;
  }
  std::shared_ptr<CardCommunicator> made;
  try {
    Options options = options_;
    options.transport = options_.transport->another();
    options.work = tensor::SideWork::kValues;
    made = std::make_shared<CardCommunicator>(std::move(options));
  } catch (...) {
    fail(Status::from_current_exception());
    throw;
  }
  const MutexLock lock(mutex_);
  values_ = std::move(made);
  return *values_;
}

void CardCommunicator::fail(const Status& reason) {
  options_.transport->fail(reason);
  const MutexLock lock(mutex_);
  if (values_) values_->fail(reason);
}

Status CardCommunicator::status() {
  Status status = options_.transport->status();
  const MutexLock lock(mutex_);
  return status.ok() && values_ ? values_->status() : status;
}

std::string CardCommunicator::describe() const {
  return str_cat(num_replicas(), " replicas on cards: ", options_.transport->describe(),
                 options_.communication.order == Order::kAny ? ", sums in any order"
                                                             : ", sums in the fixed order");
}

}  // namespace strata::collective
