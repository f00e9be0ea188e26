#include "strata/interop/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <vector>

#include "optim/step/gradient_reducer.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "strategies/worker_group.h"

namespace strata::detail {
namespace {

namespace autograd = torch::autograd;

constexpr auto kName = "distributed_data_parallel";

/// Calls back when `.grad` of a parameter is complete.
class WhenAccumulated final : public autograd::PostAccumulateGradHook {
 public:
  explicit WhenAccumulated(std::function<void(const at::Tensor&)> call) : call_(std::move(call)) {}
  void operator()(const autograd::Variable& parameter) override { call_(parameter); }

 private:
  std::function<void(const at::Tensor&)> call_;
};

}  // namespace

class DataParallelCore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<torch::nn::Module> module, const DistributedDataParallelOptions& options)
      : module_(std::move(module)), broadcast_buffers_(options.broadcast_buffers) {
    const std::optional<cluster::Cluster> cluster = find_workers(options.cluster_resolver);
    if (!cluster) return;
    workers_ =
        std::make_unique<WorkerGroup>(*cluster, options.server, options.communication_options,
                                      std::vector<std::string>{"cpu:0"}, SharedSettings{});
    ReplicaGroupOptions group{.name = kName, .devices = workers_->devices()};
    group.reduction = {.bytes_per_pack = options.communication_options.bytes_per_pack,
                       .overlap = options.communication_options.overlap.value_or(true)};
    group.timeout = options.communication_options.timeout;
    group.communicator = workers_->communicator();
    group.use_cpu_kernels = false;
    group_ = std::make_shared<ReplicaGroup>(std::move(group));
    take_parameters();
    take_buffers();
  }

  ~Impl() {
    for (const Variable& variable : variables_) {
      autograd::impl::set_post_acc_grad_hooks(variable.on_replica(0), nullptr);
    }
    reducer_.reset();
    if (workers_) workers_->leave();
  }

  /// Hooks refer to this object, so it must have its owner.
  void listen() {
    for (size_t i = 0; i < variables_.size(); ++i) {
      autograd::impl::set_post_acc_grad_hooks(
          variables_[i].on_replica(0),
          std::make_unique<WhenAccumulated>(
              [weak = weak_from_this(), i](const at::Tensor& parameter) {
                if (const auto self = weak.lock()) self->accumulated(i, parameter);
              }));
    }
  }

  void join() {
    if (!group_) return;
    while (step(/*here=*/false) > 0) {
    }
  }

  const std::shared_ptr<ReplicaGroup>& group() const { return group_; }
  bool sync_ = true;

 private:
  void take_parameters() {
    for (const auto& item : module_->named_parameters()) {
      const at::Tensor& parameter = item.value();
      if (!parameter.defined()) continue;
      {
        const at::NoGradGuard no_grad;
        parameter.detach().copy_(first_of_group(*group_, parameter.detach(),
                                                str_cat("initial value of '", item.key(), "'")));
      }
      if (!parameter.requires_grad()) continue;
      variables_.emplace_back(std::make_shared<VariableState>(
          group_, VariableOptions{.name = item.key()}, std::vector<at::Tensor>{parameter}));
    }
    STRATA_CHECK(!variables_.empty(), kInvalidArgument, "[", kName,
                 "] got a module without parameters that require gradients");
    reducer_ = std::make_unique<optimizers::GradientReducer>(kName, variables_);
  }

  void take_buffers() {
    for (const at::Tensor& buffer : module_->buffers()) {
      if (buffer.defined() && buffer.numel() > 0) buffers_.push_back(buffer);
    }
    send_buffers();
  }

  void send_buffers() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& buffer : buffers_) buffer.copy_(first_of_group(*group_, buffer, "buffer"));
  }

  /// In the middle of backward.
  void accumulated(size_t index, const at::Tensor& parameter) {
    if (!sync_) return;
    if (!in_backward_) {
      in_backward_ = true;
      autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->end_backward();
      });
    }
    if (!parameter.grad().is_sparse()) reducer_->mark_ready(0, index, parameter.grad());
  }

  void end_backward() {
    in_backward_ = false;
    step(/*here=*/true);
  }

  /// @return how many processes have a gradient.
  double step(bool here) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const Variable& variable : variables_) {
      gradients.push_back(here ? variable.on_replica(0).grad() : at::Tensor());
    }
    reducer_->add(0, gradients);
    const optimizers::GradientReducer::Result result =
        reducer_->reduce({{.gradients = &gradients, .weight = here ? 1.0 : 0.0}});
    for (size_t i = 0; i < variables_.size() && here; ++i) take(i, result.sums[i], result.weight);
    if (broadcast_buffers_ && result.weight > 0) send_buffers();
    return result.weight;
  }

  void take(size_t index, const optimizers::GradientSum& sum, double count) {
    if (!sum.used) return;
    const at::Tensor& parameter = variables_[index].on_replica(0);
    at::Tensor& gradient = parameter.mutable_grad();
    if (!sum.sparse.empty()) {
      at::Tensor all;
      for (const at::Tensor& each : sum.sparse) {
        if (each.defined()) all = all.defined() ? all + each : each;
      }
      gradient = (all / count).to(parameter.device());
      return;
    }
    if (!gradient.defined() || gradient.is_sparse()) {
      gradient = at::zeros(parameter.sizes(), parameter.options());
    }
    gradient.copy_(sum.dense[0]).div_(count);
  }

  std::shared_ptr<torch::nn::Module> module_;
  const bool broadcast_buffers_;
  std::unique_ptr<WorkerGroup> workers_;  // null: one process
  std::shared_ptr<ReplicaGroup> group_;
  std::vector<Variable> variables_;
  std::vector<at::Tensor> buffers_;
  std::unique_ptr<optimizers::GradientReducer> reducer_;
  bool in_backward_ = false;
};

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   const DistributedDataParallelOptions& options)
    : impl_(std::make_shared<Impl>(std::move(module), options)) {
  impl_->listen();
}

DataParallelCore::~DataParallelCore() = default;

int DataParallelCore::rank() const {
  return impl_->group() ? impl_->group()->communicator()->rank() : 0;
}
int DataParallelCore::world_size() const {
  return impl_->group() ? impl_->group()->communicator()->num_ranks() : 1;
}
void DataParallelCore::set_sync(bool sync) { impl_->sync_ = sync; }
bool DataParallelCore::sync() const { return impl_->sync_; }
void DataParallelCore::join() { impl_->join(); }

}  // namespace strata::detail
