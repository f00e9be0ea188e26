// Whether a step from outside may run. Each node is called with tensors for the meta device, which have
// sizes and no memory, or looked at by a rule; its results must be what the step says they are. So
// the sizes that the step declares are true before any of them is allocated, and their sum is the
// bound on its memory.
#include "graph/remote/step_check.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/checked_size.h"
#include "graph/fake.h"
#include "graph/operator_of.h"
#include "graph/remote/step_operators.h"
#include "graph/untrusted/call_rules.h"
#include "graph/untrusted/call_types.h"
#include "kernels/masked_recurrent.h"
#include "strata/core/error.h"

namespace strata::graph::remote {
namespace {

using Kind = Operand::Kind;

// Of ReduceOp, which this module does not know.
constexpr double kMeanReduction = 1;
constexpr double kLastReduction = 3;

constexpr size_t kNamedOperators = 20;

size_t place_in_step(ValueId id) { return static_cast<size_t>(id); }

bool writes_argument(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Its results are views of its first tensor.
bool makes_views(const c10::FunctionSchema& schema) {
  static const std::set<std::string_view> in_fact = {"aten::_unsafe_view", "aten::unsafe_split",
                                                     "aten::unsafe_split_with_sizes"};
  return in_fact.contains(schema.name()) ||
         std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  return str_cat(tensor.scalar_type(), " ", tensor.sizes(), " with strides ", tensor.strides());
}

class StepCheck {
 public:
  StepCheck(RemoteStep& step, const StepWorld& world)
      : step_(step),
        graph_(step.graph),
        world_(world),
        elements_(graph_.values.size(), 0),
        ready_(graph_.values.size(), false) {}

  void run() {
    count_parts();
    for (size_t i = 0; i < graph_.values.size(); ++i) check_value(i);
    check_inputs();
    refuse_unknown();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) find_writes(n);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) check_node(n);
    for (const ValueId id : graph_.outputs) {
      require(id == kNoValue || is_ready(id), "the list of outputs", "a value that no node makes");
    }
    step_.bytes = bytes_;
  }

 private:
  [[noreturn]] void refuse(ErrorCode code, const std::string& where, const std::string& what,
                           const std::string& hint) const {
    throw Error(code, str_cat("[standalone] ", graph_.name, ": ", where, " ", what, "; ", hint));
  }
  void require(bool holds, const std::string& where, const std::string& what) const {
    if (holds) return;
    refuse(ErrorCode::kInvalidArgument, where, "has " + what,
           "expected a step that a client of this version recorded");
  }
  std::string name_of(size_t n) const {
    return str_cat("node ", n, " (", graph_.nodes[n].name, ")");
  }

  void count_parts() const {
    uint64_t parts =
        graph_.values.size() + graph_.nodes.size() + graph_.inputs.size() + graph_.outputs.size();
    for (const Node& node : graph_.nodes) {
      for (const auto* operands : {&node.arguments, &node.results}) {
        parts += operands->size();
        for (const Operand& operand : *operands) parts += operand.values.size();
      }
    }
    if (parts > world_.parts) {
      refuse(ErrorCode::kResourceExhausted, "the step", str_cat("has ", parts, " parts"),
             str_cat("the server allows ", world_.parts));
    }
  }

  const Value& value(ValueId id) const { return graph_.values[place_in_step(id)]; }
  bool is_ready(ValueId id) const { return id != kNoValue && ready_[place_in_step(id)]; }

  void spend(uint64_t bytes) {
    if (bytes > world_.memory || bytes_ > world_.memory - bytes) {
      refuse(ErrorCode::kResourceExhausted, "the step",
             str_cat("takes more than ", world_.memory, " bytes, which the session may still take"),
             "use a smaller batch, or start the server with more --memory");
    }
    bytes_ += bytes;
  }

