#include "graph/tracer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "core/host_effect.h"
#include "graph/fake.h"
#include "graph/inference_mode.h"
#include "graph/remote/step_runner.h"
#include "graph/trace_key.h"
#include "strata/core/error.h"

namespace strata::graph {
namespace {

using torch::jit::Stack;

thread_local Tracer* this_threads_tracer = nullptr;

void refuse_host_effect(std::string_view what) {
  Tracer::current().refuse(str_cat(what, " by the step's code, which replays leave out"),
                           "do it in a callback, or run this function eagerly");
}

class CurrentTracer {
 public:
  explicit CurrentTracer(Tracer* tracer) : before_(this_threads_tracer) {
    this_threads_tracer = tracer;
    // A function's users know of it (strata/graph/function.h); fit's need not.
    if (tracer->others_may_change()) detail::host_effect_handler() = refuse_host_effect;
  }
  ~CurrentTracer() {
    this_threads_tracer = before_;
    detail::host_effect_handler() = nullptr;
  }
  CurrentTracer(const CurrentTracer&) = delete;
  CurrentTracer& operator=(const CurrentTracer&) = delete;

 private:
  Tracer* before_;
};

std::string full_name(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Results share an argument's memory, by the schema or in fact.
bool is_view(const c10::OperatorHandle& op) {
  static const std::set<std::string_view> in_fact = {"aten::_unsafe_view", "aten::unsafe_split",
                                                     "aten::unsafe_split_with_sizes"};
  if (in_fact.contains(op.schema().name())) return true;
  return std::ranges::any_of(op.schema().returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

/// Every result is an argument that was written.
bool only_writes(const c10::FunctionSchema& schema) {
  return std::ranges::all_of(schema.returns(), writes);
}

bool returns_tensors(const c10::FunctionSchema& schema) {
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    const auto& type = *result.type();
    return type.isSubtypeOf(*c10::TensorType::get()) ||
           type.isSubtypeOf(*c10::ListType::ofTensors());
  });
}

/// Operators that tell something of elements to the program.
bool asks_for_elements(std::string_view name) {
  static const std::set<std::string_view> names = {
      "aten::_local_scalar_dense", "aten::item",         "aten::equal",
      "aten::is_nonzero",          "aten::_is_all_true", "aten::_is_any_true"};
  return names.contains(name);
}

/// Operators that give a tensor other memory, which a graph has no words for.
bool changes_memory(std::string_view name) {
  return name == "aten::set_" || name == "aten::resize_" || name == "aten::resize_as_" ||
         name == "aten::set_data";
}

/// A sparse tensor is made of two dense ones, which are what a graph knows of it.
bool makes_sparse(std::string_view name) {
  return name == "aten::_sparse_coo_tensor_with_dims_and_tensors";
}

/// Of a sparse tensor that a host function takes; none: a dense one.
struct SparseLayout {
  std::vector<int64_t> sizes;
  int64_t sparse_dim = 0;
  bool coalesced = false;
};
using SparseLayouts = std::vector<std::optional<SparseLayout>>;

/// `function`, which gets its sparse inputs as their indices and values.
HostFunction with_sparse_inputs(HostFunction function, SparseLayouts layouts) {
  return [function = std::move(function),
          layouts = std::move(layouts)](const std::vector<at::Tensor>& flat) {
    std::vector<at::Tensor> inputs;
    auto next = flat.begin();
    for (const std::optional<SparseLayout>& layout : layouts) {
      if (!layout) {
        inputs.push_back(*next++);
        continue;
      }
      const at::Tensor& indices = *next++;
      const at::Tensor& values = *next++;
      inputs.push_back(at::_sparse_coo_tensor_with_dims_and_tensors(
          layout->sparse_dim, static_cast<int64_t>(layout->sizes.size()) - layout->sparse_dim,
          layout->sizes, indices, values, values.options().layout(at::kSparse), layout->coalesced));
    }
    return function(inputs);
  };
}

/// Arguments that an operator writes although its schema does not say so.
std::vector<size_t> unsaid_writes(const c10::OperatorHandle& op, const Stack& stack) {
  static const std::set<std::string_view> names = {
      "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"};
  if (names.contains(op.schema().name()) && stack[5].toBool()) return {3, 4};
  return {};
}

/// No index is a mask, of which as many elements are taken as it has ones.
bool indexes_by_position(const c10::IValue& indices) {
  return std::ranges::none_of(
      indices.toOptionalTensorVector(), [](const std::optional<at::Tensor>& index) {
        return index && index->defined() &&
               (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
      });
}

/// An operator that writes all elements of its first argument and reads none of them.
bool overwrites(std::string_view name) {
  static const std::set<std::string_view> names = {
      "aten::fill_",    "aten::zero_",      "aten::copy_",   "aten::normal_",
      "aten::uniform_", "aten::bernoulli_", "aten::random_", "aten::exponential_"};
  return names.contains(name);
}

/// What is recorded for others has values on the CPU alone.
bool may_be_on_devices() { return !tracing_inference() && !records_for_elsewhere(); }

Operand number(c10::IValue value) {
  return {.kind = Operand::Kind::kNumber, .number = std::move(value)};
}

bool is_whole(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.nbytes() == tensor.storage().nbytes();
}

}  // namespace

Tracer::Tracer(const std::string& name, Layouts& layouts) : layouts_(layouts) {
  trace_.graph.name = name;
}

Tracer& Tracer::current() {
  STRATA_CHECK(this_threads_tracer != nullptr, kInternal,
               "[graph] an operator of another thread than the function's was to be recorded; make "
               "the function's threads outside it");
  return *this_threads_tracer;
}

bool Tracer::active() { return this_threads_tracer != nullptr; }

void Tracer::refuse(const std::string& what, const std::string& hint) const {
  refuse_at(describe_here(), what, hint);
}

/// @param place  Where `what` is; empty: it is not known, but where the last operator was called is.
void Tracer::refuse_at(const std::string& place, const std::string& what,
                       const std::string& hint) const {
  const std::vector<Node>& nodes = trace_.graph.nodes;
  std::string after = nodes.empty()
                          ? "at its begin"
                          : str_cat("after operator ", nodes.size(), ", ", nodes.back().name);
  if (place.empty() && !nodes.empty()) after += describe_place(nodes.back());
  STRATA_CHECK(false, kFailedPrecondition, "[function] ", trace_.graph.name, ": ", after, ": ",
               what, place.empty() ? "" : ", ", place, "; ", hint);
  std::abort();  // not reached
}

Trace Tracer::trace(const std::string& name, const std::vector<at::Tensor>& inputs,
                    const Step& step, Layouts& layouts, const std::vector<at::Tensor>& leaves,
                    bool others_may_change) {
  STRATA_CHECK(!active(), kInternal, "[graph] trace: a trace within a trace");
  register_trace_kernels();
  Tracer tracer(name, layouts);
  tracer.others_may_change_ = others_may_change;
  std::vector<at::Tensor> stand_ins;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) {
      stand_ins.emplace_back();
      tracer.trace_.graph.inputs.push_back(kNoValue);
      continue;
    }
    stand_ins.push_back(fake_like(input));
    Memory& memory = tracer.memory_of(stand_ins.back(), Origin::kStep);
    tracer.trace_.graph.inputs.push_back(
        tracer.add_value(stand_ins.back(), ValueKind::kInput, memory));
    stand_ins.back().set_requires_grad(input.requires_grad());
  }
  for (const at::Tensor& leaf : leaves) tracer.expect_gradient(leaf);
  try {
    const CurrentTracer current(&tracer);
    const OneAutogradThread here;
    std::vector<at::Tensor> outputs;
    {
      const TraceKeyGuard recorded;
      outputs = step(stand_ins);
    }
    tracer.finish(outputs);
    outputs.clear();
    stand_ins.clear();
  } catch (const c10::Error& error) {
    tracer.put_gradients_back();
    if (!is_access_to_fake(error)) throw;
    tracer.refuse_at(
        /*place=*/"",
        "the elements of a tensor were asked for (data_ptr, accessor), and a trace computes none",
        "read them outside the function, from a tensor that it returns");
  } catch (...) {
    tracer.put_gradients_back();
    throw;
  }
  tracer.put_gradients_back();
  tracer.leaves_.clear();
  tracer.trace_.leaves_tensors = tracer.leaves_tensors();
  return std::move(tracer.trace_);
}

Tracer::Memory& Tracer::memory_of(const at::Tensor& tensor, Origin origin) {
  const c10::Storage& storage = tensor.storage();
  return memories_
      .try_emplace(storage.unsafeGetStorageImpl(),
                   Memory{.storage = storage.getWeakStorageImpl(), .origin = origin, .values = {}})
      .first->second;
}

ValueId Tracer::find(const Memory& memory, const at::Tensor& tensor) const {
  for (const ValueId id : memory.values) {
    const Value& value = trace_.graph.values[static_cast<size_t>(id)];
    if (value.offset == tensor.storage_offset() && value.dtype == tensor.scalar_type() &&
        at::IntArrayRef(value.sizes) == tensor.sizes() &&
        at::IntArrayRef(value.strides) == tensor.strides()) {
      return id;
    }
  }
  return kNoValue;
}

ValueId Tracer::add_value(const at::Tensor& tensor, ValueKind kind, Memory& memory) {
  const auto id = static_cast<ValueId>(trace_.graph.values.size());
  memory.values.push_back(id);
  Value value{.kind = kind,
              .dtype = tensor.scalar_type(),
              .device = tensor.device(),
              .sizes = tensor.sizes().vec(),
              .strides = tensor.strides().vec(),
              .offset = tensor.storage_offset(),
              .memory = memory.values[0]};
  if (kind == ValueKind::kResult) value.node = static_cast<int32_t>(trace_.graph.nodes.size());
  if (kind == ValueKind::kCapture || kind == ValueKind::kConstant) value.tensor = tensor;
  trace_.graph.values.push_back(std::move(value));
  return id;
}

/// A part of a memory of the step that no operator has made: libtorch's own code sets sizes of a new
/// object now and then.
ValueId Tracer::derive(Memory& memory, const at::Tensor& tensor) {
  const ValueId base = memory.values[0];
  if (trace_.graph.values[static_cast<size_t>(base)].dtype != tensor.scalar_type()) {
    refuse("a tensor is seen as one of another dtype", "run this function eagerly");
  }
  const ValueId id = add_value(tensor, ValueKind::kResult, memory);
  trace_.graph.nodes.push_back({.name = "aten::as_strided",
                                .arguments = {{.kind = Operand::Kind::kValue, .values = {base}},
                                              number(tensor.sizes()),
                                              number(tensor.strides()),
                                              number(tensor.storage_offset())},
                                .results = {{.kind = Operand::Kind::kValue, .values = {id}}},
                                .place = places_.here()});
  return id;
}

/// Whatever its gradient is before the call, the step sees one that it can add to or clear.
void Tracer::expect_gradient(const at::Tensor& leaf) {
  const at::Tensor earlier = fake_like(leaf);
  add_value(earlier, ValueKind::kInput, memory_of(earlier, Origin::kStep));
  leaves_.push_back({.tensor = leaf, .before = leaf.grad(), .earlier = earlier});
  leaf.mutable_grad() = earlier;
}

void Tracer::note_leaf(const at::Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) return;
  const bool expected =
      std::ranges::any_of(leaves_, [&](const Leaf& leaf) { return leaf.tensor.is_same(tensor); });
  if (!expected) leaves_.push_back({.tensor = tensor, .before = tensor.grad(), .earlier = {}});
}

