// Runs of a loaded graph: its operators one after the other, for the number of examples that came.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <list>
#include <optional>
#include <utility>

#include "core/mutex.h"
#include "graph/operator_of.h"
#include "graph/untrusted/call_rules.h"
#include "strata/core/error.h"
#include "strata/graph/saved_graph.h"

namespace strata::graph {
namespace {

/// For more batch sizes than that, plans are made again.
constexpr size_t kPlans = 16;

size_t place_of(ValueId id) { return static_cast<size_t>(id); }

/// What operators do not check themselves, for values as the graph says they are: a run compares each
/// result with that, so that the next operators get what was looked at here.
void check_calls(const Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string fault = untrusted::fault_of_sizes(graph, n);
    STRATA_CHECK(fault.empty(), kInvalidArgument, "[graph] ", graph.name, ": node ", n, " (",
                 graph.nodes[n].name, ") got ", fault, " for this number of examples");
  }
}

/// The graph for one number of examples.
struct Plan {
  explicit Plan(Graph of) : graph(std::move(of)), dead(graph.nodes.size()) {
    check_calls(graph);
    std::vector<bool> used(graph.values.size(), false);
    for (const ValueId id : graph.outputs) {
      if (id != kNoValue) used[place_of(id)] = true;
    }
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      operators.insert(operators.begin(), operator_of(node));
      for (const auto* operands : {&node.results, &node.arguments}) {
        for (const Operand& operand : *operands) {
          for (const ValueId id : operand.values) {
            if (id == kNoValue || used[place_of(id)]) continue;
            used[place_of(id)] = true;
            dead[n].push_back(id);
          }
        }
      }
    }
  }

  Graph graph;
  std::vector<c10::OperatorHandle> operators;
  std::vector<std::vector<ValueId>> dead;  // behind each node, for good
};

class GraphRun {
 public:
  explicit GraphRun(const Plan& plan) : plan_(plan), tensors_(plan.graph.values.size()) {
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i] = graph().values[i].tensor;
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (graph().inputs[i] != kNoValue) tensors_[place_of(graph().inputs[i])] = inputs[i];
    }
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      call(n);
      for (const ValueId id : plan_.dead[n]) tensors_[place_of(id)] = at::Tensor();
    }
    std::vector<at::Tensor> outputs;
    for (const ValueId id : graph().outputs) {
      outputs.push_back(id == kNoValue ? at::Tensor() : output(id));
    }
    return outputs;
  }

 private:
  const Graph& graph() const { return plan_.graph; }

  at::Tensor tensor(ValueId id) const {
    return id == kNoValue ? at::Tensor() : tensors_[place_of(id)];
  }

  /// Weights and inputs stay what they are, whatever is done with the outputs.
  at::Tensor output(ValueId id) const {
    const Value& value = graph().values[place_of(id)];
    const ValueKind memory = graph().values[place_of(value.memory)].kind;
    return memory == ValueKind::kResult ? tensor(id) : tensor(id).clone();
  }

  void call(size_t n) {
    const Node& node = graph().nodes[n];
    const c10::OperatorHandle& op = plan_.operators[n];
    torch::jit::Stack stack;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Operand& argument = node.arguments[i];
      if (argument.kind == Operand::Kind::kNumber) {
        stack.push_back(argument.number);
      } else if (argument.kind == Operand::Kind::kValue) {
        stack.emplace_back(tensor(argument.values[0]));
      } else if (op.schema().arguments()[i].type()->isSubtypeOf(*c10::ListType::ofTensors())) {
        c10::List<at::Tensor> list;
        for (const ValueId id : argument.values) list.push_back(tensor(id));
        stack.emplace_back(std::move(list));
      } else {
        c10::List<std::optional<at::Tensor>> list;
        for (const ValueId id : argument.values) {
          list.push_back(id == kNoValue ? std::nullopt : std::optional(tensor(id)));
        }
        stack.emplace_back(std::move(list));
      }
    }
    op.callBoxed(stack);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Operand& result = node.results[i];
      if (result.kind == Operand::Kind::kValue) {
        keep(n, result.values[0], stack[i].toTensor());
        continue;
      }
      const std::vector<at::Tensor> list = stack[i].toTensorVector();
      STRATA_CHECK(list.size() == result.values.size(), kDataLoss, "[graph] ", graph().name,
                   ": node ", n, " (", node.name, ") gave ", list.size(), " tensors; expected ",
                   result.values.size());
      for (size_t k = 0; k < list.size(); ++k) keep(n, result.values[k], list[k]);
    }
  }

  void keep(size_t n, ValueId id, at::Tensor tensor) {
    if (id == kNoValue) return;
    const Value& expected = graph().values[place_of(id)];
    const bool fits = tensor.defined() && tensor.scalar_type() == expected.dtype &&
                      tensor.sizes() == at::IntArrayRef(expected.sizes);
    STRATA_CHECK(fits, kDataLoss, "[graph] ", graph().name, ": node ", n, " (",
                 graph().nodes[n].name, ") gave ",
                 tensor.defined() ? str_cat(tensor.scalar_type(), " ", tensor.sizes())
                                  : std::string("no tensor"),
                 "; expected ", expected.dtype, " ", at::IntArrayRef(expected.sizes),
                 ", as the graph says: it was damaged, or libtorch is another one");
    tensors_[place_of(id)] = std::move(tensor);
  }

  const Plan& plan_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace

