// Inference graphs: a trace without gradients, and two of them where the batch may vary.
#include "strata/graph/inference.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <optional>

#include "graph/inference_mode.h"
#include "graph/passes.h"
#include "graph/places.h"
#include "graph/tracer.h"
#include "kernels/dispatch_key.h"
#include "strata/core/error.h"

namespace strata::graph {
namespace {

thread_local bool this_thread_traces_inference = false;

Graph trace_once(const InferenceFunction& function, const std::vector<at::Tensor>& inputs,
                 const std::string& name) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const InferenceModeGuard mode;
  Layouts layouts;
  Trace trace = Tracer::trace(name, inputs, function, layouts);
  STRATA_CHECK(trace.effects.empty(), kFailedPrecondition, "[graph] trace_inference: ", name,
               " computes gradients; leave backward out of it");
  remove_dead(trace);
  return std::move(trace.graph);
}

/// Compares the graphs for n and for n + 1 examples.
class BatchComparison {
 public:
  BatchComparison(const Graph& graph, const Graph& other) : graph_(graph), other_(other) {}

  std::vector<BatchTerm> terms() && {
    require(graph_.values.size() == other_.values.size() &&
                graph_.nodes.size() == other_.nodes.size() && graph_.inputs == other_.inputs &&
                graph_.outputs == other_.outputs,
            "it has other operators");
    for (size_t i = 0; i < graph_.values.size(); ++i) compare_values(i);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) compare_nodes(n);
    return std::move(terms_);
  }

 private:
  using Part = BatchTerm::Part;

  void require(bool same, std::string_view what) const {
    STRATA_CHECK(same, kFailedPrecondition, "[graph] trace_inference: ", graph_.name,
                 ": got any_batch, and for another number of examples ", what,
                 "; set any_batch to false, and trace it for the number that you need");
  }
  void compare(int64_t number, int64_t other, const BatchTerm& where) {
    if (number == other) return;
    terms_.push_back(where);
    terms_.back().per_example = other - number;
  }

  void compare_values(size_t i) {
    const Value& value = graph_.values[i];
    const Value& other = other_.values[i];
    require(value.kind == other.kind && value.dtype == other.dtype &&
                value.memory == other.memory && value.node == other.node &&
                value.sizes.size() == other.sizes.size(),
            str_cat("value %", i, " is another one"));
    if (value.tensor.defined()) {
      require(value.tensor.sizes() == other.tensor.sizes() &&
                  (value.tensor.is_alias_of(other.tensor) || value.tensor.equal(other.tensor)),
              str_cat("constant %", i, " is another one"));
    }
    const auto index = static_cast<int32_t>(i);
    for (size_t d = 0; d < value.sizes.size(); ++d) {
      const auto element = static_cast<int32_t>(d);
      compare(value.sizes[d], other.sizes[d],
              {.part = Part::kSize, .index = index, .element = element});
      compare(value.strides[d], other.strides[d],
              {.part = Part::kStride, .index = index, .element = element});
    }
    compare(value.offset, other.offset, {.part = Part::kOffset, .index = index});
  }

  void compare_nodes(size_t n) {
    const Node& node = graph_.nodes[n];
    const Node& other = other_.nodes[n];
    const auto require_same = [&](bool same) {
      if (same) return;
      require(false, str_cat("node ", n, " is ", other.name, " in place of ", node.name,
                             describe_place(node)));
    };
    require_same(node.name == other.name && node.arguments.size() == other.arguments.size() &&
                 node.results.size() == other.results.size());
    for (size_t i = 0; i < node.results.size(); ++i) {
      require_same(node.results[i].values == other.results[i].values);
    }
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Operand& operand = node.arguments[i];
      require(
          operand.kind == other.arguments[i].kind && operand.values == other.arguments[i].values,
          str_cat("node ", n, " (", node.name, ") has other arguments"));
      if (operand.kind == Operand::Kind::kNumber) {
        compare_numbers(n, i, operand.number, other.arguments[i].number);
      }
    }
  }

  void compare_numbers(size_t n, size_t argument, const c10::IValue& number,
                       const c10::IValue& other) {
    BatchTerm where{.part = Part::kNumber,
                    .index = static_cast<int32_t>(n),
                    .argument = static_cast<int32_t>(argument)};
    if (number.isInt() && other.isInt()) return compare(number.toInt(), other.toInt(), where);
    if (number.isIntList() && other.isIntList()) {
      const auto numbers = number.toIntVector();
      const auto others = other.toIntVector();
      require(numbers.size() == others.size(),
              str_cat("a list of node ", n, " (", graph_.nodes[n].name, ") is longer"));
      for (size_t e = 0; e < numbers.size(); ++e) {
        where.element = static_cast<int32_t>(e);
        compare(numbers[e], others[e], where);
      }
      return;
    }
    require(number == other, str_cat("argument ", argument, " of node ", n, " (",
                                     graph_.nodes[n].name, ") is another number"));
  }

  const Graph& graph_;
  const Graph& other_;
  std::vector<BatchTerm> terms_;
};

