#include "optim/step/backward.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "graph/host_call.h"
#include "graph/places.h"
#include "graph/trace_key.h"

namespace strata::optimizers {
namespace {

namespace autograd = torch::autograd;
using autograd::Edge;
using autograd::Node;
using autograd::variable_list;

/// A node that is to be run, or a leaf.
struct Task {
  Node* node = nullptr;
  int missing = 0;  // edges whose gradient has not come
  bool leaf = false;
  variable_list inputs = {};
};

bool has_hooks(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         node.tensor_post_acc_grad_hooks() != nullptr;
}

/// The calling thread's stream of the loss's GPU; none: all is on the CPU.
using GpuStream = std::optional<c10::Stream>;

GpuStream stream_of(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// What the engine would do on another thread or stream, for its order.
bool may_run_here(const Node& node, const GpuStream& gpu) {
  for (uint32_t i = 0; i < node.num_inputs(); ++i) {
    const auto& metadata = node.input_metadata(i);
    if (metadata.was_default_constructed()) return false;
    if (!metadata.device().is_cpu() && metadata.stream() != gpu) return false;
  }
  return true;
}

/// libtorch's formulas and strata's. A program's own nodes may ask the engine for things.
bool is_known(const Node& node) {
  const std::string_view name = typeid(node).name();  // as the ABI mangles namespaces
  return name.starts_with("N5torch8autograd9generated") || name.starts_with("N6strata") ||
         name.starts_with("N5torch8autograd7CppNodeIN6strata6detail");
}

bool is_leaf(const Node& node) { return typeid(node) == typeid(autograd::AccumulateGrad); }

class Graph {
 public:
  /// Finds all nodes behind `root`; false if the engine has to run them.
  bool find(Node* root, const std::vector<Node*>& leaves, const GpuStream& gpu) {
    add(root);
    for (size_t next = 0; next < tasks_.size(); ++next) {
      Node& node = *tasks_[next].node;
      if (has_hooks(node) || !may_run_here(node, gpu)) return false;
      if (is_leaf(node)) {
        if (std::find(leaves.begin(), leaves.end(), &node) == leaves.end()) return false;
        tasks_[next].leaf = true;
        continue;
      }
      if (!is_known(node)) return false;
      for (const Edge& edge : node.next_edges()) {
        if (edge.is_valid()) ++tasks_[add(edge.function.get())].missing;
      }
    }
    return true;
  }

  Task* task_of(Node* node) {
    const auto found = index_.find(node);
    return found == index_.end() ? nullptr : &tasks_[found->second];
  }

  /// In the engine's order: of the nodes that are ready the latest first.
  /// @param on_leaf  Called for each leaf whose gradient is complete.
  template <typename OnLeaf>
  void run(Task& root, const OnLeaf& on_leaf) {
    std::vector<Task*> ready = {&root};
    const auto earlier = [](const Task* a, const Task* b) {
      return a->node->sequence_nr() < b->node->sequence_nr();
    };
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), earlier);
      Task& task = *ready.back();
      ready.pop_back();
      Node& node = *task.node;
      const graph::BackwardGuard recorded(node.sequence_nr());
      node.will_release_variables();
      variable_list outputs = node(std::move(task.inputs));
      autograd::validate_outputs(node.next_edges(), outputs, [&](const std::string& message) {
        return "Function " + node.name() + " returned an " + message;
      });
      node.release_variables();
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        const Edge& edge = node.next_edge(i);
        if (!edge.is_valid()) continue;
        Task& next = *task_of(edge.function.get());
        accumulate(next.inputs[edge.input_nr], std::move(outputs[i]));
        if (--next.missing > 0) continue;
        if (next.leaf) {
          on_leaf(next);
          continue;
        }
        ready.push_back(&next);
        std::push_heap(ready.begin(), ready.end(), earlier);
      }
    }
  }

 private:
  size_t add(Node* node) {
    const auto [found, fresh] = index_.try_emplace(node, tasks_.size());
    if (fresh) tasks_.push_back({.node = node, .inputs = variable_list(node->num_inputs())});
    return found->second;
  }

  struct Rows {
    at::Tensor indices;
    at::Tensor values;
  };
  static Rows rows_of(const at::Tensor& sparse) {
    const graph::NoTraceGuard no_trace(/*replica_kernels=*/false);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {sparse._indices(), sparse._values()};
  }

  /// A graph knows dense tensors alone. The order of the additions is that of sparse ones.
  static at::Tensor sum_in_trace(const at::Tensor& sum, const at::Tensor& value) {
    if (sum.is_sparse() && value.is_sparse()) {
      const Rows a = rows_of(value), b = rows_of(sum);
      return at::_sparse_coo_tensor_unsafe(at::cat({a.indices, b.indices}, 1),
                                           at::cat({a.values, b.values}), sum.sizes());
    }
    const Rows rows = rows_of(sum.is_sparse() ? sum : value);
    const at::Tensor& dense = sum.is_sparse() ? value : sum;
    return dense.index_add(0, rows.indices.select(0, 0), rows.values);
  }

  static bool may_change(const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() &&
           tensor.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1;
  }

  static void accumulate(at::Tensor& sum, at::Tensor value) {
    if (!value.defined()) return;
    if (!sum.defined()) {
      sum = std::move(value);
    } else if (graph::tracing() && (sum.is_sparse() || value.is_sparse())) {
      sum = sum_in_trace(sum, value);
    } else if (!sum.is_sparse() && may_change(sum)) {
      sum.add_(value);
    } else {
      sum = sum.is_sparse() ? value + sum : sum + value;  // dense + sparse is defined
    }
  }

  std::vector<Task> tasks_;
  std::unordered_map<Node*, size_t> index_;
};

}  // namespace

std::optional<std::vector<at::Tensor>> backward_here(const at::Tensor& loss,
                                                     const std::vector<at::Tensor>& inputs,
                                                     const OnGradient& on_gradient) {
  if (autograd::AnomalyMode::is_enabled() || !loss.grad_fn()) return std::nullopt;
  std::vector<Edge> leaves;  // hold the nodes
  std::vector<Node*> leaf_nodes;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(autograd::impl::gradient_edge(input));
    leaf_nodes.push_back(leaves.back().function.get());
  }
  const Edge root = autograd::impl::gradient_edge(loss);
  Graph graph;
  if (!graph.find(root.function.get(), leaf_nodes, stream_of(loss.device()))) return std::nullopt;

  const c10::AutoGradMode no_graph(false);
  const c10::AutoFwGradMode no_forward_gradients(false);
  Task& first = *graph.task_of(root.function.get());
  first.inputs[root.input_nr] = at::ones_like(loss);
  graph.run(first, [&](const Task& leaf) {
    if (!on_gradient || !leaf.inputs[0].defined()) return;
    const auto found = std::find(leaf_nodes.begin(), leaf_nodes.end(), leaf.node);
    on_gradient(static_cast<size_t>(found - leaf_nodes.begin()), leaf.inputs[0]);
  });

  std::vector<at::Tensor> gradients;
  for (Node* node : leaf_nodes) {
    Task* const task = graph.task_of(node);
    gradients.push_back(task != nullptr ? std::move(task->inputs[0]) : at::Tensor());
  }
  return gradients;
}

}  // namespace strata::optimizers
