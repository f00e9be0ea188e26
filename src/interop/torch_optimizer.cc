#include "strata/interop/torch_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collective/in_process/in_process.h"
#include "graph/host_call.h"
#include "interop/torch_optimizer_state.h"
#include "optim/step/card_reducer.h"
#include "optim/step/gradient_reducer.h"
#include "optim/step/gradients.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/runtime/replica_context.h"

namespace strata::interop::detail {
namespace {

constexpr std::string_view kName = "torch_optimizer";

/// One replica's part of a step.
struct Contribution {
  std::vector<at::Tensor> gradients;  // by variable, undefined: none
  double factor = 1;                  // of these gradients
  double weight = 0;                  // in the sum that divides everything; all 0: nothing divides
};

std::vector<const std::vector<at::Tensor>*> gradients_of(
    const std::vector<const Contribution*>& parts) {
  std::vector<const std::vector<at::Tensor>*> gradients;
  for (const Contribution* each : parts) gradients.push_back(&each->gradients);
  return gradients;
}

/// Replicas divide the variables by bytes: the largest first, to the replica with the least so far.
std::vector<size_t> share_out(const std::vector<Variable>& variables, size_t replicas) {
  std::vector<size_t> order(variables.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto bytes = [&](size_t i) {
    return variables[i].numel() * static_cast<int64_t>(c10::elementSize(variables[i].dtype()));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> load(replicas, 0);
  std::vector<size_t> owners(variables.size());
  for (const size_t i : order) {
    owners[i] = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[owners[i]] += bytes(i);
  }
  return owners;
}

/// Lets the replicas' tensors be one storage, replica 0's.
void share_storage(const Variable& variable) {
  const at::Tensor& first = variable.on_replica(0);
  std::vector<at::Tensor> homes;
  for (int r = 0; r < variable.group().num_local_replicas(); ++r)
    homes.push_back(first.variable_data());
  variable.state()->bind_storage(homes, /*shared=*/true,
                                 std::make_shared<at::Tensor>(first.variable_data()));
}

}  // namespace

class TorchOptimizerCore::Impl {
 public:
  Impl(const std::vector<TorchParamGroup>& groups, const Make& make);

  void minimize(const at::Tensor& loss, const optimizers::MinimizeOptions& options);
  void step(const TorchStepOptions& options);
  void zero_grad();
  Optimizer& owner_of(const Variable& variable) const;
  std::shared_ptr<Trackable> tracked() const;

  std::vector<Variable> variables_;
  std::unique_ptr<Optimizer> front_;

 private:
  void apply(const ReplicaContext& context, Contribution& local_part);
  void apply_now(const ReplicaContext& context, Contribution& local_part);
  void prepare(const std::vector<void*>& all);
  void take_sums(const std::vector<const Contribution*>& local_parts);
  void update(size_t replica, const std::vector<at::Tensor>& gradients);
  std::vector<at::Tensor> reduce_share(size_t replica) const;
  bool is_summed_on_cards(size_t variable) const { return cards_ && cards_->has(variable); }
  uint64_t key() const { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this)); }

  void make_exchange();
  void share_out_anew();

  /// Hears of a group's other replicas.
  struct Observer final : RunObserver {
    explicit Observer(Impl& impl) : impl(impl) {}
    void on_run_begin(int local) override {
      if (impl.cards_) impl.cards_->begin(local);
    }
    void on_run_end(int) override {}
    void on_resize() override { impl.share_out_anew(); }
    void reconnected() override { impl.make_exchange(); }
    Impl& impl;
  };

  const std::vector<TorchParamGroup> groups_;
  const Make make_;
  std::shared_ptr<Observer> observer_;
  std::unique_ptr<optimizers::GradientReducer> reducer_;  // null: all replicas are here
  std::unique_ptr<optimizers::CardReducer> cards_;        // null: gradients are not summed on GPUs
  std::vector<size_t> owners_;                            // by variable
  std::vector<std::unique_ptr<Optimizer>> instances_;     // by replica