  /// Sizes can be multiplied, and values of one kind of memory lie within it.
  void check_value(size_t i) {
    const Value& value = graph_.values[i];
    const std::string where = str_cat("value ", i);
    const auto count = detail::checked_product<int64_t>(value.sizes);
    require(count && detail::checked_product<int64_t>(
                         {*count, static_cast<int64_t>(c10::elementSize(value.dtype))}),
            where, "sizes that are negative or too large");
    const std::optional<int64_t> end = end_of(value);
    require(end.has_value(), where, "strides that are too large");
    const bool root = place_in_step(value.memory) == i;
    if (value.kind == ValueKind::kResult) {
      if (root) elements_[i] = *end;
      require(!root || value.offset == 0, where, "an offset in a memory of its own");
    } else if (value.kind == ValueKind::kInput) {
      require(root && value.offset == 0 && *end == *count, where, "elements that are not dense");
      elements_[i] = *count;
      ready_[i] = true;
    } else {
      const auto state = static_cast<size_t>(step_.states[i]);
      require(state < world_.states.size(), where, "a tensor that the session does not have");
      const StepWorld::Held& held = world_.states[state];
      require(held.dtype == value.dtype && *end <= held.elements, where,
              "a part that the session's tensor does not have");
      elements_[i] = held.elements;
      ready_[i] = true;
    }
    require(!step_.numbers[i] || value.sizes.empty(), where, "a number with sizes");
    if (root) return;
    const Value& memory = graph_.values[place_in_step(value.memory)];
    const bool result = value.kind == ValueKind::kResult;
    require(memory.dtype == value.dtype && (result || memory.kind != ValueKind::kResult), where,
            "a memory of another kind");
    if (result) {
      require(*end <= elements_[place_in_step(value.memory)], where, "elements beyond its memory");
    }
  }

  /// Behind the last element, from the memory's begin on.
  static std::optional<int64_t> end_of(const Value& value) {
    int64_t last = value.offset;
    for (size_t d = 0; d < value.sizes.size(); ++d) {
      if (value.sizes[d] == 0) return value.offset;
      int64_t reach = 0;
      if (__builtin_mul_overflow(value.sizes[d] - 1, value.strides[d], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        return std::nullopt;
      }
    }
    if (__builtin_add_overflow(last, int64_t{1}, &last)) return std::nullopt;
    return last;
  }

  void check_inputs() const {
    std::set<ValueId> seen;
    for (const ValueId id : graph_.inputs) {
      require(id == kNoValue || (value(id).kind == ValueKind::kInput && seen.insert(id).second),
              "the list of inputs", "what is no input, or one twice");
    }
    const auto inputs =
        static_cast<size_t>(std::ranges::count(graph_.values, ValueKind::kInput, &Value::kind));
    require(seen.size() == inputs, "the list of inputs", "not all of them");
  }

  /// All of them at once, for the one who has to write the step otherwise.
  void refuse_unknown() const {
    std::optional<size_t> first;
    std::set<std::string> names;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::string& name = graph_.nodes[n].name;
      const bool known =
          step_.work[n].work != Work::kOperator || admission_of(name) != Admission::kRefused;
      if (known) continue;
      if (!first) first = n;
      if (names.size() < kNamedOperators) names.insert(name);
    }
    if (!first) return;
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    refuse(ErrorCode::kUnimplemented, name_of(*first),
           str_cat("is no operator that a server runs (in all: ", all, ")"),
           "write this part of the step with others (docs/standalone.md has the list), or run it "
           "without client = \"standalone\"");
  }

  /// By the schema, whatever the step says.
  void find_writes(size_t n) {
    Node& node = graph_.nodes[n];
    node.written.clear();
    if (step_.work[n].work != Work::kOperator) return;
    const std::string fault = untrusted::fault_of_call(node);
    if (!fault.empty()) {
      refuse(ErrorCode::kInvalidArgument, name_of(n), fault,
             "expected a step that a client of this version recorded");
    }
    const auto& parameters = operator_of(node).schema().arguments();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool unsaid = node.name == "aten::native_batch_norm" && (i == 3 || i == 4) &&
                          node.arguments[5].number.toBool();
      if (!writes_argument(parameters[i]) && !unsaid) continue;
      for (const ValueId id : node.arguments[i].values) {
        if (id != kNoValue) node.written.push_back(id);
      }
    }
    for (const ValueId id : node.written) {
      const ValueKind kind = value(value(id).memory).kind;
      require(kind != ValueKind::kInput && kind != ValueKind::kCapture, name_of(n),
              "a write to an argument of the step, or to a tensor that it only reads");
    }
  }

