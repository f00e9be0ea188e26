#include <ATen/ops/as_strided.h>

#include <bit>
#include <span>
#include <utility>

#include "core/atomic_file.h"
#include "core/crc32c.h"
#include "graph/describe_node.h"
#include "graph/saved/known_operators.h"
#include "graph/saved/saved_messages.h"
#include "graph/saved/saved_parts.h"
#include "strata/core/error.h"
#include "strata/graph/saved_graph.h"

namespace strata::graph {
namespace saved {
namespace {

class Saving {
 public:
  explicit Saving(const InferenceGraph& from) : from_(from) {}

  void write(const std::string& path) {
    std::string head;
    detail::write_message(message(), head);
    std::string start(kMagic);
    detail::put_fixed(uint64_t{head.size()}, start);
    start += head;
    detail::write_atomically(path, [&](WritableFile& file) {
      uint32_t checksum = crc32c(start.data(), start.size());
      file.append(std::as_bytes(std::span(start)));
      for (const at::Tensor& weight : weights_) {
        checksum = crc32c(weight.const_data_ptr(), weight.nbytes(), checksum);
        file.append({static_cast<const std::byte*>(weight.const_data_ptr()), weight.nbytes()});
      }
      std::string end;
      detail::put_fixed(checksum, end);
      file.append(std::as_bytes(std::span(end)));
    });
  }

 private:
  const Graph& graph() const { return from_.graph; }

  SavedGraph message() {
    SavedGraph saved{.version = kVersion,
                     .name = graph().name,
                     .inputs = wide_ids(graph().inputs),
                     .outputs = wide_ids(graph().outputs),
                     .batch = from_.batch};
    for (size_t i = 0; i < graph().values.size(); ++i) saved.values.push_back(value(i));
    for (size_t n = 0; n < graph().nodes.size(); ++n) saved.nodes.push_back(node(n));
    for (const BatchTerm& term : from_.terms) {
      saved.terms.push_back({.part = static_cast<uint64_t>(term.part),
                             .index = term.index,
                             .argument = term.argument,
                             .element = term.element,
                             .per_example = term.per_example});
    }
    return saved;
  }

  SavedValue value(size_t i) {
    const Value& value = graph().values[i];
    STRATA_CHECK(value.kind != ValueKind::kState, kUnimplemented,
                 "[graph] save_graph: ", graph().name, ": it writes a variable, of ", value.dtype,
                 " ", at::IntArrayRef(value.sizes),
                 ", and a saved graph has no state; pass states as inputs and return them");
    SavedValue saved{.kind = static_cast<uint64_t>(value.kind),
                     .dtype = static_cast<uint64_t>(value.dtype),
                     .sizes = value.sizes,
                     .strides = value.strides,
                     .offset = value.offset,
                     .memory = value.memory,
                     .node = value.node,
                     .stored = value.tensor.defined()};
    if (!saved.stored) return saved;
    // By itself: what it shares memory with is stored by itself, too.
    at::Tensor tensor = value.tensor.detach();
    if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
    saved.strides = tensor.strides().vec();
    saved.offset = 0;
    saved.memory = static_cast<int64_t>(i);
    weights_.push_back(at::as_strided(tensor, {tensor.numel()}, {1}, tensor.storage_offset()));
    return saved;
  }

  SavedNode node(size_t n) const {
    const Node& node = graph().nodes[n];
    const std::string fault = fault_of_node(node);
    STRATA_CHECK(fault.empty(), kUnimplemented, "[graph] save_graph: ", graph().name, ": ",
                 describe_node(graph(), n), " ", fault, "; write this part of the model otherwise");
    for (const ValueId id : node.written) {
      const Value& value = graph().values[static_cast<size_t>(id)];
      const Value& memory = graph().values[static_cast<size_t>(value.memory)];
      STRATA_CHECK(memory.kind == ValueKind::kResult, kUnimplemented,
                   "[graph] save_graph: ", graph().name, ": ", describe_node(graph(), n),
                   " writes an input or a constant; write to a clone of it");
    }
    SavedNode saved{.name = node.name, .written = wide_ids(node.written)};
    for (const Operand& each : node.arguments) saved.arguments.push_back(operand(each, n));
    for (const Operand& each : node.results) saved.results.push_back(operand(each, n));
    return saved;
  }

  SavedOperand operand(const Operand& operand, size_t n) const {
    const auto saved = save_operand(operand);
    STRATA_CHECK(saved, kUnimplemented, "[graph] save_graph: ", graph().name, ": ",
                 describe_node(graph(), n), " has an argument of ", operand.number.tagKind(),
                 ", which saved graphs cannot have");
    return *saved;
  }

  const InferenceGraph& from_;
  std::vector<at::Tensor> weights_;  // [elements], in the order of the values
};

}  // namespace
}  // namespace saved

void save_graph(const InferenceGraph& graph, const std::string& path) {
  saved::Saving(graph).write(path);
}

}  // namespace strata::graph
