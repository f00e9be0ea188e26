// A graph as ONNX: what depends on weights alone is computed here, each other node is given to its rule.
//
// Values of a graph lie in memory, which a node may write; ONNX's values are made once. Therefore each
// memory has a version, which a write raises. A view that is older than its memory's last write is made
// again from what is in the memory now; a write to a view is one to the value that it is a view of,
// by the inverse of what made the view.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/describe_node.h"
#include "graph/layouts.h"
#include "graph/onnx/rules.h"
#include "graph/operator_of.h"
#include "strata/core/error.h"
#include "strata/graph/onnx.h"

namespace strata::graph::onnx {
namespace {

using Kind = Operand::Kind;

/// Larger results are left to the reader of the file, if they are larger than what they are made of.
constexpr size_t kAlwaysKnown = 64 * 1024;

size_t index_of(ValueId id) { return static_cast<size_t>(id); }

class Export final : public ExportState {
 public:
  Export(const InferenceGraph& from, const OnnxOptions& options)
      : from_(from),
        options_(options),
        model_(from.graph.name),
        values_(graph().values.size()),
        versions_(graph().values.size()),
        varies_(graph().nodes.size()) {
    for (const BatchTerm& term : from.terms) {
      terms_[{term.part, term.index, term.argument, term.element}] = term.per_example;
      if (term.part == BatchTerm::Part::kNumber) varies_[static_cast<size_t>(term.index)] = true;
    }
  }

  void write(const std::string& path) {
    begin();
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      if (!compute(n)) give_to_rule(n);
    }
    end();
    model_.write(path);
  }

  const Graph& graph() const override { return from_.graph; }
  OnnxModel& model() override { return model_; }

  std::string name_of(ValueId id) override {
    Named& value = values_[index_of(id)];
    if (value.known.defined()) {
      if (value.name.empty())
        value.name = model_.constant(value.known, name_of_weight(value.known));
      return value.name;
    }
    if (value.name.empty() || value.version != version_of(id)) {
      const int32_t node = graph().values[index_of(id)].node;
      STRATA_CHECK(
          node >= 0, kUnimplemented, "[onnx] ", graph().name, ": value %", id,
          " is read after another view of its memory was written, which strata has no ONNX "
          "for; write this part of the model without operators in place");
      give_to_rule(static_cast<size_t>(node));
    }
    return value.name;
  }

  at::Tensor known(ValueId id) const override { return values_[index_of(id)].known; }

  Dims sizes_of(ValueId id) const override {
    Dims sizes;
    const std::vector<int64_t>& given = graph().values[index_of(id)].sizes;
    for (size_t d = 0; d < given.size(); ++d) {
      sizes.push_back(dim(given[d], BatchTerm::Part::kSize, id, 0, d));
    }
    return sizes;
  }

  Dim dim_of(size_t node, size_t argument, size_t element) const override {
    const c10::IValue& number = graph().nodes[node].arguments[argument].number;
    STRATA_CHECK(number.isInt() || number.isIntList(), kInternal, "[onnx] ",
                 describe_node(graph(), node), ": argument ", argument, " is no integer");
    const int64_t value = number.isInt() ? number.toInt() : number.toIntVector().at(element);
    return dim(value, BatchTerm::Part::kNumber, static_cast<int32_t>(node), argument, element);
  }

 private:
  struct Named {
    std::string name;
    int64_t version = 0;
    at::Tensor known;
  };

  Dim dim(int64_t value, BatchTerm::Part part, int32_t index, size_t argument,
          size_t element) const {
    const auto found =
        terms_.find({part, index, static_cast<int32_t>(argument), static_cast<int32_t>(element)});
    if (found == terms_.end()) return {.fixed = value};
    return {.fixed = value - found->second * from_.batch, .per_example = found->second};
  }

  int64_t& version_of(ValueId id) {
    return versions_[index_of(graph().values[index_of(id)].memory)];
  }

  std::string name_of_weight(const at::Tensor& tensor) const {
    for (const auto& [name, weight] : options_.weight_names) {
      if (weight.defined() && tensor.is_alias_of(weight)) return name;
    }
    return "weight";
  }

  static std::string name_at(const std::vector<std::string>& names, const char* otherwise,
                             size_t i) {
    if (i < names.size()) return names[i];
    return i == 0 ? otherwise : str_cat(otherwise, "_", i);
  }

