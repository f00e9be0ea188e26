#include "graph/relaxed_graph.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "graph/fake.h"
#include "graph/places.h"
#include "graph/trace_key.h"
#include "strata/core/error.h"

namespace strata::graph {
namespace {

using Part = NumberPlace::Part;

/// Compares all of two traces but numbers, whose places it collects.
class Comparison {
 public:
  Comparison(const Trace& first, const Trace& second, std::vector<NumberPlace>& differing)
      : first_(first), second_(second), differing_(differing) {}

  std::optional<std::string> run() {
    const Graph& a = first_.graph;
    const Graph& b = second_.graph;
    for (size_t n = 0; n < std::min(a.nodes.size(), b.nodes.size()); ++n) {
      if (auto reason = compare_nodes(n)) return reason;
    }
    if (a.nodes.size() != b.nodes.size()) {
      return str_cat("it has ", a.nodes.size(), " operators with one size and ", b.nodes.size(),
                     " with another");
    }
    if (a.values.size() != b.values.size() || a.inputs != b.inputs || a.outputs != b.outputs ||
        first_.sparse_sizes != second_.sparse_sizes || !same_effects()) {
      return "it reads or returns other tensors";
    }
    for (size_t i = 0; i < a.values.size(); ++i) {
      if (auto reason = compare_values(i)) return reason;
    }
    return std::nullopt;
  }

 private:
  bool same_effects() const {
    return std::equal(first_.effects.begin(), first_.effects.end(), second_.effects.begin(),
                      second_.effects.end(), [](const auto& a, const auto& b) {
                        return a.leaf.is_same(b.leaf) && a.gradients == b.gradients &&
                               a.adds == b.adds;
                      });
  }

  std::optional<std::string> compare_nodes(size_t n) {
    const Node& a = first_.graph.nodes[n];
    const Node& b = second_.graph.nodes[n];
    const auto text = [&](std::string_view what) {
      return str_cat("operator ", n + 1, ", ", a.name, describe_place(b), ", ", what);
    };
    if (a.name != b.name) {
      return text(str_cat("is ", b.name, " with another size"));
    }
    const auto same = [](const Operand& x, const Operand& y) {
      return x.kind == y.kind && x.values == y.values;
    };
    if (!std::ranges::equal(a.arguments, b.arguments, same) ||
        !std::ranges::equal(a.results, b.results, same) || a.written != b.written ||
        static_cast<bool>(a.host) != static_cast<bool>(b.host) ||
        a.keeps_arguments != b.keeps_arguments) {
      return text("reads or makes other tensors with another size");
    }
    // Its rows are those of all replicas, whose sizes may differ.
    if (a.name == "strata::all_gather") return text("joins rows of all replicas");
    for (size_t i = 0; i < a.arguments.size(); ++i) {
      if (a.arguments[i].kind != Operand::Kind::kNumber) continue;
      const c10::IValue& x = a.arguments[i].number;
      const c10::IValue& y = b.arguments[i].number;
      // A host function has its numbers from the recording.
      if (a.host ? x != y : !compare_argument(n, i, x, y)) {
        return text(str_cat("got ", x, ", and ", y, " with another size"));
      }
    }
    return std::nullopt;
  }

  bool compare_argument(size_t n, size_t i, const c10::IValue& x, const c10::IValue& y) {
    if ((x.isInt() && y.isInt()) || (x.isDouble() && y.isDouble())) {
      note(x != y, {.part = Part::kNumber, .index = n, .argument = i});
      return true;
    }
    const auto compare_lists = [&](const auto& a, const auto& b) {
      if (a.size() != b.size()) return false;
      for (size_t e = 0; e < a.size(); ++e) {
        note(a[e] != b[e], {.part = Part::kInList, .index = n, .argument = i, .element = e});
      }
      return true;
    };
    if (x.isIntList() && y.isIntList()) return compare_lists(x.toIntVector(), y.toIntVector());
    if (x.isDoubleList() && y.isDoubleList()) {
      return compare_lists(x.toDoubleVector(), y.toDoubleVector());
    }
    return x == y;
  }

  std::optional<std::string> compare_values(size_t i) {
    const Value& a = first_.graph.values[i];
    const Value& b = second_.graph.values[i];
    if (a.kind != b.kind || a.dtype != b.dtype || a.device != b.device || a.memory != b.memory ||
        a.node != b.node || a.sizes.size() != b.sizes.size()) {
      return "it makes other tensors with another size";
    }
    for (size_t d = 0; d < a.sizes.size(); ++d) {
      note(a.sizes[d] != b.sizes[d], {.part = Part::kSize, .index = i, .element = d});
      note(a.strides[d] != b.strides[d], {.part = Part::kStride, .index = i, .element = d});
    }
    note(a.offset != b.offset, {.part = Part::kOffset, .index = i});
    if (a.tensor.defined() == b.tensor.defined() &&
        (!a.tensor.defined() || same_tensors(i, a, b))) {
      return std::nullopt;
    }
    return str_cat("it reads a tensor of ", a.dtype, " ", at::IntArrayRef(a.sizes),
                   " that is another one with another size");
  }

