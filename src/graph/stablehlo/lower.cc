// A graph as StableHLO: each node is given to its rule.
//
// Values of a graph are in memories, which a node may write; a program's values are made once. So a memory
// has contents, an array, and a version, which a write raises. A view is an array of its own that is good
// for one version; after a write it is made again when it is read, by its node's rule, or by its strides if
// no node made it. A write to a view becomes one to the tensor that it is a part of, by the rule's `put`, and
// so on up to the whole memory; where a rule has none, the strides say which elements are written.
#include "graph/stablehlo/lower.h"

#include <algorithm>
#include <optional>

#include "graph/describe_node.h"
#include "graph/stablehlo/loop.h"
#include "graph/stablehlo/rules.h"
#include "strata/core/error.h"

namespace strata::graph::stablehlo {
namespace {

/// Larger constants are arguments of the program rather than a part of its text.
constexpr int64_t kLargestConstant = 1024;

size_t at_index(ValueId id) { return static_cast<size_t>(id); }

bool is_out_overload(std::string_view name) {
  const size_t dot = name.find('.');
  return dot != std::string_view::npos && name.substr(dot).ends_with("out");
}

class Lowering final : public LoweringState {
 public:
  Lowering(const Trace& trace, const LowerOptions& options)
      : trace_(trace),
        options_(options),
        memories_(trace.graph.values.size()),
        values_(trace.graph.values.size()) {}

  LoweredGraph run() {
    make_memories();
    for (size_t n = 0; n < graph().nodes.size(); ++n) lower_node(n);
    return finish();
  }

  const Graph& graph() const override { return trace_.graph; }
  Program& program() override { return program_; }
  int64_t num_replicas() const override { return options_.num_replicas; }

  Array read(ValueId id) override {
    Known& known = values_[at_index(id)];
    const Memory& memory = memory_of(id);
    if (known.array.program != nullptr && known.version == memory.version) return known.array;
    const Value& value = value_of(id);
    if (geometry_of(value) == memory.whole) {
      known = {.array = memory.contents, .version = memory.version};
    } else if (value.node >= 0 && value.memory != id) {
      lower_node(static_cast<size_t>(value.node));
      STRATA_DCHECK(known.version == memory.version);
    } else {
      known = {.array = read_by_strides(id), .version = memory.version};
    }
    return known.array;
  }

  Array read_by_strides(ValueId id) override {
    const Memory& memory = memory_of(id);
    return read_strided(memory.contents, memory.whole, geometry_of(value_of(id)));
  }

  Array random_bits(at::ScalarType dtype, const Sizes& sizes) override {
    if (!random_) {
      random_parameter_ = parameters_.size();
      random_ = add_parameter({.kind = Parameter::Kind::kRandom,
                               .where = {.sizes = {2}, .strides = {1}},
                               .dtype = at::ScalarType::UInt64});
    }
    const std::vector<Array> results = program_.emit_all(
        str_cat("\"stablehlo.rng_bit_generator\"(", random_->name,
                ") {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (", type_of(*random_),
                ") -> (", type_of(*random_), ", ", type_of(dtype, sizes), ")"),
        {{random_->dtype, random_->sizes}, {dtype, sizes}});
    random_ = results[0];
    return results[1];
  }

 private:
  /// Of the first value of each memory.
  struct Memory {
    Geometry whole;
    Array contents;
    int64_t version = 0;
    std::optional<size_t> parameter = std::nullopt;
  };
  struct Known {
    Array array;
    int64_t version = -1;
  };

  const Value& value_of(ValueId id) const { return graph().values[at_index(id)]; }
  Memory& memory_of(ValueId id) { return memories_[at_index(value_of(id).memory)]; }

  Array add_parameter(Parameter parameter) {
    const Array array = program_.parameter(parameter.dtype, parameter.where.sizes);
    parameters_.push_back(std::move(parameter));
    return array;
  }

  /// Those that exist before the first node.
  void make_memories() {
    std::vector<std::vector<ValueId>> parts(graph().values.size());
    for (size_t i = 0; i < graph().values.size(); ++i) {
      const Value& value = graph().values[i];
      if (value.kind != ValueKind::kResult) {
        parts[at_index(value.memory)].push_back(static_cast<ValueId>(i));
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].empty()) continue;
      std::vector<Geometry> geometries;
      for (const ValueId id : parts[i]) geometries.push_back(geometry_of(value_of(id)));
      const bool one = geometries.size() == 1 && is_dense(geometries[0]);
      Memory& memory = memories_[i];
      memory.whole = one ? geometries[0] : span_of(geometries);
      begin(memory, static_cast<ValueId>(i));
    }
  }

  void begin(Memory& memory, ValueId id) {
    const Value& value = value_of(id);
    Parameter parameter{
        .tensor = value.tensor, .memory = id, .where = memory.whole, .dtype = value.dtype};
    if (value.kind == ValueKind::kInput) {
      const auto place = std::ranges::find(graph().inputs, id);
      if (place == graph().inputs.end()) return;  // an earlier gradient, which no node reads
      parameter.input = static_cast<size_t>(place - graph().inputs.begin());
    } else {
      parameter.kind = Parameter::Kind::kCapture;
      const at::Tensor part =
          value.tensor.as_strided(memory.whole.sizes, memory.whole.strides, memory.whole.offset);
      if (value.kind == ValueKind::kConstant && part.numel() <= kLargestConstant) {
        memory.contents = program_.constant(part);
        return;
      }
    }
    memory.parameter = parameters_.size();
    memory.contents = add_parameter(std::move(parameter));
  }