  void begin() {
    for (size_t i = 0; i < graph().inputs.size(); ++i) {
      const ValueId id = graph().inputs[i];
      if (id == kNoValue) continue;
      const std::string name = model_.unique(name_at(options_.input_names, "input", i));
      model_.add_input(name, graph().values[index_of(id)].dtype, sizes_of(id));
      values_[index_of(id)].name = name;
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = graph().values[i];
      STRATA_CHECK(value.kind != ValueKind::kState, kUnimplemented, "[onnx] ", graph().name,
                   ": it writes a variable, of ", value.dtype, " ", at::IntArrayRef(value.sizes),
                   ", and an ONNX model has no state; pass states as inputs and return them");
      if (value.kind != ValueKind::kInput) values_[i].known = value.tensor;
    }
  }

  void end() {
    for (size_t i = 0; i < graph().outputs.size(); ++i) {
      const ValueId id = graph().outputs[i];
      if (id == kNoValue) continue;
      const std::string name = model_.unique(name_at(options_.output_names, "output", i));
      model_.rename(name_of(id), name);
      model_.add_output(name, graph().values[index_of(id)].dtype, sizes_of(id));
    }
  }

  /// Computes a node whose tensors are all known. @return False: it is one of the model.
  bool compute(size_t n) {
    const Node& node = graph().nodes[n];
    if (node.host || varies_[n] || !node.written.empty()) return false;
    const c10::OperatorHandle op = operator_of(node);
    if (op.hasTag(at::Tag::nondeterministic_seeded)) return false;
    size_t bytes = 0;
    torch::jit::Stack stack;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Operand& argument = node.arguments[i];
      for (const ValueId id : argument.values) {
        if (id == kNoValue) continue;
        if (!known(id).defined()) return false;
        bytes += known(id).nbytes();
      }
      push(argument, op.schema().arguments()[i], stack);
    }
    size_t made = 0;
    for (const Operand& result : node.results) {
      for (const ValueId id : result.values) {
        if (id == kNoValue) continue;
        const Value& value = graph().values[index_of(id)];
        made += c10::elementSize(value.dtype) *
                static_cast<size_t>(std::accumulate(value.sizes.begin(), value.sizes.end(),
                                                    int64_t{1}, std::multiplies<>()));
        for (const Dim& size : sizes_of(id)) {
          if (size.varies()) return false;
        }
      }
    }
    if (made > std::max(bytes, kAlwaysKnown)) return false;
    {
      const at::NoGradGuard no_grad;
      op.callBoxed(stack);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<ValueId>& ids = node.results[i].values;
      size_t place = 0;
      map_tensors(stack[i], [&](const at::Tensor& tensor) {
        if (place < ids.size() && ids[place] != kNoValue) {
          values_[index_of(ids[place])] = {
              .name = {}, .version = version_of(ids[place]), .known = tensor};
        }
        ++place;
        return tensor;
      });
    }
    return true;
  }

