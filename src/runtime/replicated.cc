#include "strata/runtime/replicated.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_set>

#include "runtime/context.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/log.h"

namespace strata::detail {
namespace {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

struct Named {
  std::string name;
  at::Tensor tensor;
};

/// Tensors of a module by name; one that is registered twice (tied weights) counts once.
std::vector<Named> once_each(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::unordered_set<const void*> seen;
  std::vector<Named> result;
  for (const auto& item : tensors) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second)
      continue;
    result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<Named> parameters_of(const torch::nn::Module& module) {
  return once_each(module.named_parameters());
}
std::vector<Named> buffers_of(const torch::nn::Module& module) {
  return once_each(module.named_buffers());
}

void check_alike(const std::vector<Named>& first, const std::vector<Named>& other) {
  bool alike = first.size() == other.size();
  for (size_t i = 0; alike && i < first.size(); ++i) {
    alike = first[i].name == other[i].name && first[i].tensor.sizes() == other[i].tensor.sizes();
  }
  STRATA_CHECK(
      alike, kInvalidArgument,
      "[replicate] the factory made modules with different parameters or buffers (", first.size(),
      " and ", other.size(),
      "); expected the same names and shapes at every call, because it is called once a replica");
}

std::vector<Variable> as_variables(ReplicaGroup& group,
                                   const std::vector<std::vector<Named>>& tensors, bool parameters,
                                   BufferPolicy policy) {
  const auto replicas = static_cast<size_t>(group.num_local_replicas());
  std::vector<Variable> variables;
  for (size_t i = 0; i < tensors[0].size(); ++i) {
    const at::Tensor first =
        initial_value(group, tensors[0][i].tensor.detach(), tensors[0][i].name);
    std::vector<at::Tensor> copies;
    for (size_t r = 0; r < replicas; ++r) {
      copies.push_back(tensors[r][i].tensor);
      copies[r].detach().copy_(first);
    }
    VariableOptions options{.name = tensors[0][i].name, .trainable = copies[0].requires_grad()};
    if (!parameters) {
      options.trainable = false;
      options.synchronization = VariableSynchronization::kOnRead;
      options.aggregation = copies[0].is_floating_point() && policy == BufferPolicy::kMeanOnRead
                                ? VariableAggregation::kMean
                                : VariableAggregation::kOnlyFirstReplica;
    }
    variables.emplace_back(
        std::make_shared<VariableState>(group.shared_from_this(), options, std::move(copies)));
  }
  return variables;
}

std::vector<torch::nn::Module*> parts_of(const torch::nn::Module& module) {
  std::vector<torch::nn::Module*> parts;
  for (const auto& part : module.modules(/*include_self=*/true)) parts.push_back(part.get());
  return parts;
}

/// Makes each part of a module train or evaluate as its twin does. A parent's mode sets its
/// children's, which come later in the list.
void copy_modes(const std::vector<torch::nn::Module*>& from,
                const std::vector<torch::nn::Module*>& to) {
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    if (to[i]->is_training() != from[i]->is_training()) to[i]->train(from[i]->is_training());
  }
}

}  // namespace

int ReplicatedModules::count(const ReplicaGroup& group) {
  require_cross_replica("replicate");
  const bool needs_outside = group.num_replicas() > 1 || !group.placement().has_copy_per_replica();
  return group.num_local_replicas() + (needs_outside ? 1 : 0);
}

std::shared_ptr<ReplicatedModules> ReplicatedModules::make(
    ReplicaGroup& group, Modules modules, std::function<std::shared_ptr<torch::nn::Module>()> more,
    const ReplicateOptions& options) {
  std::shared_ptr<ReplicatedModules> made(
      new ReplicatedModules(group, std::move(modules), std::move(more), options));
  group.observe(made);
  return made;
}