  /// "aten::add_.Tensor" is the rule of "aten::add.Tensor", and a write.
  static std::string name_of_rule(const Node& node) {
    std::string name = node.name;
    const size_t dot = std::min(name.find('.'), name.size());
    if (!node.written.empty() && dot > 0 && name[dot - 1] == '_') name.erase(dot - 1, 1);
    return name;
  }

  void lower_node(size_t n) {
    const Node& node = graph().nodes[n];
    const std::string name = name_of_rule(node);
    const Rule* const rule = find_rule(name);
    STRATA_CHECK(rule != nullptr, kUnimplemented, "[stablehlo] ", graph().name, ": ",
                 describe_node(graph(), n), node.host ? " is a function of the host and" : "",
                 " has no rule, so that strata cannot compile it; write this part of the step with "
                 "other operators, or run it as it is written");
    NodeLowering lowered(*this, n);
    rule->lower(lowered);
    for (const auto& [id, array] : lowered.writes()) write(id, array);
    if (name != node.name || is_out_overload(node.name)) {
      STRATA_DCHECK(lowered.given().size() >= node.written.size());
      for (size_t i = 0; i < node.written.size(); ++i) {
        const Value& target = value_of(node.written[i]);
        const Array given = convert(lowered.given()[i].at(0), target.dtype);
        write(node.written[i], broadcast_to(given, target.sizes));
      }
      return;
    }
    for (size_t i = 0; i < node.results.size() && i < lowered.given().size(); ++i) {
      const std::vector<ValueId>& ids = node.results[i].values;
      for (size_t k = 0; k < ids.size() && k < lowered.given()[i].size(); ++k) {
        if (ids[k] != kNoValue) set(n, ids[k], lowered.given()[i][k]);
      }
    }
  }

  /// A node's result: a memory of its own, or a view.
  void set(size_t n, ValueId id, const Array& given) {
    const Value& value = value_of(id);
    STRATA_CHECK(given.sizes == value.sizes, kInternal, "[stablehlo] ", graph().name, ": ",
                 describe_node(graph(), n), " was lowered to ", at::IntArrayRef(given.sizes),
                 "; expected ", at::IntArrayRef(value.sizes), "; report it");
    const Array array = convert(given, value.dtype);
    Memory& memory = memory_of(id);
    if (value.memory == id && value.node == static_cast<int32_t>(n)) {
      // A result that is one of the arguments' memories is a view, so this is made here.
      memory.whole = geometry_of(value);
      memory.contents = array;
    }
    values_[at_index(id)] = {.array = array, .version = memory.version};
  }

  void write(ValueId id, const Array& array) {
    const Value& value = value_of(id);
    Memory& memory = memory_of(id);
    const Geometry geometry = geometry_of(value);
    const Rule* rule = nullptr;
    if (geometry != memory.whole && value.node >= 0 && value.memory != id) {
      rule = find_rule(graph().nodes[static_cast<size_t>(value.node)].name);
    }
    if (rule != nullptr && rule->put != nullptr) {
      const NodeLowering view(*this, static_cast<size_t>(value.node));
      write(view.id(0), rule->put(view, read(view.id(0)), array));
    } else {
      memory.contents = write_strided(memory.contents, memory.whole, geometry, array);
      ++memory.version;
    }
    values_[at_index(id)] = {.array = array, .version = memory.version};
  }

  LoweredGraph finish() {
    std::vector<Array> results;
    for (const ValueId id : graph().outputs) {
      if (id != kNoValue) results.push_back(read(id));
    }
    const size_t num_outputs = results.size();
    for (const GradientEffect& effect : trace_.effects) {
      for (const ValueId id : effect.gradients) results.push_back(read(id));
    }
    const size_t num_gradients = results.size() - num_outputs;
    for (const Memory& memory : memories_) {
      if (!memory.parameter || memory.version == 0) continue;
      Parameter& parameter = parameters_[*memory.parameter];
      // An input that is written is the caller's tensor, which the program does not change.
      STRATA_CHECK(parameter.kind != Parameter::Kind::kInput, kUnimplemented, "[stablehlo] ",
                   graph().name, ": it writes its input ", parameter.input,
                   ", which strata has no StableHLO for; write a copy of it, or return the result");
      parameter.next = static_cast<int64_t>(results.size());
      results.push_back(memory.contents);
    }
    if (random_) {
      parameters_[random_parameter_].next = static_cast<int64_t>(results.size());
      results.push_back(*random_);
    }
    std::vector<int64_t> next;
    std::vector<bool> is_input;
    for (const Parameter& parameter : parameters_) {
      next.push_back(parameter.next);
      is_input.push_back(parameter.kind == Parameter::Kind::kInput);
    }
    const std::string functions = options_.steps_per_run == 1
                                      ? program_.function("main", results, next)
                                      : loop_of(program_, results,
                                                {.steps = options_.steps_per_run,
                                                 .is_input = is_input,
                                                 .next = next,
                                                 .num_stacked = num_outputs});
    return {.text = module_of(graph().name, functions, options_.num_replicas),
            .parameters = std::move(parameters_),
            .num_outputs = num_outputs,
            .num_gradients = num_gradients,
            .num_results = results.size()};
  }

  const Trace& trace_;
  const LowerOptions options_;
  Program program_;
  std::vector<Memory> memories_;
  std::vector<Known> values_;
  std::vector<Parameter> parameters_;
  std::optional<Array> random_;
  size_t random_parameter_ = 0;
};

}  // namespace

LoweredGraph lower(const Trace& trace, const LowerOptions& options) {
  return Lowering(trace, options).run();
}

}  // namespace strata::graph::stablehlo