ValueId Tracer::value_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return kNoValue;
  STRATA_CHECK(tensor.layout() == at::kStrided && tensor.has_storage(), kUnimplemented,
               "[function] ", trace_.graph.name, ": got a ", tensor.layout(),
               " tensor; expected dense ones; run this function eagerly");
  STRATA_CHECK(tensor.is_cpu() || may_be_on_devices(), kUnimplemented, "[function] ",
               trace_.graph.name, ": got a tensor on ", tensor.device(),
               "; what is compiled, exported or sent elsewhere is recorded on the CPU; move the "
               "model and its inputs there");
  const auto place = memories_.find(tensor.storage().unsafeGetStorageImpl());
  if (place == memories_.end()) {
    note_leaf(tensor);
    return add_value(tensor, ValueKind::kCapture, memory_of(tensor, Origin::kProgram));
  }
  Memory& memory = place->second;
  const ValueId known = find(memory, tensor);
  if (known != kNoValue) return known;
  if (memory.origin == Origin::kStep) return derive(memory, tensor);
  note_leaf(tensor);
  return add_value(tensor,
                   memory.origin == Origin::kProgram ? ValueKind::kCapture : ValueKind::kConstant,
                   memory);
}

Operand Tracer::operand_of(const c10::IValue& value) {
  if (value.isTensor()) {
    return {.kind = Operand::Kind::kValue, .values = {value_of(value.toTensor())}};
  }
  Operand operand{.kind = Operand::Kind::kValues};
  if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) operand.values.push_back(value_of(each));
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      operand.values.push_back(each ? value_of(*each) : kNoValue);
    }
  } else {
    return number(value);
  }
  return operand;
}