ReplicatedModules::ReplicatedModules(ReplicaGroup& group, Modules modules,
                                     std::function<std::shared_ptr<torch::nn::Module>()> more,
                                     const ReplicateOptions& options)
    : group_(group.shared_from_this()), modules_(std::move(modules)), more_(std::move(more)) {
  const at::NoGradGuard no_grad;
  const auto replicas = static_cast<size_t>(group.num_local_replicas());
  for (size_t r = 0; r < replicas; ++r) {
    index_of_replica_.push_back(r);
    const c10::Device device = group.device(static_cast<int>(r)).physical;
    if (!device.is_cpu()) modules_[r]->to(device);
  }
  std::vector<std::vector<Named>> parameters;
  std::vector<std::vector<Named>> buffers;
  for (const auto& module : modules_) {
    parameters.push_back(parameters_of(*module));
    buffers.push_back(buffers_of(*module));
    parts_.push_back(parts_of(*module));
    check_alike(parameters[0], parameters.back());
    check_alike(buffers[0], buffers.back());
  }
  parameters_ = as_variables(group, parameters, /*parameters=*/true, options.buffers);
  buffers_ = as_variables(group, buffers, /*parameters=*/false, options.buffers);
  if (modules_.size() == replicas) return;

  outside_ = std::make_unique<MasterModule>();
  outside_->index = modules_.size() - 1;
  outside_->parts = parts_.back();
  for (const Named& each : parameters.back()) outside_->parameters.push_back(each.tensor);
  for (const Named& each : buffers.back()) outside_->buffers.push_back(each.tensor);
  for (size_t r = 0; r < replicas; ++r) {
    seen_parameters_.emplace_back();
    seen_buffers_.emplace_back();
    for (const auto& each : outside_->parameters) seen_parameters_[r].push_back(state_of(each));
    for (const auto& each : outside_->buffers) seen_buffers_[r].push_back(state_of(each));
  }
  outside_->shown_step = ~group.step();  // nothing shown yet
  show_outside();
}

size_t ReplicatedModules::current() {
  const Context& context = current_context();
  if (context.replica && context.group == group_.get()) {
    return index_of_replica_[static_cast<size_t>(context.replica->local_replica())];
  }
  STRATA_CHECK(!context.replica || context.group == default_group().get(), kFailedPrecondition,
               "[replicated] the module belongs to ", group_->name(),
               " and was used by a replica of ", context.group->name(),
               "; Mixing different tf.distribute.Strategy objects is not possible");
  if (!outside_) return 0;
  show_outside();
  return outside_->index;
}

ReplicatedModules::TensorVersion ReplicatedModules::state_of(const at::Tensor& tensor) {
  return {.data = tensor.const_data_ptr(), .version = tensor._version()};
}

void ReplicatedModules::show_outside() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& first = parameters_[i].state()->central();
    at::Tensor& shown = outside_->parameters[i];
    if (shown.const_data_ptr() == first.const_data_ptr()) continue;
    // An optimizer has moved the replicas' storage, or the user (torch::load) the outside's.
    for (int r = 0; r < group_->num_local_replicas(); ++r) take_parameter(i, r);
    shown.set_data(first.variable_data());
    for (auto& seen : seen_parameters_) seen[i] = state_of(shown);
  }
  if (outside_->shown_step == group_->step()) return;
  outside_->shown_step = group_->step();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    outside_->buffers[i].copy_(buffers_[i].value());
    for (auto& seen : seen_buffers_) seen[i] = state_of(outside_->buffers[i]);
  }
}

void ReplicatedModules::take_parameter(size_t index, int replica) {
  const at::Tensor& shown = outside_->parameters[index];
  const TensorVersion now = state_of(shown);
  TensorVersion& seen = seen_parameters_[static_cast<size_t>(replica)][index];
  if (std::exchange(seen, now) == now) return;
  const VariableState& state = *parameters_[index].state();
  if (replica > 0 && state.shares_storage()) return;  // replica 0 takes it
  const auto take = [&](const at::Tensor& target) {
    if (target.const_data_ptr() != shown.const_data_ptr()) target.detach().copy_(shown.detach());
  };
  if (replica == 0 && state.has_mirrors()) take(state.central());
  take(state.replicas()[static_cast<size_t>(replica)]);
}

void ReplicatedModules::take_buffer(size_t index, int replica) {
  const TensorVersion state = state_of(outside_->buffers[index]);
  TensorVersion& seen = seen_buffers_[static_cast<size_t>(replica)][index];
  if (std::exchange(seen, state) == state) return;
  buffers_[index].on_replica(replica).copy_(outside_->buffers[index]);
}