struct LoadedGraph::Impl {
  explicit Impl(InferenceGraph of) : graph(std::move(of)) {}

  std::shared_ptr<const Plan> plan_for(int64_t batch) {
    const MutexLock lock(mutex);
    for (auto each = plans.begin(); each != plans.end(); ++each) {
      if (each->first != batch) continue;
      plans.splice(plans.begin(), plans, each);
      return plans.front().second;
    }
    plans.emplace_front(batch, std::make_shared<const Plan>(graph.batch > 0 ? at_batch(graph, batch)
                                                                            : graph.graph));
    if (plans.size() > kPlans) plans.pop_back();
    return plans.front().second;
  }

  const InferenceGraph graph;
  Mutex mutex;
  std::list<std::pair<int64_t, std::shared_ptr<const Plan>>> plans
      STRATA_GUARDED_BY(mutex);  // the last used first
};

LoadedGraph::LoadedGraph(InferenceGraph graph) : impl_(std::make_shared<Impl>(std::move(graph))) {}

const InferenceGraph& LoadedGraph::graph() const { return impl_->graph; }

std::vector<at::Tensor> LoadedGraph::operator()(const std::vector<at::Tensor>& inputs) const {
  const Graph& traced = graph().graph;
  STRATA_CHECK(inputs.size() == traced.inputs.size(), kInvalidArgument, "[graph] ", traced.name,
               ": got ", inputs.size(), " inputs; expected ", traced.inputs.size());
  int64_t batch = 0;
  if (graph().batch > 0) {
    for (const at::Tensor& input : inputs) {
      if (input.defined() && input.dim() > 0) batch = input.size(0);
    }
    STRATA_CHECK(batch > 0, kInvalidArgument, "[graph] ", traced.name,
                 ": got no example; expected one at least");
  }
  const std::shared_ptr<const Plan> plan = impl_->plan_for(batch);
  std::vector<at::Tensor> plain;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = plan->graph.inputs[i];
    if (id == kNoValue) {
      plain.emplace_back();
      continue;
    }
    const Value& expected = plan->graph.values[place_of(id)];
    const bool fits = inputs[i].defined() && inputs[i].is_cpu() &&
                      inputs[i].layout() == at::kStrided &&
                      inputs[i].scalar_type() == expected.dtype &&
                      inputs[i].sizes() == at::IntArrayRef(expected.sizes);
    STRATA_CHECK(fits, kInvalidArgument, "[graph] ", traced.name, ": got input ", i, " of ",
                 inputs[i].defined() ? str_cat(inputs[i].scalar_type(), " ", inputs[i].sizes())
                                     : std::string("no value"),
                 "; expected ", expected.dtype, " ", at::IntArrayRef(expected.sizes),
                 " on the CPU");
    plain.push_back(inputs[i].detach().contiguous());
  }
  return GraphRun(*plan).run(plain);
}

}  // namespace strata::graph