  bool same_tensors(size_t i, const Value& a, const Value& b) {
    const bool same_memory =
        a.tensor.storage().unsafeGetStorageImpl() == b.tensor.storage().unsafeGetStorageImpl();
    const bool same_sizes = a.sizes == b.sizes && a.strides == b.strides;
    if (same_memory) return same_sizes && a.offset == b.offset;
    if (a.kind == ValueKind::kConstant && !same_sizes)
      return is_zero(a.tensor) && is_zero(b.tensor);
    const bool number = a.sizes.empty() && is_alone(i);
    if (!same_sizes || a.kind == ValueKind::kState) return false;
    if (a.kind == ValueKind::kCapture && !a.sizes.empty()) return false;
    if (is_wrapped(a.tensor) != is_wrapped(b.tensor)) return false;
    if (at::equal(a.tensor, b.tensor)) return true;
    if (!number || !(at::isIntegralType(a.dtype, /*includeBool=*/false) || a.dtype == at::kFloat ||
                     a.dtype == at::kDouble)) {
      return false;
    }
    note(true, {.part = Part::kTensor, .index = i});
    return true;
  }

  /// Memory that a step has from torch::empty, and writes in part.
  static bool is_zero(const at::Tensor& tensor) {
    return tensor.numel() == 0 || at::count_nonzero(tensor).item<int64_t>() == 0;
  }
  static bool is_wrapped(const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->is_wrapped_number();
  }
  bool is_alone(size_t i) const {
    const auto& values = first_.graph.values;
    return std::ranges::count_if(values, [&](const Value& value) {
             return value.memory == static_cast<ValueId>(i);
           }) == 1;
  }

  void note(bool differs, const NumberPlace& place) {
    if (differs) differing_.push_back(place);
  }