void ReplicatedModules::on_resize() {
  const at::NoGradGuard no_grad;
  const auto replicas = static_cast<size_t>(group_->num_local_replicas());
  index_of_replica_.resize(std::min(index_of_replica_.size(), replicas));
  while (index_of_replica_.size() < replicas) {
    const auto local = static_cast<int>(index_of_replica_.size());
    const std::shared_ptr<torch::nn::Module> module = more_();
    const c10::Device device = group_->device(local).physical;
    if (!device.is_cpu()) module->to(device);
    const auto adopt = [&](const std::vector<Variable>& variables,
                           const std::vector<Named>& tensors) {
      for (size_t i = 0; i < variables.size(); ++i) {
        variables[i].state()->move_to(local, tensors[i].tensor);
      }
    };
    adopt(parameters_, parameters_of(*module));
    adopt(buffers_, buffers_of(*module));
    index_of_replica_.push_back(modules_.size());
    modules_.push_back(module);
    parts_.push_back(parts_of(*module));
  }
  if (!outside_) return;
  // As if every replica had just taken the outside's values: what it has is the first's, or comes
  // with a checkpoint.
  seen_parameters_.assign(replicas, {});
  seen_buffers_.assign(replicas, {});
  for (size_t r = 0; r < replicas; ++r) {
    for (const auto& each : outside_->parameters) seen_parameters_[r].push_back(state_of(each));
    for (const auto& each : outside_->buffers) seen_buffers_[r].push_back(state_of(each));
  }
}

void ReplicatedModules::sync_from_master() {
  if (!outside_) return;
  const at::NoGradGuard no_grad;
  for (int r = 0; r < group_->num_local_replicas(); ++r) {
    for (size_t i = 0; i < parameters_.size(); ++i) take_parameter(i, r);
    for (size_t i = 0; i < buffers_.size(); ++i) take_buffer(i, r);
  }
}

void ReplicatedModules::invalidate_master() {
  if (outside_) outside_->shown_step = ~group_->step();
}

// What the other replicas may share has its values before any of them runs.
void ReplicatedModules::before_run() {
  if (!outside_) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    take_parameter(i, 0);
    parameters_[i].state()->broadcast_external_write();
  }
}

void ReplicatedModules::on_run_begin(int replica) {
  if (outside_) {
    const at::NoGradGuard no_grad;
    copy_modes(outside_->parts, parts_[index_of_replica_[static_cast<size_t>(replica)]]);
    for (size_t i = 0; i < parameters_.size() && replica > 0; ++i) take_parameter(i, replica);
    for (size_t i = 0; i < buffers_.size(); ++i) take_buffer(i, replica);
  }
  for (const Variable& parameter : parameters_) parameter.state()->record_version(replica);
}

void ReplicatedModules::on_run_end(int replica) {
  for (const Variable& parameter : parameters_) parameter.state()->check_version(replica);
  if (replica == 0) look_for_untaken_gradients();
}

/// torch::optim over `net->parameters()` gets the module outside `run`, in which no gradient ever
/// arrives, and trains nothing.
void ReplicatedModules::look_for_untaken_gradients() {
  constexpr int kEnough = 3;
  if (!outside_ || parameters_.empty() || runs_untaken_ >= kEnough) return;
  const Variable& first = parameters_[0];
  const bool left = group_->placement().may_share_storage(*group_) &&
                    !first.state()->has_bound_storage() && first.on_replica(0).grad().defined();
  runs_untaken_ = left ? runs_untaken_ + 1 : 0;
  if (runs_untaken_ < kEnough) return;
  STRATA_LOG(kWarning) << "[replicate] " << kEnough << " runs have left gradients in '"
                       << first.name()
                       << "', and it belongs to no optimizer of strata: torch::optim over "
                          "net->parameters() sees none of them and trains nothing; use "
                          "interop::TorchOptimizer<torch::optim::Adam>(net.variables(), options), "
                          "or optimizers::Adam(net.variables())";
}

}  // namespace strata::detail