  // Of the present step; written by the last replica to arrive.
  std::vector<std::vector<at::Tensor>>
      sources_;             // by variable: what to add, or the one sum a replica
  std::vector<bool> used_;  // by variable
  bool added_ = false;      // sources_ are sums
  double divisor_ = 1;
};

TorchOptimizerCore::Impl::Impl(const std::vector<TorchParamGroup>& groups, const Make& make)
    : groups_(groups), make_(make), observer_(std::make_shared<Observer>(*this)) {
  for (const TorchParamGroup& group : groups_) {
    variables_.insert(variables_.end(), group.variables.begin(), group.variables.end());
  }
  optimizers::check_variables(kName, variables_);
  ReplicaGroup& replicas = variables_[0].group();
  const VariablePlacement& placement = replicas.placement();
  const std::optional<at::Device> home = placement.gradient_device(replicas);
  STRATA_CHECK(!home, kUnimplemented, "[", kName, "] build: '", variables_[0].name(),
               "' has its only copy on ", home->str(),
               ", away from the replicas' devices; libtorch's optimizers update where gradients "
               "are: use one of strata's, or leave parameter_device out");
  if (placement.may_share_storage(replicas) && replicas.num_replicas() > 1) {
    for (const Variable& variable : variables_) {
      if (!variable.state()->has_bound_storage()) share_storage(variable);
    }
  }
  share_out_anew();
  replicas.observe(observer_);
}

void TorchOptimizerCore::Impl::make_exchange() {
  reducer_.reset();
  cards_.reset();
  const ReplicaGroup& group = variables_[0].group();
  if (group.options().cards) {
    cards_ = std::make_unique<optimizers::CardReducer>(std::string(kName), variables_);
  }
  if (group.communicator() == nullptr) return;
  reducer_ = std::make_unique<optimizers::GradientReducer>(
      std::string(kName), variables_, optimizers::ReducerOptions{.on_cards = cards_ != nullptr});
}

/// The instances begin without state: a group that gets other replicas continues from a checkpoint.
void TorchOptimizerCore::Impl::share_out_anew() {
  ReplicaGroup& replicas = variables_[0].group();
  const auto count = static_cast<size_t>(replicas.num_local_replicas());
  make_exchange();
  owners_ = share_out(variables_, count);
  // The tensors of every group that `replica` updates; for the front all of replica 0's.
  const auto tensors = [&](size_t replica, bool all) {
    std::vector<torch::optim::OptimizerParamGroup> result;
    size_t i = 0;
    for (const TorchParamGroup& group : groups_) {
      std::vector<at::Tensor> local_values;
      for (const Variable& variable : group.variables) {
        if (all || owners_[i] == replica)
          local_values.push_back(variable.on_replica(static_cast<int>(replica)));
        ++i;
      }
      if (group.options) {
        result.emplace_back(std::move(local_values), group.options->clone());
      } else {
        result.emplace_back(std::move(local_values));
      }
    }
    return result;
  };
  if (!front_) front_ = make_(tensors(0, true));
  instances_.clear();
  for (size_t r = 0; r < count; ++r) instances_.push_back(make_(tensors(r, false)));
}

void TorchOptimizerCore::Impl::minimize(const at::Tensor& loss,
                                        const optimizers::MinimizeOptions& options) {
  const ReplicaContext& context = optimizers::replica_of(kName, "minimize", variables_);
  optimizers::check_weight(kName, options.weight);
  Contribution local_part;
  const int local = context.local_replica();
  local_part.gradients = optimizers::backward_to(
      kName, loss, variables_, local,
      cards_ ? optimizers::marks_ready(cards_, local) : optimizers::marks_ready(reducer_, local));
  local_part.weight = options.weight;
  apply(context, local_part);
}

void TorchOptimizerCore::Impl::step(const TorchStepOptions& options) {
  const ReplicaContext& context = optimizers::replica_of(kName, "step", variables_);
  optimizers::check_weight(kName, options.weight);
  const int id = context.local_replica();
  Contribution local_part;
  local_part.factor = options.weight;
  local_part.weight = options.weight;
  for (const Variable& variable : variables_) {
    variable.state()->check_version(id);
    local_part.gradients.push_back(options.weight > 0 ? variable.on_replica(id).grad()
                                                      : at::Tensor());
  }
  apply(context, local_part);
}

/// What counts, and meets the other replicas: one node of a step that is traced.
void TorchOptimizerCore::Impl::apply(const ReplicaContext& context, Contribution& local_part) {
  if (!graph::tracing()) return apply_now(context, local_part);
  graph::call_host("strata::torch_optimizer", local_part.gradients, {},
                   [this, &context, factor = local_part.factor,
                    weight = local_part.weight](const std::vector<at::Tensor>& gradients) {
                     Contribution again;
                     again.gradients = gradients;
                     again.factor = factor;
                     again.weight = weight;
                     apply_now(context, again);
                     return std::vector<at::Tensor>();
                   },
                   {local_part.factor, local_part.weight});
}

void TorchOptimizerCore::Impl::apply_now(const ReplicaContext& context, Contribution& local_part) {
  const at::NoGradGuard no_grad;
  const int id = context.local_replica();
  if (local_part.factor != 1) {
    for (at::Tensor& gradient : local_part.gradients) {
      if (gradient.defined()) gradient = gradient * local_part.factor;
    }
  }
  if (cards_) {
    cards_->add(id, local_part.gradients);
  } else if (reducer_) {
    reducer_->add(id, local_part.gradients);
  }
  context.synchronize(
      "torch_optimizer step", &local_part, [&](const std::vector<void*>& all) { prepare(all); },
      key());
  if (cards_) cards_->wait(id);
  update(static_cast<size_t>(id), reduce_share(static_cast<size_t>(id)));
  // Storage that is not shared: copied to those who did not update it.
  context.synchronize(
      "torch_optimizer step (end)", nullptr,
      [&](const std::vector<void*>&) {
        for (size_t i = 0; i < variables_.size(); ++i) {
          if (used_[i]) variables_[i].state()->bump_version();
        }
        sources_.clear();
      },
      key());
  for (size_t i = 0; i < variables_.size(); ++i) {
    const Variable& variable = variables_[i];
    const auto owner = static_cast<int>(owners_[i]);
    if (!used_[i] || owner == id || variable.state()->shares_storage()) continue;
    variable.on_replica(id).copy_(variable.on_replica(owner));
    variable.state()->record_version(id);
  }
}

void TorchOptimizerCore::Impl::prepare(const std::vector<void*>& all) {
  double weight = 0;
  std::vector<const Contribution*> parts;
  for (void* each : all) {
    parts.push_back(static_cast<const Contribution*>(each));
    weight += parts.back()->weight;
  }
  divisor_ = weight > 0 ? weight : 1;
  sources_.assign(variables_.size(), {});
  used_.assign(variables_.size(), false);
  added_ = false;
  std::vector<bool> sparse(variables_.size(), false);
  for (size_t i = 0; i < variables_.size(); ++i) {
    bool dense = false;
    for (const Contribution* part : parts) {
      const at::Tensor& gradient = part->gradients[i];
      sources_[i].push_back(gradient);
      if (!gradient.defined()) continue;
      used_[i] = true;
      if (gradient.is_sparse()) {
        sparse[i] = true;
      } else {
        dense = true;
      }
    }
    if (!sparse[i] || !dense) continue;
    for (at::Tensor& source : sources_[i]) {
      if (source.defined() && source.is_sparse()) source = source.to_dense();
    }
    sparse[i] = false;
  }
  for (size_t g = 0; g < front_->param_groups().size(); ++g) {
    for (const auto& instance : instances_) {
      instance->param_groups()[g].set_options(front_->param_groups()[g].options().clone());
    }
  }

  if (reducer_) return take_sums(parts);
  if (cards_) cards_->finish(gradients_of(parts));
  ReplicaGroup& group = variables_[0].group();
  if (parts.size() == 1 || (group.all_cpu() && !group.cross_device_ops())) return;
  std::vector<size_t> indices;
  std::vector<Variable> variables;
  std::vector<std::vector<at::Tensor>> gradients;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!used_[i] || is_summed_on_cards(i)) continue;
    if (sparse[i]) {  // one sum, on the first device; the owner moves it
      sources_[i] = std::vector<at::Tensor>(
          parts.size(), collective::reduce_in_order(sources_[i], ReduceOp::kSum));
      continue;
    }
    indices.push_back(i);
    variables.push_back(variables_[i]);
    gradients.push_back(std::move(sources_[i]));
  }
  const auto sums = optimizers::reduce_by_ops(group, variables, std::move(gradients));
  for (size_t k = 0; k < indices.size(); ++k) sources_[indices[k]] = sums[k].values();
  added_ = true;
}