Operand Tracer::result_of(const c10::IValue& value, bool& is_new) {
  Operand operand{.kind = value.isTensor() ? Operand::Kind::kValue : Operand::Kind::kValues};
  map_tensors(value, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      operand.values.push_back(kNoValue);
      return tensor;
    }
    Memory& memory = memory_of(tensor, Origin::kStep);
    ValueId id = find(memory, tensor);
    if (id == kNoValue) {
      id = add_value(tensor, ValueKind::kResult, memory);
      is_new = true;
    }
    operand.values.push_back(id);
    return tensor;
  });
  return operand;
}

void Tracer::write(Node& node, const c10::IValue& value) {
  map_tensors(value, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    node.written.push_back(value_of(tensor));
    for (const ValueId id : memories_.at(tensor.storage().unsafeGetStorageImpl()).values) {
      Value& value = trace_.graph.values[static_cast<size_t>(id)];
      if (value.kind == ValueKind::kCapture) value.kind = ValueKind::kState;
    }
    return tensor;
  });
}

void Tracer::add_node(Node node, const Stack& results) {
  bool is_new = false;
  for (const c10::IValue& result : results) node.results.push_back(result_of(result, is_new));
  // A view of all there is, such as `detach`, is the same value.
  const bool tells = is_new || results.empty() || !node.written.empty() || node.host;
  if (tells) trace_.graph.nodes.push_back(std::move(node));
}