  void push(const Operand& argument, const c10::Argument& parameter, torch::jit::Stack& stack) {
    const auto tensor = [&](ValueId id) { return id == kNoValue ? at::Tensor() : known(id); };
    if (argument.kind == Kind::kNumber) {
      stack.push_back(argument.number);
    } else if (argument.kind == Kind::kValue) {
      stack.emplace_back(tensor(argument.values[0]));
    } else if (parameter.type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      c10::List<at::Tensor> list;
      for (const ValueId id : argument.values) list.push_back(tensor(id));
      stack.emplace_back(list);
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const ValueId id : argument.values) {
        list.push_back(id == kNoValue ? std::nullopt : std::optional(tensor(id)));
      }
      stack.emplace_back(list);
    }
  }

  /// "aten::add_.Tensor" is the rule of "aten::add.Tensor", and a write.
  static std::string name_of_rule(const Node& node) {
    std::string name = node.name;
    const size_t dot = std::min(name.find('.'), name.size());
    if (!node.written.empty() && dot > 0 && name[dot - 1] == '_') name.erase(dot - 1, 1);
    return name;
  }

  void give_to_rule(size_t n) {
    const Node& node = graph().nodes[n];
    const std::string name = name_of_rule(node);
    const Rule rule = node.host ? nullptr : find_rule(name);
    STRATA_CHECK(rule != nullptr, kUnimplemented, "[onnx] ", graph().name, ": ",
                 describe_node(graph(), n),
                 " has no rule, so that strata cannot export it; write this part of the model with "
                 "other operators, or leave it out of what is exported");
    NodeExport exported(*this, n);
    const bool in_place = !node.written.empty();
    if (in_place) {
      exported.require(name != node.name && node.written.size() == 1 && node.results.size() == 1,
                       "several results in place");
    }
    rule(exported);
    if (in_place) return write_value(node.written[0], exported.given().at(0).at(0));
    for (size_t i = 0; i < node.results.size() && i < exported.given().size(); ++i) {
      const std::vector<ValueId>& ids = node.results[i].values;
      for (size_t k = 0; k < ids.size() && k < exported.given()[i].size(); ++k) {
        if (ids[k] != kNoValue) set(ids[k], exported.given()[i][k]);
      }
    }
  }

  void set(ValueId id, const std::string& name) {
    values_[index_of(id)] = {.name = name, .version = version_of(id), .known = {}};
  }

  /// The memory of `id` is `name` from now on, where `id` lies in it.
  void write_value(ValueId id, const std::string& name) {
    const Value& value = graph().values[index_of(id)];
    if (value.memory == id || covers(value, graph().values[index_of(value.memory)])) {
      ++version_of(id);
      for (size_t i = 0; i < values_.size(); ++i) {
        if (graph().values[i].memory == value.memory) values_[i].known = at::Tensor();
      }
      set(value.memory, name);
      set(id, name);
      return;
    }
    const auto n = static_cast<size_t>(value.node);
    NodeExport view(*this, n);
    view.require(value.node >= 0 && view.is_tensor(0), "a write to what it gives");
    write_value(view.id(0), put_back(view, name));
    set(id, name);
  }

  static bool covers(const Value& value, const Value& memory) {
    return value.sizes == memory.sizes && value.strides == memory.strides &&
           value.offset == memory.offset && value.dtype == memory.dtype;
  }

  /// What the view's tensor is, if the view is `name`.
  std::string put_back(NodeExport& view, const std::string& name) {
    const std::string& op = view.node().name;
    const auto is = [&](std::string_view base) {
      return op == base || (op.starts_with(base) && op[base.size()] == '.');
    };
    if (is("aten::view") || is("aten::_unsafe_view") || is("aten::unsqueeze") ||
        is("aten::squeeze") || is("aten::_reshape_alias") || is("aten::alias") ||
        is("aten::detach")) {
      return view.reshape(name, view.sizes(0));
    }
    if (is("aten::t") || is("aten::transpose")) {
      std::vector<int64_t> order(static_cast<size_t>(view.rank(0)));
      std::iota(order.begin(), order.end(), 0);
      const bool all = is("aten::t");
      if (order.size() > 1) {
        std::swap(order[static_cast<size_t>(all ? 0 : view.axis(1))],
                  order[static_cast<size_t>(all ? 1 : view.axis(2))]);
      }
      return view.transpose(name, order);
    }
    if (is("aten::permute")) {
      const std::vector<int64_t> axes = view.axes(1);
      std::vector<int64_t> inverse(axes.size());
      for (size_t i = 0; i < axes.size(); ++i) {
        inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
      }
      return view.transpose(name, inverse);
    }
    const bool one = is("aten::select");
    view.require(one || (is("aten::slice") && view.integer(4) == 1), "a write to what it gives");
    const int64_t axis = view.axis(1);
    const int64_t size = view.fixed(view.sizes(0)[static_cast<size_t>(axis)]);
    const auto place = [&](int64_t at) {
      return std::clamp(at < 0 ? at + size : at, int64_t{0}, size);
    };
    const int64_t from = view.is_none(2) ? 0 : place(view.integer(2));
    const int64_t to = one ? from + 1 : view.is_none(3) ? size : place(view.integer(3));
    const auto part = [&](int64_t begin, int64_t end) {
      return view.add("Slice",
                      {view.tensor(0), view.ints({begin}), view.ints({end}), view.ints({axis})});
    };
    Names parts;
    if (from > 0) parts.push_back(part(0, from));
    parts.push_back(one ? view.add("Unsqueeze", {name, view.ints({axis})}) : name);
    if (to < size) parts.push_back(part(to, size));
    return parts.size() == 1 ? parts[0] : view.add("Concat", parts, {attribute("axis", axis)});
  }

  const InferenceGraph& from_;
  const OnnxOptions& options_;
  OnnxModel model_;
  std::vector<Named> values_;
  std::vector<int64_t> versions_;  // by the first value of each memory
  std::vector<bool> varies_;       // nodes with a number that depends on the number of examples
  std::map<std::tuple<BatchTerm::Part, int32_t, int32_t, int32_t>, int64_t> terms_;
};

}  // namespace
}  // namespace strata::graph::onnx

namespace strata::graph {

void export_onnx(const InferenceGraph& graph, const std::string& path, const OnnxOptions& options) {
  onnx::Export(graph, options).write(path);
}

}  // namespace strata::graph