/// Over all processes.
void TorchOptimizerCore::Impl::take_sums(const std::vector<const Contribution*>& local_parts) {
  std::vector<optimizers::GradientReducer::Part> parts;
  for (const Contribution* each : local_parts) parts.push_back({&each->gradients, each->weight});
  optimizers::GradientReducer::Result result = reducer_->reduce(parts);
  if (cards_) cards_->finish(gradients_of(local_parts), result.is_here);
  divisor_ = result.weight > 0 ? result.weight : 1;
  for (size_t i = 0; i < variables_.size(); ++i) {
    optimizers::GradientSum& sum = result.sums[i];
    used_[i] = sum.used;
    sources_[i] = sum.sparse.empty() ? std::vector<at::Tensor>{sum.dense} : std::move(sum.sparse);
  }
}

/// The added gradients of the variables that `replica` updates; undefined for the others.
std::vector<at::Tensor> TorchOptimizerCore::Impl::reduce_share(size_t replica) const {
  std::vector<at::Tensor> gradients(variables_.size());
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!used_[i] || owners_[i] != replica) continue;
    const std::vector<at::Tensor>& sources = sources_[i];
    const at::Tensor& parameter = variables_[i].on_replica(static_cast<int>(replica));
    at::Tensor sum = is_summed_on_cards(i) ? cards_->sum(i, static_cast<int>(replica))
                     : added_              ? sources[replica]
                     : sources.size() == 1 ? sources[0]
                                           : collective::reduce_in_order(sources, ReduceOp::kSum);
    if (divisor_ != 1) sum = sum / divisor_;
    gradients[i] = sum.to(parameter.device(), parameter.scalar_type());
  }
  return gradients;
}