  const Trace& first_;
  const Trace& second_;
  std::vector<NumberPlace>& differing_;
};

double real_or_integer(const c10::IValue& number) {
  return number.isInt() ? static_cast<double>(number.toInt()) : number.toDouble();
}

double number_at(const Graph& graph, const NumberPlace& place) {
  switch (place.part) {
    case Part::kSize:
      return static_cast<double>(graph.values.at(place.index).sizes.at(place.element));
    case Part::kStride:
      return static_cast<double>(graph.values.at(place.index).strides.at(place.element));
    case Part::kOffset:
      return static_cast<double>(graph.values.at(place.index).offset);
    case Part::kTensor:
      return graph.values.at(place.index).tensor.item<double>();
    case Part::kNumber:
      return real_or_integer(graph.nodes.at(place.index).arguments.at(place.argument).number);
    case Part::kInList: {
      const c10::IValue& list = graph.nodes.at(place.index).arguments.at(place.argument).number;
      return list.isIntList() ? static_cast<double>(list.toIntVector().at(place.element))
                              : list.toDoubleVector().at(place.element);
    }
  }
  return 0;
}

NumberType type_at(const Graph& graph, const NumberPlace& place) {
  switch (place.part) {
    case Part::kSize:
    case Part::kStride:
    case Part::kOffset:
      return NumberType::kInteger;
    case Part::kTensor: {
      const at::ScalarType dtype = graph.values.at(place.index).dtype;
      if (dtype == at::kFloat) return NumberType::kFloat;
      return dtype == at::kDouble ? NumberType::kDouble : NumberType::kInteger;
    }
    case Part::kNumber:
    case Part::kInList: {
      const c10::IValue& number = graph.nodes.at(place.index).arguments.at(place.argument).number;
      return number.isInt() || number.isIntList() ? NumberType::kInteger : NumberType::kDouble;
    }
  }
  return NumberType::kInteger;
}

void set_number(Graph& graph, const NumberPlace& place, double number) {
  const auto integer = static_cast<int64_t>(number);
  switch (place.part) {
    case Part::kSize:
      graph.values[place.index].sizes[place.element] = integer;
      return;
    case Part::kStride:
      graph.values[place.index].strides[place.element] = integer;
      return;
    case Part::kOffset:
      graph.values[place.index].offset = integer;
      return;
    case Part::kTensor: {
      at::Tensor& tensor = graph.values[place.index].tensor;
      const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      tensor = tensor.is_floating_point() ? at::scalar_tensor(number, tensor.options())
                                          : at::scalar_tensor(integer, tensor.options());
      if (wrapped) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
      return;
    }
    case Part::kNumber: {
      c10::IValue& value = graph.nodes[place.index].arguments[place.argument].number;
      value = value.isInt() ? c10::IValue(integer) : c10::IValue(number);
      return;
    }
    case Part::kInList: {
      c10::IValue& value = graph.nodes[place.index].arguments[place.argument].number;
      if (value.isIntList()) {
        std::vector<int64_t> list = value.toIntVector();
        list[place.element] = integer;
        value = std::move(list);
      } else {
        std::vector<double> list = value.toDoubleVector();
        list[place.element] = number;
        value = std::move(list);
      }
      return;
    }
  }
}

/// Those of zeros whose sizes are others now, and what is in their memory.
void resize_constants(Graph& graph) {
  for (Value& value : graph.values) {
    if (value.kind != ValueKind::kConstant) continue;
    const Value& root = graph.values[static_cast<size_t>(value.memory)];
    if (&root == &value) {
      if (value.tensor.sizes() == value.sizes && value.tensor.strides() == value.strides) continue;
      const at::Tensor memory =
          at::zeros({value.offset + extent(value.sizes, value.strides)}, value.tensor.options());
      value.tensor = at::as_strided(memory, value.sizes, value.strides, value.offset);
    } else if (!value.tensor.is_alias_of(root.tensor)) {
      value.tensor = at::as_strided(root.tensor, value.sizes, value.strides, value.offset);
    }
  }
}

std::string describe(const Graph& graph, const NumberPlace& place) {
  const bool of_node = place.part == Part::kNumber || place.part == Part::kInList;
  const int32_t n = of_node ? static_cast<int32_t>(place.index) : graph.values[place.index].node;
  if (n < 0) return "a number that it makes a tensor";
  const Node& node = graph.nodes[static_cast<size_t>(n)];
  return str_cat(of_node ? "an argument of " : "a size of the result of ", node.name,
                 describe_place(node));
}

}  // namespace

std::optional<std::string> compare_numbers(const Trace& first, const Trace& second,
                                           std::vector<NumberPlace>& differing) {
  return Comparison(first, second, differing).run();
}

RelaxedGraph::RelaxedGraph(Trace base, const SizePoints& points, const std::vector<Trace>& others)
    : base_(std::move(base)) {
  const auto refuse = [&](const std::string& reason) {
    STRATA_CHECK(false, kFailedPrecondition, reason);
  };
  std::vector<NumberPlace> differing;
  for (const Trace& other : others) {
    if (const auto reason = compare_numbers(base_, other, differing)) refuse(*reason);
  }
  for (const NumberPlace& place : std::set<NumberPlace>(differing.begin(), differing.end())) {
    std::vector<double> at_others;
    for (const Trace& other : others) at_others.push_back(number_at(other.graph, place));
    const double at_base = number_at(base_.graph, place);
    SizeNumber number(points, type_at(base_.graph, place), at_base, at_others);
    if (!number.is_known()) {
      refuse(str_cat(describe(base_.graph, place), " is ", at_base, " with one size and ",
                     at_others.back(),
                     " with another, which is no sum, product or quotient of it"));
    }
    terms_.push_back({.place = place, .number = std::move(number)});
  }
}

std::optional<std::string> RelaxedGraph::check(const Trace& recorded, const RowSizes& sizes) {
  std::vector<Term> before = terms_;
  std::optional<std::string> reason = compare(recorded, sizes);
  if (reason) terms_ = std::move(before);
  return reason;
}

/// Drops the forms of numbers that the recording refutes.
std::optional<std::string> RelaxedGraph::compare(const Trace& recorded, const RowSizes& sizes) {
  std::vector<NumberPlace> differing;
  if (auto reason = compare_numbers(base_, recorded, differing)) return reason;
  for (Term& term : terms_) {
    const double number = number_at(recorded.graph, term.place);
    if (!term.number.agrees(sizes, number)) {
      return str_cat(describe(recorded.graph, term.place), " is ", number,
                     ", which does not follow from the sizes as it did before");
    }
  }
  const std::shared_ptr<const Trace> expected = at(sizes);
  if (!expected) return "a number is not whole with another size";
  differing.clear();
  if (auto reason = compare_numbers(*expected, recorded, differing)) return reason;
  if (differing.empty()) return std::nullopt;
  return str_cat(describe(recorded.graph, differing[0]), " is ",
                 number_at(recorded.graph, differing[0]), ", and was ",
                 number_at(expected->graph, differing[0]), " with other sizes");
}

std::shared_ptr<const Trace> RelaxedGraph::at(const RowSizes& sizes) const {
  auto trace = std::make_shared<Trace>(base_);
  for (const Term& term : terms_) {
    const std::optional<double> number = term.number.at(sizes);
    if (!number) return nullptr;
    set_number(trace->graph, term.place, *number);
  }
  resize_constants(trace->graph);
  return trace;
}

}  // namespace strata::graph