/// libtorch's attention asks so whether its inputs are one.
bool Tracer::compares_with_itself(const c10::OperatorHandle& op, const Stack& stack) {
  return op.schema().name() == "aten::equal" &&
         value_of(stack[0].toTensor()) == value_of(stack[1].toTensor());
}

void Tracer::check_arguments(const c10::OperatorHandle& op, const Stack& stack) const {
  const std::string& name = op.schema().name();
  if (asks_for_elements(name)) {
    refuse(str_cat(name,
                   " asks for the elements of a tensor (item(), a condition, a comparison), and "
                   "a trace computes none"),
           "return the tensor and read it outside the function; in place of an `if` use "
           "torch::where; or run this function eagerly");
  }
  if (changes_memory(name)) {
    refuse(str_cat(name, " gives a tensor other memory"),
           "make a new tensor instead, or run this function eagerly");
  }
  const bool fixed_size = name == "aten::index" && indexes_by_position(stack[1]);
  if ((op.hasTag(at::Tag::dynamic_output_shape) && !fixed_size) ||
      op.hasTag(at::Tag::data_dependent_output)) {
    refuse(str_cat("the result of ", full_name(op), " has a size that depends on elements"),
           "use an operator with a fixed size, such as torch::where, or run this function eagerly");
  }
  for (size_t i = 0; i < stack.size(); ++i) {
    const c10::Argument& argument = op.schema().arguments()[i];
    if (!argument.is_out() || !stack[i].isTensor() || stack[i].toTensor().numel() > 0) continue;
    refuse(str_cat(full_name(op), " would give its empty `", argument.name(), "` another size"),
           "make it as large as the result, or use the operator that returns its result");
  }
}