void TorchOptimizerCore::Impl::update(size_t replica, const std::vector<at::Tensor>& gradients) {
  // Lends the sums to the parameters as .grad, and gives them back their own afterwards.
  std::vector<at::Tensor> own(variables_.size());
  const auto exchange = [&](size_t i, const at::Tensor& gradient) {
    const at::Tensor& parameter = variables_[i].on_replica(static_cast<int>(replica));
    return std::exchange(parameter.mutable_grad(), gradient);
  };
  const auto give_back = [&] {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (owners_[i] == replica) exchange(i, own[i]);
    }
  };
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (owners_[i] == replica) own[i] = exchange(i, gradients[i]);
  }
  try {
    instances_[replica]->step();
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

void TorchOptimizerCore::Impl::zero_grad() {
  const ReplicaContext* context = get_replica_context();
  for (const Variable& variable : variables_) {
    const bool inside = context && &context->group() == &variable.group();
    for (int r = 0; r < variable.group().num_local_replicas(); ++r) {
      if (!inside || r == context->local_replica()) variable.on_replica(r).mutable_grad().reset();
    }
  }
}

TorchOptimizerCore::Optimizer& TorchOptimizerCore::Impl::owner_of(const Variable& variable) const {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].is_same(variable)) return *instances_[owners_[i]];
  }
  strata::detail::throw_error(ErrorCode::kNotFound,
                              str_cat("[", kName, "] optimizer_of: '", variable.name(),
                                      "' is not a variable of this optimizer"));
}

std::shared_ptr<Trackable> TorchOptimizerCore::Impl::tracked() const {
  std::vector<OwnedVariable> owned;
  for (size_t i = 0; i < variables_.size(); ++i) {
    owned.push_back({.variable = variables_[i],
                     .owner = static_cast<int>(owners_[i]),
                     .optimizer = instances_[owners_[i]].get()});
  }
  return track_torch_optimizer(std::move(owned), *front_);
}

TorchOptimizerCore::TorchOptimizerCore(const std::vector<TorchParamGroup>& groups, const Make& make)
    : impl_(std::make_unique<Impl>(groups, make)) {}
TorchOptimizerCore::TorchOptimizerCore(TorchOptimizerCore&&) noexcept = default;
TorchOptimizerCore& TorchOptimizerCore::operator=(TorchOptimizerCore&&) noexcept = default;
TorchOptimizerCore::~TorchOptimizerCore() = default;

void TorchOptimizerCore::minimize(const at::Tensor& loss,
                                  const optimizers::MinimizeOptions& options) {
  impl_->minimize(loss, options);
}
void TorchOptimizerCore::step(const TorchStepOptions& options) { impl_->step(options); }
void TorchOptimizerCore::zero_grad() { impl_->zero_grad(); }
TorchOptimizerCore::Optimizer& TorchOptimizerCore::front() const { return *impl_->front_; }
const std::vector<Variable>& TorchOptimizerCore::variables() const { return impl_->variables_; }
TorchOptimizerCore::Optimizer& TorchOptimizerCore::owner_of(const Variable& variable) const {
  return impl_->owner_of(variable);
}
std::shared_ptr<Trackable> TorchOptimizerCore::tracked() const { return impl_->tracked(); }

}  // namespace strata::interop::detail
