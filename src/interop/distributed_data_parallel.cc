#include "strata/interop/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "interop/card_broadcast.h"
#include "optim/step/card_reducer.h"
#include "optim/step/gradient_reducer.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "strata/runtime/devices.h"
#include "strategies/worker_group.h"
#include "tensor/stream_event.h"

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

/// Where all parameters are: a GPU by its name, else a CPU, from which gradients go over the hosts.
std::string device_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> parameters = module.parameters();
  const auto is_here = [](c10::Device device) {
    return [device](const at::Tensor& each) { return !each.defined() || each.device() == device; };
  };
  if (parameters.empty()) return "cpu:0";
  for (const LogicalDevice& gpu : list_logical_devices("GPU")) {
    if (std::ranges::all_of(parameters, is_here(gpu.physical))) return str_cat("gpu:", gpu.index);
  }
  return "cpu:0";
}

}  // namespace

class DataParallelCore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<torch::nn::Module> module, const DistributedDataParallelOptions& options)
      : module_(std::move(module)), broadcast_buffers_(options.broadcast_buffers) {
    const std::optional<cluster::Cluster> cluster = find_workers(options.cluster_resolver);
    if (!cluster) return;
    workers_ = std::make_unique<WorkerGroup>(
        *cluster, options.server, options.communication_options,
        std::vector<std::string>{device_of(*module_)}, SharedSettings{},
        GpuRules{.share = options.share_gpus, .mixed_kinds = true});
    ReplicaGroupOptions group{.name = kName, .devices = workers_->devices()};
    group.reduction = reduction_options(kName, options.communication_options);
    group.reduction.overlap = options.communication_options.overlap.value_or(true);
    group.timeout = options.communication_options.timeout;
    group.communicator = workers_->communicator();
    group.cards = workers_->cards();
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
    cards_.reset();
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
    if (group_->options().cards) {
      cards_ = std::make_unique<optimizers::CardReducer>(kName, variables_);
    }
    reducer_ = std::make_unique<optimizers::GradientReducer>(
        kName, variables_, optimizers::ReducerOptions{.on_cards = cards_ != nullptr});
  }

  void take_buffers() {
    for (const at::Tensor& buffer : module_->buffers()) {
      if (buffer.defined() && buffer.numel() > 0) buffers_.push_back(buffer);
    }
    send_buffers();
    const auto& cards = group_->options().cards;
    if (!cards) return;
    const auto on_card = std::ranges::stable_partition(
        buffers_, [&](const at::Tensor& each) { return !CardBroadcast::can_take(each, *cards); });
    const std::vector<at::Tensor> there(on_card.begin(), on_card.end());
    buffers_.erase(on_card.begin(), on_card.end());
    const bool is_root = group_->communicator()->rank() == 0;
    if (!there.empty()) card_buffers_ = std::make_unique<CardBroadcast>(there, cards, is_root);
  }

  void send_buffers() {
    const at::NoGradGuard no_grad;
    if (card_buffers_) card_buffers_->run("buffers of the chief");
    for (at::Tensor& buffer : buffers_) buffer.copy_(first_of_group(*group_, buffer, "buffer"));
  }

  /// In the middle of backward.
  void accumulated(size_t index, const at::Tensor& parameter) {
    if (!sync_) return;
    if (!in_backward_) {
      in_backward_ = true;
      begin_step();
      autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->end_backward();
      });
    }
    if (parameter.grad().is_sparse()) return;
    if (!cards_) {
      reducer_->mark_ready(0, index, parameter.grad());
    } else if (is_on_stream_of_step(parameter.device())) {
      cards_->mark_ready(0, index, parameter.grad());
    }
  }

  void begin_step() {
    stream_.reset();
    if (cards_) cards_->begin(0);
  }

  /// A bucket is filled on one stream. Gradients of another wait for the end of backward, behind which the
  /// engine orders all of them.
  bool is_on_stream_of_step(c10::Device device) {
    const c10::Stream stream = tensor::current_stream(device);
    if (!stream_) stream_ = stream;
    return stream == *stream_;
  }

  void end_backward() {
    in_backward_ = false;
    step(/*here=*/true);
  }

  /// @return how many processes have a gradient.
  double step(bool here) {
    const at::NoGradGuard no_grad;
    if (!here) begin_step();
    std::vector<at::Tensor> gradients;
    for (const Variable& variable : variables_) {
      gradients.push_back(here ? variable.on_replica(0).grad() : at::Tensor());
    }
    if (cards_) {
      cards_->add(0, gradients);
    } else {
      reducer_->add(0, gradients);
    }
    const optimizers::GradientReducer::Result result =
        reducer_->reduce({{.gradients = &gradients, .weight = here ? 1.0 : 0.0}});
    if (cards_) cards_->finish({&gradients}, result.is_here);
    if (here) take_means(result);
    if (broadcast_buffers_ && result.weight > 0) send_buffers();
    return result.weight;
  }

  /// Into `.grad`.
  void take_means(const optimizers::GradientReducer::Result& result) {
    std::vector<at::Tensor> means;  // of sums on cards: by two kernels for all
    std::vector<at::Tensor> sums;
    for (size_t i = 0; i < variables_.size(); ++i) {
      const optimizers::GradientSum& sum = result.sums[i];
      if (!sum.used) continue;
      const at::Tensor& parameter = variables_[i].on_replica(0);
      if (!sum.sparse.empty()) {
        take_rows(parameter, sum.sparse, result.weight);
        continue;
      }
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined() || gradient.is_sparse()) {
        gradient = at::zeros(parameter.sizes(), parameter.options());
      }
      if (cards_ && cards_->has(i)) {
        means.push_back(gradient);
        sums.push_back(cards_->sum(i, 0));
      } else {
        gradient.copy_(sum.dense[0]).div_(result.weight);
      }
    }
    if (means.empty()) return;
    at::_foreach_copy_(means, sums);
    at::_foreach_div_(means, result.weight);
  }

  static void take_rows(const at::Tensor& parameter, const std::vector<at::Tensor>& sparse,
                        double count) {
    at::Tensor all;
    for (const at::Tensor& each : sparse) {
      if (!each.defined()) continue;
      const at::Tensor rows = each.to(parameter.device());
      all = all.defined() ? all + rows : rows;
    }
    parameter.mutable_grad() = all / count;
  }

  std::shared_ptr<torch::nn::Module> module_;
  const bool broadcast_buffers_;
  std::unique_ptr<WorkerGroup> workers_;  // null: one process
  std::shared_ptr<ReplicaGroup> group_;
  std::vector<Variable> variables_;
  std::vector<at::Tensor> buffers_;              // that go over the hosts
  std::unique_ptr<CardBroadcast> card_buffers_;  // null: none
  std::unique_ptr<optimizers::GradientReducer> reducer_;
  std::unique_ptr<optimizers::CardReducer> cards_;  // null: gradients are not summed on GPUs
  bool in_backward_ = false;
  std::optional<c10::Stream> stream_;  // of this step's gradients on the card
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