  void check_node(size_t n) {
    const Node& node = graph_.nodes[n];
    for (const Operand& argument : node.arguments) {
      for (const ValueId id : argument.values) {
        require(id == kNoValue || is_ready(id), name_of(n),
                "an argument that is not made before it");
      }
    }
    switch (step_.work[n].work) {
      case Work::kOperator:
        check_operator(n);
        break;
      case Work::kAllReduce:
      case Work::kAllGather:
        check_collective(n);
        break;
      case Work::kMergeMoments:
        check_moments(n);
        break;
      case Work::kAssign:
        check_assign(n);
        break;
      case Work::kMaskedSteps:
      case Work::kMaskedStepsBackward:
        check_masked_steps(n);
        break;
      case Work::kUpdate:
        check_update(n);
        break;
    }
  }

  // --- Operators

  void check_operator(size_t n) {
    const c10::OperatorHandle op = operator_of(graph_.nodes[n]);
    if (admission_of(graph_.nodes[n].name) == Admission::kByRule) {
      check_by_rule(n, op);
    } else {
      check_by_meta(n, op);
    }
  }

  void check_by_rule(size_t n, const c10::OperatorHandle& op) {
    const Node& node = graph_.nodes[n];
    std::string why;
    const auto expected = untrusted::apply_rule(untrusted::find_call_rule(node.name),
                                                untrusted::CallView(graph_, n), why);
    if (!expected) {
      refuse(ErrorCode::kInvalidArgument, name_of(n), "got " + why,
             "expected arguments that its operator takes");
    }
    auto next = expected->begin();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const bool written = writes_argument(op.schema().returns()[i]);
      for (const ValueId id : node.results[i].values) {
        require(next != expected->end(), name_of(n), "more results than it gives");
        const std::optional<untrusted::ExpectedResult>& result = *next++;
        if (id == kNoValue) {
          if (result) spend(bytes_of(result->dtype, result->sizes));
          continue;
        }
        require(result.has_value(), name_of(n), "a result that it does not give");
        const bool fits =
            value(id).dtype == result->dtype &&
            (value(id).sizes == result->sizes || value(id).sizes == std::vector<int64_t>{0});
        require(fits, name_of(n),
                str_cat("a result of another size than ", result->dtype, " ",
                        at::IntArrayRef(result->sizes)));
        if (written) {
          accept_written(n, id, node.arguments[0].values.at(0));
        } else {
          accept_new(n, id, result->dtype, result->sizes);
        }
      }
    }
    require(next == expected->end(), name_of(n), "fewer results than it gives");
  }

  static uint64_t bytes_of(at::ScalarType dtype, const std::vector<int64_t>& sizes) {
    return static_cast<uint64_t>(
               detail::checked_product<int64_t>(sizes).value_or(int64_t{1} << 56)) *
           c10::elementSize(dtype);
  }

  /// In memory of its own.
  void accept_new(size_t n, ValueId id, at::ScalarType dtype, const std::vector<int64_t>& sizes) {
    const Value& made = value(id);
    require(made.kind == ValueKind::kResult && made.node == static_cast<int32_t>(n) &&
                made.memory == id && !is_ready(id),
            name_of(n), "a result that another node makes");
    const auto most = static_cast<int64_t>(bytes_of(dtype, sizes) / c10::elementSize(dtype));
    require(elements_[place_in_step(id)] <= std::max<int64_t>(most, 1), name_of(n),
            "a result with gaps");
    spend(bytes_of(dtype, sizes));
    ready_[place_in_step(id)] = true;
  }

  /// An argument that was written.
  void accept_written(size_t n, ValueId id, ValueId argument) const {
    require(id == argument, name_of(n), "a result that is not the argument that it writes");
  }

  /// A view of `of`.
  void accept_view(size_t n, ValueId id, ValueId of) {
    const Value& made = value(id);
    require(made.memory == value(of).memory, name_of(n), "a view of another memory");
    if (is_ready(id)) return;
    require(made.kind == ValueKind::kResult && made.node == static_cast<int32_t>(n), name_of(n),
            "a result that another node makes");
    ready_[place_in_step(id)] = true;
  }

  at::Tensor on_meta(ValueId id) const {
    if (id == kNoValue) return {};
    const Value& value = this->value(id);
    const int64_t elements = elements_[place_in_step(value.memory)];
    const at::Tensor memory = at::detail::empty_strided_meta({elements}, {1}, value.dtype);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(memory.storage()), c10::DispatchKeySet(c10::DispatchKey::Meta),
        c10::scalarTypeToTypeMeta(value.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes, value.strides, value.offset);
    if (step_.numbers[place_in_step(id)]) {
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return tensor;
  }

  torch::jit::Stack arguments_on_meta(const Node& node, const c10::FunctionSchema& schema) const {
    torch::jit::Stack stack;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Operand& argument = node.arguments[i];
      const c10::Argument& parameter = schema.arguments()[i];
      if (argument.kind == Kind::kNumber) {
        if (parameter.name() == "device") {
          stack.emplace_back(c10::Device(c10::kMeta));
        } else {
          stack.push_back(argument.number);
        }
      } else if (argument.kind == Kind::kValue) {
        stack.emplace_back(on_meta(argument.values[0]));
      } else if (parameter.type()->isSubtypeOf(*c10::ListType::ofTensors())) {
        c10::List<at::Tensor> list;
        for (const ValueId id : argument.values) list.push_back(on_meta(id));
        stack.emplace_back(std::move(list));
      } else {
        c10::List<std::optional<at::Tensor>> list;
        for (const ValueId id : argument.values) {
          list.push_back(id == kNoValue ? std::nullopt : std::optional(on_meta(id)));
        }
        stack.emplace_back(std::move(list));
      }
    }
    return stack;
  }

  void check_by_meta(size_t n, const c10::OperatorHandle& op) {
    const Node& node = graph_.nodes[n];
    const c10::FunctionSchema& schema = op.schema();
    torch::jit::Stack stack = arguments_on_meta(node, schema);
    try {
      const at::NoGradGuard no_grad;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op.callBoxed(stack);
    } catch (const c10::Error& error) {
      refuse(ErrorCode::kInvalidArgument, name_of(n),
             str_cat("got arguments that it does not take: ", error.what_without_backtrace()),
             "expected a step that a client of this version recorded");
    } catch (const std::exception& error) {
      refuse(ErrorCode::kInvalidArgument, name_of(n),
             str_cat("got arguments that it does not take: ", error.what()),
             "expected a step that a client of this version recorded");
    }
    const bool views = makes_views(schema);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<ValueId>& ids = node.results[i].values;
      const std::vector<at::Tensor> made = stack[i].isTensor()
                                               ? std::vector<at::Tensor>{stack[i].toTensor()}
                                               : stack[i].toTensorVector();
      require(made.size() == ids.size(), name_of(n), "another number of results");
      for (size_t k = 0; k < ids.size(); ++k) {
        const bool written = writes_argument(schema.returns()[i]);
        accept_result(n, ids[k], made[k], written, views);
      }
    }
  }

  void accept_result(size_t n, ValueId id, const at::Tensor& made, bool written, bool view) {
    require(made.defined() && made.layout() == at::kStrided, name_of(n),
            "a result that is no array");
    if (id == kNoValue) {
      if (!written && !view) spend(made.nbytes());
      return;
    }
    const Value& declared = value(id);
    const bool same = made.scalar_type() == declared.dtype &&
                      made.sizes() == at::IntArrayRef(declared.sizes) &&
                      made.strides() == at::IntArrayRef(declared.strides) &&
                      made.storage_offset() == declared.offset;
    require(same, name_of(n),
            str_cat("a result of ", declared.dtype, " ", at::IntArrayRef(declared.sizes),
                    " with strides ", at::IntArrayRef(declared.strides), ", where it gives ",
                    text_of(made)));
    const ValueId first = first_tensor(graph_.nodes[n]);
    if (written) {
      accept_written(n, id, first);
    } else if (view) {
      require(first != kNoValue, name_of(n), "a view of nothing");
      accept_view(n, id, first);
    } else {
      accept_new(n, id, declared.dtype, declared.sizes);
    }
  }

  static ValueId first_tensor(const Node& node) {
    for (const Operand& argument : node.arguments) {
      if (!argument.values.empty()) return argument.values[0];
    }
    return kNoValue;
  }

  // --- Work with other replicas

  /// The tensors of a node that is no operator, and has one number.
  const std::vector<ValueId>& tensors_of(size_t n) const {
    require(step_.work[n].numbers.size() == 1, name_of(n), "other numbers than one");
    return list_of(n);
  }

  /// The tensors of a node that is no operator.
  const std::vector<ValueId>& list_of(size_t n) const {
    const Node& node = graph_.nodes[n];
    require(node.arguments.size() == 1 && node.arguments[0].kind == Kind::kValues, name_of(n),
            "other arguments than a list of tensors");
    require(node.results.size() == 1 && node.results[0].kind == Kind::kValues, name_of(n),
            "other results than a list of tensors");
    require(std::ranges::all_of(step_.work[n].numbers,
                                [](double number) { return std::isfinite(number); }),
            name_of(n), "a number that is none");
    return node.arguments[0].values;
  }

  void check_collective(size_t n) {
    const std::vector<ValueId>& inputs = tensors_of(n);
    const std::vector<ValueId>& results = graph_.nodes[n].results[0].values;
    require(inputs.size() == 1 && inputs[0] != kNoValue && results.size() == 1, name_of(n),
            "another number of tensors than one");
    const Value& input = value(inputs[0]);
    const double number = step_.work[n].numbers[0];
    std::vector<int64_t> sizes = input.sizes;
    at::ScalarType dtype = input.dtype;
    if (step_.work[n].work == Work::kAllReduce) {
      require(number >= 0 && number <= kLastReduction && number == std::floor(number) &&
                  dtype != at::kBool,
              name_of(n), "an unknown reduction");
      if (number == kMeanReduction && !at::isFloatingType(dtype)) dtype = at::kDouble;
    } else {
      require(
          number >= 0 && number < static_cast<double>(sizes.size()) && number == std::floor(number),
          name_of(n), "an axis that its tensor does not have");
      const auto axis = static_cast<size_t>(number);
      require(!__builtin_mul_overflow(sizes[axis], world_.replicas, &sizes[axis]), name_of(n),
              "a result that is too large");
    }
    accept_list(n, dtype, {sizes});
  }

  static bool is_gradient(const Value& gradient, const StepWorld::Parameter& parameter) {
    return gradient.sizes == parameter.sizes && gradient.dtype == parameter.dtype;
  }
  /// Which rows, `[1, n]`, and their values, `[n, ...]`.
  bool is_gradient_of_rows(ValueId rows, ValueId values,
                           const StepWorld::Parameter& parameter) const {
    if (rows == kNoValue || values == kNoValue || parameter.sizes.empty()) return false;
    const std::vector<int64_t>& which = value(rows).sizes;
    if (which.size() != 2 || which[0] != 1 || value(rows).dtype != at::kLong) return false;
    std::vector<int64_t> sizes = parameter.sizes;
    sizes[0] = which[1];
    return value(values).sizes == sizes && value(values).dtype == parameter.dtype;
  }

  /// Means and sums of squares of each channel; the results are those of all replicas, and the number of
  /// elements.
  void check_moments(size_t n) {
    const std::vector<ValueId>& inputs = tensors_of(n);
    const std::vector<ValueId>& results = graph_.nodes[n].results[0].values;
    require(
        inputs.size() == 2 && inputs[0] != kNoValue && inputs[1] != kNoValue && results.size() == 3,
        name_of(n), "other tensors than a mean and squares");
    const std::vector<int64_t> channels = value(inputs[0]).sizes;
    for (const ValueId id : inputs) {
      require(channels.size() == 1 && value(id).sizes == channels && value(id).dtype == at::kDouble,
              name_of(n), "what is not one number a channel");
    }
    require(step_.work[n].numbers[0] >= 0, name_of(n), "a negative number of elements");
    accept_list(n, at::kDouble, {channels, channels, {}});
  }

  /// A recurrent layer behind a mask, or its backward.
  void check_masked_steps(size_t n) {
    constexpr size_t kWeights = 4;
    const HostWork& work = step_.work[n];
    const bool backward = work.work == Work::kMaskedStepsBackward;
    const std::vector<ValueId>& tensors = list_of(n);
    const auto layer = kernels::MaskedLayer::of_numbers(work.numbers);
    require(layer.has_value(), name_of(n), "numbers that no recurrent layer has");
    const size_t outputs = layer->num_outputs();
    const size_t first = backward ? outputs : 0;
    require(tensors.size() == first + 3 + layer->num_states + kWeights, name_of(n),
            "another number of tensors");
    const auto given = [&](size_t i) { return tensors[first + i]; };
    for (size_t i = 0; i < tensors.size() - first; ++i) {
      const bool may_lack = i == 2 || i >= 3 + layer->num_states + 2;
      require(may_lack || given(i) != kNoValue, name_of(n), "a tensor that is absent");
    }
    const Value& rows = value(given(0));
    const Value& shown = value(given(1));
    const Value& state = value(given(3));
    require(rows.sizes.size() == 2 && state.sizes.size() == 2 && shown.sizes.size() == 2 &&
                shown.dtype == at::kBool && shown.sizes[1] == state.sizes[0] &&
                shown.sizes[0] > 0 && state.sizes[0] > 0 && state.sizes[1] > 0 &&
                detail::checked_product<int64_t>(shown.sizes) == rows.sizes[0],
            name_of(n), "rows, a mask and states that do not fit each other");
    const int64_t units = state.sizes[1];
    const int64_t gates = static_cast<int64_t>(layer->num_gates());
    int64_t columns = 0;
    require(!__builtin_mul_overflow(gates, units, &columns), name_of(n), "too many units");
    std::vector<std::vector<int64_t>> expected = {rows.sizes, shown.sizes, {rows.sizes[0]}};
    expected.insert(expected.end(), layer->num_states, state.sizes);
    expected.insert(expected.end(),
                    {{rows.sizes[1], columns}, {units, columns}, {columns}, {columns}});
    for (size_t i = 0; i < expected.size(); ++i) {
      if (given(i) == kNoValue) continue;
      const at::ScalarType dtype = i == 1 ? at::kBool : i == 2 ? at::kLong : at::kFloat;
      require(value(given(i)).sizes == expected[i] && value(given(i)).dtype == dtype, name_of(n),
              str_cat("tensor ", i, " of another size or dtype"));
    }

    std::vector<std::vector<int64_t>> of_outputs = {state.sizes};
    if (layer->options.sequence) of_outputs.push_back({rows.sizes[0], units});
    of_outputs.insert(of_outputs.end(), layer->num_states, state.sizes);
    std::vector<std::vector<int64_t>> results;
    if (!backward) {
      results = of_outputs;
    } else {
      for (size_t i = 0; i < outputs; ++i) {
        require(tensors[i] == kNoValue || (value(tensors[i]).sizes == of_outputs[i] &&
                                           value(tensors[i]).dtype == at::kFloat),
                name_of(n), "a gradient that does not fit");
      }
      for (size_t i = 0; i < layer->wanted.size(); ++i) {
        const size_t of = i == 0 ? 0 : i + 2;  // behind the mask and the words
        if (!layer->wanted[i]) continue;
        require(given(of) != kNoValue, name_of(n), "a gradient of what is absent");
        results.push_back(expected[of]);
      }
      // It computes forward again.
      for (const auto& sizes : of_outputs) spend(bytes_of(at::kFloat, sizes));
    }
    // What a run keeps of each row and gate.
    spend(bytes_of(at::kFloat, {rows.sizes[0] + state.sizes[0], 2 * columns}));
    accept_list(n, at::kFloat, results);
  }

  /// The results of a node that is no operator, of those sizes.
  void accept_list(size_t n, at::ScalarType dtype, const std::vector<std::vector<int64_t>>& sizes) {
    const std::vector<ValueId>& results = graph_.nodes[n].results[0].values;
    require(results.size() == sizes.size(), name_of(n), "another number of results");
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == kNoValue) {
        spend(bytes_of(dtype, sizes[i]));
        continue;
      }
      const Value& made = value(results[i]);
      require(made.dtype == dtype && made.sizes == sizes[i], name_of(n),
              "a result of another size");
      accept_new(n, results[i], dtype, sizes[i]);
    }
  }

  /// A tensor of the session, whole, and its new value.
  void check_assign(size_t n) {
    const std::vector<ValueId>& tensors = tensors_of(n);
    require(tensors.size() == 2 && tensors[0] != kNoValue && tensors[1] != kNoValue &&
                graph_.nodes[n].results[0].values.empty(),
            name_of(n), "other tensors than a variable and a value");
    const Value& variable = value(tensors[0]);
    const int64_t state = step_.states[place_in_step(tensors[0])];
    require(state >= 0 && variable.offset == 0 &&
                detail::checked_product<int64_t>(variable.sizes) ==
                    world_.states[static_cast<size_t>(state)].elements,
            name_of(n), "what is no variable");
    require(value(tensors[1]).sizes == variable.sizes && value(tensors[1]).dtype == variable.dtype,
            name_of(n), "a value of another size");
    step_.work[n].update = static_cast<size_t>(state);
  }

  void check_update(size_t n) const {
    const std::vector<ValueId>& gradients = tensors_of(n);
    const HostWork& work = step_.work[n];
    require(work.update < world_.updates.size(), name_of(n),
            "an optimizer that the session does not have");
    const auto& parameters = world_.updates[work.update];
    require(work.sparse.empty() || work.sparse.size() == parameters.size(), name_of(n),
            "another number of sparse dimensions than of variables");
    require(std::ranges::all_of(work.sparse, [](int64_t each) { return each == 0 || each == 1; }),
            name_of(n), "a gradient of several sparse dimensions");
    const auto is_sparse = [&](size_t i) { return !work.sparse.empty() && work.sparse[i] == 1; };
    const auto sparse = static_cast<size_t>(std::ranges::count(work.sparse, 1));
    require(graph_.nodes[n].results[0].values.empty() && work.numbers[0] >= 0 &&
                gradients.size() == parameters.size() + sparse,
            name_of(n), "other tensors than one gradient for each variable");
    auto next = gradients.begin();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ValueId id = *next++;
      const bool fits = is_sparse(i) ? is_gradient_of_rows(id, *next++, parameters[i])
                                     : id == kNoValue || is_gradient(value(id), parameters[i]);
      require(fits, name_of(n), str_cat("gradient ", i, " of another size than its variable"));
    }
    for (size_t before = 0; before < n; ++before) {
      const HostWork& other = step_.work[before];
      require(other.work != Work::kUpdate || other.update != work.update, name_of(n),
              "a second update by one optimizer");
    }
  }

  RemoteStep& step_;
  Graph& graph_;
  const StepWorld& world_;
  std::vector<int64_t> elements_;  // by the first value of each memory
  std::vector<bool> ready_;        // made before the node that is looked at
  uint64_t bytes_ = 0;
};

}  // namespace

void check_step(RemoteStep& step, const StepWorld& world) { StepCheck(step, world).run(); }

}  // namespace strata::graph::remote