/// Sizes and dtypes alone, contiguous: a trace asks for no elements.
std::vector<at::Tensor> of_batch(const std::vector<at::Tensor>& inputs,
                                 std::optional<int64_t> batch) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) {
      result.emplace_back();
      continue;
    }
    std::vector<int64_t> sizes = input.sizes().vec();
    if (batch) sizes[0] = *batch;
    result.push_back(at::empty(sizes, input.options()));
  }
  return result;
}

int64_t common_batch(const std::vector<at::Tensor>& inputs, const std::string& name) {
  std::optional<int64_t> batch;
  for (const at::Tensor& input : inputs) {
    STRATA_CHECK(input.defined() && input.dim() > 0 && (!batch || *batch == input.size(0)),
                 kInvalidArgument, "[graph] trace_inference: ", name,
                 ": got any_batch and inputs whose first dimensions are not all the same; pass "
                 "inputs that begin with the same number of examples");
    batch = input.size(0);
  }
  STRATA_CHECK(batch.has_value(), kInvalidArgument, "[graph] trace_inference: ", name,
               ": got any_batch and no input; pass one at least");
  return *batch;
}

}  // namespace

bool tracing_inference() { return this_thread_traces_inference; }

InferenceModeGuard::InferenceModeGuard() : before_(this_thread_traces_inference) {
  this_thread_traces_inference = true;
}
InferenceModeGuard::~InferenceModeGuard() { this_thread_traces_inference = before_; }

bool call_decomposition(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (!tracing_inference()) return false;
  // Compositions of libtorch's that the replicas alone have a kernel for; strata's operators.
  const bool replaced = op.hasKernelForDispatchKey(kernels::kReplicaKey) &&
                        !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
                        op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  const bool own = op.schema().name().starts_with("strata::") &&
                   op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
  if (!replaced && !own) return false;
  op.callBoxedForDispatchKey(replaced ? c10::DispatchKey::CompositeImplicitAutograd
                                      : c10::DispatchKey::CompositeExplicitAutograd,
                             stack);
  return true;
}

InferenceGraph trace_inference(const InferenceFunction& function,
                               const std::vector<at::Tensor>& inputs,
                               const InferenceOptions& options) {
  if (!options.any_batch) {
    return {.graph = trace_once(function, of_batch(inputs, std::nullopt), options.name)};
  }
  // A size of one has meanings of its own.
  const int64_t batch = std::max<int64_t>(2, common_batch(inputs, options.name));
  InferenceGraph result{.graph = trace_once(function, of_batch(inputs, batch), options.name),
                        .batch = batch};
  const Graph other = trace_once(function, of_batch(inputs, batch + 1), options.name);
  result.terms = BatchComparison(result.graph, other).terms();
  return result;
}

Graph at_batch(const InferenceGraph& from, int64_t batch) {
  STRATA_CHECK(batch > 0 && (from.batch > 0 || from.terms.empty()), kInvalidArgument,
               "[graph] at_batch: got ", batch, " examples for ", from.graph.name, ", which is ",
               from.batch > 0 ? "for any number above 0" : "for the sizes it was traced with alone",
               "; trace it with any_batch");
  Graph graph = from.graph;
  const int64_t more = batch - from.batch;
  for (const BatchTerm& term : from.terms) {
    const auto index = static_cast<size_t>(term.index);
    const auto element = static_cast<size_t>(term.element);
    const int64_t change = term.per_example * more;
    switch (term.part) {
      case BatchTerm::Part::kSize:
        graph.values.at(index).sizes.at(element) += change;
        break;
      case BatchTerm::Part::kStride:
        graph.values.at(index).strides.at(element) += change;
        break;
      case BatchTerm::Part::kOffset:
        graph.values.at(index).offset += change;
        break;
      case BatchTerm::Part::kNumber: {
        c10::IValue& number =
            graph.nodes.at(index).arguments.at(static_cast<size_t>(term.argument)).number;
        if (number.isInt()) {
          number = number.toInt() + change;
        } else {
          std::vector<int64_t> numbers = number.toIntVector();
          numbers.at(element) += change;
          number = numbers;
        }
        break;
      }
    }
  }
  return graph;
}

}  // namespace strata::graph