/// Tensors that are made to be filled by their address (torch::tensor({1, 2})) get memory. No program
/// writes a GPU's by its address.
bool Tracer::keeps_real(const c10::OperatorHandle& op, Stack& stack) {
  if (op.schema().name() != "aten::empty") return false;
  const std::optional<c10::Device> device = device_argument(op.schema(), stack);
  if (device && !device->is_cpu()) return false;
  const NoTraceGuard no_trace;
  op.callBoxed(&stack);
  const at::Tensor& tensor = stack[0].toTensor();
  // Two traces' are compared; an empty one may have no address.
  if (tensor.nbytes() > 0) std::memset(tensor.mutable_data_ptr(), 0, tensor.nbytes());
  add_value(tensor, ValueKind::kConstant, memory_of(tensor, Origin::kNumbers));
  return true;
}

void Tracer::record(const c10::OperatorHandle& op, Stack& whole_stack) {
  if (call_decomposition(op, whole_stack)) return;
  const c10::FunctionSchema& schema = op.schema();
  const auto begin = whole_stack.end() - static_cast<int64_t>(schema.arguments().size());
  Stack stack(begin, whole_stack.end());
  whole_stack.erase(begin, whole_stack.end());
  const auto give = [&](Stack& results) {
    for (c10::IValue& each : results) whole_stack.push_back(std::move(each));
  };
  if (compares_with_itself(op, stack)) {
    whole_stack.emplace_back(true);
    return;
  }
  check_arguments(op, stack);
  if (makes_sparse(schema.name())) {
    const NoTraceGuard no_trace(/*replica_kernels=*/false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.callBoxed(&stack);
    return give(stack);
  }
  if (!returns_tensors(schema)) {  // sizes and the like
    const NoTraceGuard no_trace;
    op.callBoxed(&stack);
    return give(stack);
  }
  if (keeps_real(op, stack)) return give(stack);

  Node node{.name = full_name(op), .place = places_.here()};
  for (const c10::IValue& argument : stack) node.arguments.push_back(operand_of(argument));
  for (size_t i = 0; i < stack.size(); ++i) {
    if (writes(schema.arguments()[i])) write(node, stack[i]);
  }
  for (const size_t i : unsaid_writes(op, stack)) write(node, stack[i]);

  Stack results;
  if (only_writes(schema)) {
    for (size_t i = 0; i < stack.size() && results.size() < schema.returns().size(); ++i) {
      if (writes(schema.arguments()[i])) results.push_back(stack[i]);
    }
    if (!stack.empty() && stack[0].isTensor() && overwrites(schema.name())) {
      const at::Tensor& target = stack[0].toTensor();
      Memory& memory = memories_.at(target.storage().unsafeGetStorageImpl());
      if (memory.origin == Origin::kNumbers && memory.values.size() == 1 && is_whole(target)) {
        // The first use of torch::empty's memory: a run makes it anew, and copies nothing.
        memory.origin = Origin::kStep;
        Value& value = trace_.graph.values[static_cast<size_t>(memory.values[0])];
        value.kind = ValueKind::kResult;
        value.tensor.reset();
        value.node = static_cast<int32_t>(trace_.graph.nodes.size());
        trace_.graph.nodes.push_back(
            {.name = "aten::empty_strided",
             .arguments = {number(target.sizes()), number(target.strides()),
                           number(target.scalar_type()), number({}), number(target.device()),
                           number({})},
             .results = {{.kind = Operand::Kind::kValue, .values = {memory.values[0]}}},
             .place = node.place});
      }
    }
  } else {
    results = stack;
    if (is_view(op)) {
      const NoTraceGuard no_trace(/*replica_kernels=*/false);
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op.callBoxed(&results);
    } else {
      layouts_.results_of(op, results);
    }
  }
  add_node(std::move(node), results);
  give(results);
}

std::vector<at::Tensor> Tracer::record_host(std::string_view name,
                                            const std::vector<at::Tensor>& inputs,
                                            const std::vector<HostResult>& layouts,
                                            HostFunction function,
                                            const std::vector<double>& numbers, HostInputs held,
                                            std::weak_ptr<HostSubject> subject) {
  Operand arguments{.kind = Operand::Kind::kValues};
  SparseLayouts sparse(inputs.size());
  std::vector<int64_t> dimensions(inputs.size(), 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].is_sparse()) {
      arguments.values.push_back(value_of(inputs[i]));
      continue;
    }
    const NoTraceGuard no_trace(/*replica_kernels=*/false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    sparse[i] = SparseLayout{.sizes = inputs[i].sizes().vec(),
                             .sparse_dim = inputs[i].sparse_dim(),
                             .coalesced = inputs[i].is_coalesced()};
    dimensions[i] = inputs[i].sparse_dim();
    trace_.sparse_sizes.push_back(sparse[i]->sizes);
    arguments.values.push_back(value_of(inputs[i]._indices()));
    arguments.values.push_back(value_of(inputs[i]._values()));
  }
  const bool has_sparse = arguments.values.size() > inputs.size();
  Node node{.name = std::string(name),
            .host = has_sparse ? with_sparse_inputs(std::move(function), std::move(sparse))
                               : std::move(function),
            .keeps_arguments = held == HostInputs::kMayBeHeld,
            .subject = std::move(subject),
            .place = places_.here()};
  node.arguments.push_back(std::move(arguments));
  node.arguments.push_back({.kind = Operand::Kind::kNumber, .number = numbers});
  if (has_sparse) node.arguments.push_back({.kind = Operand::Kind::kNumber, .number = dimensions});
  std::vector<at::Tensor> results;
  c10::List<at::Tensor> list;
  for (const HostResult& each : layouts) {
    results.push_back(fake_contiguous(each.sizes, each.dtype, each.device));
    list.push_back(results.back());
  }
  add_node(std::move(node), {list});
  return results;
}

