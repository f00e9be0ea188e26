#include "graph/untrusted/rule_parts.h"

namespace strata::graph::untrusted {

bool is_contiguous(const Value& value) {
  int64_t expected = 1;
  for (size_t d = value.sizes.size(); d-- > 0;) {
    if (value.sizes[d] != 1 && value.strides[d] != expected) return false;
    expected *= value.sizes[d];
  }
  return true;
}

bool is_dense(const Value& value, at::ScalarType dtype, const std::vector<int64_t>& sizes) {
  return value.dtype == dtype && value.sizes == sizes && is_contiguous(value);
}

std::optional<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a,
                                              const std::vector<int64_t>& b) {
  std::vector<int64_t> sizes = a.size() < b.size() ? b : a;
  const std::vector<int64_t>& shorter = a.size() < b.size() ? a : b;
  const size_t more = sizes.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    int64_t& size = sizes[more + d];
    if (size == 1) size = shorter[d];
    if (shorter[d] != size && shorter[d] != 1) return std::nullopt;
  }
  return sizes;
}

bool broadcasts_to(const std::vector<int64_t>& from, const std::vector<int64_t>& sizes) {
  if (from.size() > sizes.size()) return false;
  const size_t more = sizes.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != sizes[more + d]) return false;
  }
  return true;
}

bool is_never_written(const Graph& graph, ValueId id) {
  const ValueId memory = graph.values[static_cast<size_t>(id)].memory;
  const ValueKind kind = graph.values[static_cast<size_t>(memory)].kind;
  if (kind != ValueKind::kInput && kind != ValueKind::kResult) return false;
  return std::ranges::none_of(graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.written, [&](ValueId written) {
      return written != kNoValue && graph.values[static_cast<size_t>(written)].memory == memory;
    });
  });
}

bool comes_after(const CallView& call, std::string_view name,
                 const std::function<bool(const Node&)>& suits) {
  const std::vector<Node>& nodes = call.graph().nodes;
  for (size_t n = 0; n < call.number(); ++n) {
    if (nodes[n].name == name && !nodes[n].host && suits(nodes[n])) return true;
  }
  return false;
}

}  // namespace strata::graph::untrusted