/// Additions to the earlier gradient leave the graph: an executor makes them to what is there then.
GradientEffect Tracer::effect_on_expected(const at::Tensor& leaf, const at::Tensor& earlier) {
  GradientEffect effect{.leaf = leaf, .gradients = {}, .adds = leaf.grad().is_same(earlier)};
  const ValueId id = value_of(earlier);
  std::vector<Node>& nodes = trace_.graph.nodes;
  for (size_t n = 0; n < nodes.size();) {
    const auto reads = [&](const Operand& argument) {
      return std::ranges::find(argument.values, id) != argument.values.end();
    };
    if (std::ranges::none_of(nodes[n].arguments, reads)) {
      ++n;
      continue;
    }
    const std::vector<Operand>& arguments = nodes[n].arguments;
    if (nodes[n].name != "aten::add_.Tensor" || reads(arguments[1]) || !effect.adds ||
        arguments[2].number.toScalar().toDouble() != 1) {
      refuse("it reads a gradient from before the call",
             "clear gradients within the function, before backward, or run it eagerly");
    }
    effect.gradients.push_back(arguments[1].values[0]);
    nodes.erase(nodes.begin() + static_cast<int64_t>(n));
    for (Value& value : trace_.graph.values) {
      if (value.node > static_cast<int32_t>(n)) --value.node;
    }
  }
  if (!effect.adds && leaf.grad().defined()) effect.gradients = {value_of(leaf.grad())};
  return effect;
}

void Tracer::finish(const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) trace_.graph.outputs.push_back(value_of(output));
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf leaf = leaves_[i];
    const at::Tensor& gradient = leaf.tensor.grad();
    if (leaf.earlier.defined()) {
      trace_.effects.push_back(effect_on_expected(leaf.tensor, leaf.earlier));
    } else if (gradient.defined() != leaf.before.defined() ||
               (gradient.defined() &&
                memories_.contains(gradient.storage().unsafeGetStorageImpl()))) {
      trace_.effects.push_back({.leaf = leaf.tensor, .gradients = {}});
    }
  }
}

/// Whether something holds memory of the step, which has ended and released its own.
bool Tracer::leaves_tensors() const {
  return std::ranges::any_of(memories_, [](const auto& each) {
    return each.second.origin == Origin::kStep && each.second.storage.use_count() > 0;
  });
}

void Tracer::put_gradients_back() {
  for (Leaf& leaf : leaves_) leaf.tensor.mutable_grad() = leaf.before;
}

}  // namespace strata::graph
