#include "graph/executor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "graph/fake.h"
#include "graph/operator_of.h"
#include "strata/core/error.h"

namespace strata::graph {
namespace {

using Kind = Operand::Kind;

/// What the trace was below: operators have been differentiated and cast.
class BelowAutograd {
 public:
  BelowAutograd()
      : keys_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard keys_;
};

size_t index(ValueId id) { return static_cast<size_t>(id); }

/// Whether neither the caller that had this result nor anything else has it still, and it lies as it
/// did.
bool is_ours_alone(const at::Tensor& tensor, const Value& value) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  const bool alone =
      tensor.use_count() == 1 && tensor.weak_use_count() == 1 && tensor.storage().use_count() == 1;
  if (!alone || impl->autograd_meta() != nullptr) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // after what another thread has read
  return tensor.sizes() == at::IntArrayRef(value.sizes) &&
         tensor.strides() == at::IntArrayRef(value.strides) && tensor.storage_offset() == 0 &&
         tensor.scalar_type() == value.dtype;
}

}  // namespace

Executor::Executor(std::shared_ptr<const Trace> trace)
    : trace_(std::move(trace)),
      no_direct_(graph().nodes.size(), false),
      spares_(graph().outputs.size()) {
  for (const Node& node : graph().nodes) {
    for (const ValueId id : node.written) {
      const ValueId memory = graph().values[index(id)].memory;
      const bool constant = graph().values[index(memory)].kind == ValueKind::kConstant;
      if (constant && std::ranges::find(copied_, memory) == copied_.end())
        copied_.push_back(memory);
    }
  }
  lay_out();
}

/// Again when direct kernels have not taken all that they were asked for.
void Executor::lay_out() {
  const RunPlan plan = plan_run(*trace_, no_direct_);
  steps_.clear();
  make_tensors(plan);
  for (size_t n = 0; n < graph().nodes.size(); ++n) steps_.push_back(make_step(n, plan));
  for (const Step& step : steps_) {
    for (const View& view : step.views) {
      is_view_[index(view.value)] = true;
      stays_[index(view.value)] = stays(view.base);
      const Value& value = graph().values[index(view.value)];
      tensors_[index(view.value)] =
          tensor_in(nothing_on(value.device), value.sizes, value.strides, 0, value.dtype);
    }
  }
  for (Step& step : steps_) make_call(step);
  find_last_uses();
  released_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ValueKind kind = graph().values[i].kind;
    const bool made = kind == ValueKind::kResult || kind == ValueKind::kInput;
    if (made && !stays_[i]) released_.push_back(static_cast<ValueId>(i));
  }
}

/// No memory, of a device.
const c10::Storage& Executor::nothing_on(c10::Device device) {
  for (const c10::Storage& each : nothing_) {
    if (each.device() == device) return each;
  }
  return nothing_.emplace_back(c10::Storage::use_byte_size_t(), size_t{0},
                               at::DataPtr(nullptr, device), /*allocator=*/nullptr,
                               /*resizable=*/false);
}

/// A tensor in a block keeps all of it alive.
at::Tensor Executor::tensor_in_block(const Value& value, int64_t place) const {
  const auto block = std::ranges::find_if(
      blocks_, [&](const Block& each) { return each.memory.device() == value.device; });
  const c10::Storage& whole = block->memory.storage();
  auto* const holder = new c10::Storage(whole);
  const auto release = [](void* held) { delete static_cast<c10::Storage*>(held); };
  at::DataPtr begin(static_cast<char*>(whole.mutable_data()) + place, holder, release,
                    value.device);
  const int64_t bytes =
      extent(value.sizes, value.strides) * static_cast<int64_t>(c10::elementSize(value.dtype));
  const c10::Storage memory(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                            std::move(begin), /*allocator=*/nullptr, /*resizable=*/false);
  return tensor_in(memory, value.sizes, value.strides, 0, value.dtype);
}

/// Tensors that stay: the program's, constants, and results in the blocks.
void Executor::make_tensors(const RunPlan& plan) {
  const size_t count = graph().values.size();
  tensors_.assign(count, at::Tensor());
  is_view_.assign(count, false);
  stays_.assign(count, false);
  blocks_.clear();
  for (const auto& [device, bytes] : plan.blocks) {
    Block block{.memory = at::empty({bytes}, at::TensorOptions(at::kByte).device(device))};
    if (device.is_cuda()) block.last = tensor::current_stream(device);
    blocks_.push_back(std::move(block));
  }
  for (size_t i = 0; i < count; ++i) {
    const Value& value = graph().values[i];
    if (plan.places[i] < 0) {
      tensors_[i] = value.tensor;
      const bool copied = std::ranges::find(copied_, value.memory) != copied_.end();
      stays_[i] = value.tensor.defined() && !copied;
      continue;
    }
    tensors_[i] = tensor_in_block(value, plan.places[i]);
    stays_[i] = true;
  }
}

bool Executor::stays(ValueId id) const { return stays_[index(id)]; }

Executor::Step Executor::make_step(size_t n, const RunPlan& plan) const {
  const Node& node = graph().nodes[n];
  Step step{.node = &node, .way = plan.steps[n].way};
  step.kernel = plan.steps[n].kernel;
  if (!node.host) step.op = step.way == Way::kInto ? plan.steps[n].into : operator_of(node);
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Operand& operand = node.arguments[i];
    Argument argument{.kind = operand.kind, .number = operand.number};
    if (operand.kind == Kind::kValue) argument.value = operand.values[0];
    if (operand.kind == Kind::kValues) {
      argument.values = operand.values;
      argument.optional = step.op && !step.op->schema().arguments()[i].type()->isSubtypeOf(
                                         *c10::ListType::ofTensors());
      if (argument.optional) {
        c10::List<std::optional<at::Tensor>> list;
        list.resize(operand.values.size());
        argument.number = list;
      } else {
        c10::List<at::Tensor> list;
        list.resize(operand.values.size());
        argument.number = list;
      }
    }
    step.arguments.push_back(std::move(argument));
  }
  std::vector<ValueId> seen;
  for (const Operand& result : node.results) {
    Operand kept = result;
    for (ValueId& id : kept.values) {
      const bool made_here = id != kNoValue &&
                             graph().values[index(id)].node == static_cast<int32_t>(n) &&
                             std::ranges::find(seen, id) == seen.end();
      if (made_here) {
        seen.push_back(id);
      } else {
        id = kNoValue;
      }
    }
    for (const ValueId id : kept.values) {
      if (id == kNoValue) continue;
      if (step.way == Way::kView) {
        const ValueId base = node.arguments[0].values[0];
        step.views.push_back(
            {.value = id,
             .base = base,
             .offset = graph().values[index(id)].offset - graph().values[index(base)].offset});
      }
      if (step.way == Way::kDirect && !stays(id)) step.made.push_back(id);
    }
    step.results.push_back(std::move(kept));
  }
  return step;
}

/// The addresses that a direct kernel reads and writes tensors at.
void Executor::make_call(Step& step) {
  if (step.way != Way::kDirect) return;
  static const at::Tensor none;
  const auto at = [&](ValueId id) { return id == kNoValue ? &none : &tensors_[index(id)]; };
  for (const Argument& argument : step.arguments) {
    step.call.arguments.push_back({.tensor = at(argument.value), .number = &argument.number});
  }
  for (const Operand& result : step.results) step.call.results.push_back(at(result.values[0]));
}

/// From the end: the first step that is met is a value's last use.
void Executor::find_last_uses() {
  std::vector<bool> used(graph().values.size(), false);
  for (size_t i = 0; i < used.size(); ++i) {
    const ValueKind kind = graph().values[i].kind;
    used[i] = stays_[i] || (kind != ValueKind::kResult && kind != ValueKind::kInput);
  }
  for (const ValueId id : graph().outputs) {
    if (id != kNoValue) used[index(id)] = true;
  }
  for (const GradientEffect& effect : trace_->effects) {
    for (const ValueId id : effect.gradients) used[index(id)] = true;
  }
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    for (const Operand& result : step->results) {  // never read
      for (const ValueId id : result.values) {
        if (id != kNoValue && !used[index(id)]) step->dead.push_back(id);
      }
    }
    for (auto argument = step->arguments.rbegin(); argument != step->arguments.rend(); ++argument) {
      if (argument->kind == Kind::kValue && argument->value != kNoValue &&
          !used[index(argument->value)]) {
        used[index(argument->value)] = true;
        // The call takes it along, where that is a reference to it and no more.
        argument->last_use = step->way == Way::kOperator && !is_view_[index(argument->value)];
        if (!argument->last_use) step->dead.push_back(argument->value);
      }
      for (const ValueId id : argument->values) {
        if (id == kNoValue || used[index(id)]) continue;
        used[index(id)] = true;
        step->dead.push_back(id);
      }
    }
  }
}

void Executor::prepare(const std::vector<at::Tensor>& inputs) {
  STRATA_DCHECK(inputs.size() == graph().inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph().inputs[i] != kNoValue) tensors_[index(graph().inputs[i])] = inputs[i];
  }
  for (const ValueId memory : copied_) {
    const at::Tensor& original = graph().values[index(memory)].tensor;
    const at::Tensor copy = original.clone();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Value& value = graph().values[i];
      if (value.memory != memory || value.kind != ValueKind::kConstant) continue;
      tensors_[i] = at::as_strided(copy, value.sizes, value.strides,
                                   value.offset - original.storage_offset());
    }
  }
}

void Executor::push(Argument& argument) {
  if (argument.kind == Kind::kNumber) {
    stack_.push_back(argument.number);
    return;
  }
  if (argument.kind == Kind::kValue) {
    if (argument.value == kNoValue) {
      stack_.emplace_back(at::Tensor());
    } else if (argument.last_use) {
      stack_.emplace_back(std::move(tensors_[index(argument.value)]));
      tensors_[index(argument.value)] = at::Tensor();
    } else {
      stack_.emplace_back(tensors_[index(argument.value)]);
    }
    return;
  }
  if (argument.optional) {
    const auto list = argument.number.toOptionalTensorList();
    for (size_t i = 0; i < argument.values.size(); ++i) {
      const ValueId id = argument.values[i];
      if (id != kNoValue) list.set(i, tensors_[index(id)]);
    }
    stack_.push_back(argument.number);
    return;
  }
  const c10::List<at::Tensor> list = argument.number.toTensorList();
  for (size_t i = 0; i < argument.values.size(); ++i) {
    const ValueId id = argument.values[i];
    if (id != kNoValue) list.set(i, tensors_[index(id)]);
  }
  stack_.push_back(argument.number);
}

void Executor::check_layout(ValueId id, const at::Tensor& tensor) const {
  const Value& value = graph().values[index(id)];
  STRATA_CHECK(tensor.defined() && tensor.sizes() == at::IntArrayRef(value.sizes) &&
                   tensor.strides() == at::IntArrayRef(value.strides) &&
                   tensor.scalar_type() == value.dtype && tensor.device() == value.device,
               kInternal, "[function] ", graph().name, ": a result of ",
               graph().nodes[index(value.node)].name, " lies otherwise than its trace says: got ",
               tensor.defined()
                   ? str_cat(tensor.scalar_type(), " ", tensor.sizes(), " with strides ",
                             tensor.strides(), " on ", tensor.device())
                   : std::string("none"),
               "; expected ", value.dtype, " ", at::IntArrayRef(value.sizes), " with strides ",
               at::IntArrayRef(value.strides), " on ", value.device,
               "; run this function eagerly, and report it");
}

void Executor::keep(ValueId id, at::Tensor tensor) {
  if (id == kNoValue) return;
  if (!checked_) check_layout(id, tensor);
  tensors_[index(id)] = std::move(tensor);
}

void Executor::keep(const Operand& result, c10::IValue&& value) {
  if (result.kind == Kind::kValue) {
    if (result.values[0] != kNoValue) keep(result.values[0], std::move(value).toTensor());
    return;
  }
  const c10::List<at::Tensor> list = std::move(value).toTensorList();
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (result.values[i] != kNoValue) keep(result.values[i], list.get(i));
  }
}

/// Of a direct kernel, which is the CPU's.
at::Tensor Executor::make_result(ValueId id) {
  const Value& value = graph().values[index(id)];
  const auto output = std::ranges::find(graph().outputs, id);
  const auto make = [&] {
    return at::detail::empty_strided_cpu(value.sizes, value.strides, value.dtype);
  };
  if (output == graph().outputs.end()) return make();
  Spare& spare = spares_[static_cast<size_t>(output - graph().outputs.begin())];
  for (const at::Tensor& each : spare) {
    if (each.defined() && is_ours_alone(each, value)) return each;
  }
  std::swap(spare[0], spare[1]);
  return spare[0] = make();
}

void Executor::run_views(const Step& step) {
  for (const View& view : step.views) {
    const at::Tensor& base = tensors_[index(view.base)];
    c10::TensorImpl* const part = tensors_[index(view.value)].unsafeGetTensorImpl();
    const c10::Storage& memory = base.storage();
    const int64_t offset = base.storage_offset() + view.offset;
    if (part->unsafe_storage().unsafeGetStorageImpl() != memory.unsafeGetStorageImpl()) {
      part->set_storage_keep_dtype(memory);
    }
    if (part->storage_offset() != offset) part->set_storage_offset(offset);
  }
}

void Executor::run_direct(Step& step) {
  for (const ValueId id : step.made) tensors_[index(id)] = make_result(id);
  if (step.kernel(step.call)) return;
  no_direct_[static_cast<size_t>(step.node - graph().nodes.data())] = true;
  refused_ = true;
  call_operator(step);
  for (size_t i = 0; i < step.results.size(); ++i) {
    const ValueId id = step.results[i].values[0];
    if (id != kNoValue) tensors_[index(id)].copy_(stack_[i].toTensor());
  }
  stack_.clear();
}

void Executor::run_into(Step& step) {
  call_operator(step);
  stack_.clear();
}

/// The results are on the stack then.
void Executor::call_operator(Step& step) {
  stack_.clear();
  for (Argument& argument : step.arguments) push(argument);
  if (step.way == Way::kInto) {
    for (const Operand& result : step.results)
      stack_.emplace_back(tensors_[index(result.values[0])]);
  }
  step.op->callBoxed(stack_);
}

void Executor::run_operator(Step& step) {
  call_operator(step);
  for (size_t i = 0; i < step.results.size(); ++i) keep(step.results[i], std::move(stack_[i]));
  stack_.clear();
  for (Argument& argument : step.arguments) {  // lists hold their tensors no longer
    if (argument.kind != Kind::kValues) continue;
    for (size_t i = 0; i < argument.values.size(); ++i) {
      if (argument.optional) {
        argument.number.toOptionalTensorList().set(i, std::nullopt);
      } else {
        argument.number.toTensorList().set(i, at::Tensor());
      }
    }
  }
}

void Executor::run_host(Step& step) {
  for (const ValueId id : step.arguments[0].values) {
    if (id == kNoValue) {
      step.given.emplace_back();
      continue;
    }
    const at::Tensor& tensor = tensors_[index(id)];
    // The next run moves a view.
    const bool moves = is_view_[index(id)] && step.node->keeps_arguments;
    step.given.push_back(moves ? tensor.detach() : tensor);
  }
  std::vector<at::Tensor> results = step.node->host(step.given);
  step.given.clear();
  const std::vector<ValueId>& places = step.results[0].values;
  STRATA_CHECK(results.size() == places.size(), kInternal, "[function] ", graph().name, ": ",
               step.node->name, " returned ", results.size(), " tensors; its trace has ",
               places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == kNoValue) continue;
    const Value& value = graph().values[index(places[i])];
    STRATA_CHECK(results[i].sizes() == at::IntArrayRef(value.sizes) &&
                     results[i].scalar_type() == value.dtype,
                 kFailedPrecondition, "[function] ", graph().name, ": ", step.node->name, " gave ",
                 results[i].scalar_type(), " ", results[i].sizes(),
                 ", and the step was traced with ", value.dtype, " ", at::IntArrayRef(value.sizes),
                 "; bring tensors of equal sizes on all replicas (drop_remainder), or run this "
                 "function eagerly");
    keep(places[i], std::move(results[i]));
  }
}

void Executor::take_outputs(std::vector<at::Tensor>& outputs) {
  for (size_t i = 0; i < graph().outputs.size(); ++i) {
    const ValueId id = graph().outputs[i];
    if (id == kNoValue) {
      outputs.emplace_back();
      continue;
    }
    const at::Tensor& tensor = tensors_[index(id)];
    const bool made = tensor.is_same(spares_[i][0]) || tensor.is_same(spares_[i][1]);
    const bool shared = graph().values[index(id)].kind == ValueKind::kConstant;
    outputs.push_back(made ? tensor : (shared ? tensor.clone() : tensor.detach()));
  }
}

/// As autograd's engine does: a gradient becomes the leaf's, or is added to the one before.
void Executor::set_gradients() {
  for (const GradientEffect& effect : trace_->effects) {
    at::Tensor& gradient = effect.leaf.mutable_grad();
    if (!effect.adds) gradient = at::Tensor();
    for (const ValueId id : effect.gradients) {
      const at::Tensor& value = tensors_[index(id)];
      if (gradient.defined()) {
        gradient.add_(value);
      } else if (value.strides() == effect.leaf.strides()) {
        gradient = value.detach();
      } else {
        gradient = at::empty_like(effect.leaf).copy_(value);
      }
    }
  }
}

void Executor::drop(ValueId id) {
  at::Tensor& tensor = tensors_[index(id)];
  if (is_view_[index(id)]) {
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(nothing_on(tensor.device()));
  } else {
    tensor = at::Tensor();
  }
}

void Executor::release() {
  for (const ValueId id : released_) drop(id);
}

void Executor::run_step(Step& step) {
  switch (step.way) {
    case Way::kView:
      return run_views(step);
    case Way::kDirect:
      return run_direct(step);
    case Way::kInto:
      return run_into(step);
    case Way::kOperator:
      return run_operator(step);
    case Way::kHost:
      return run_host(step);
  }
}

/// The blocks' memory belongs to the stream that they were made on.
void Executor::order_behind_last_run() {
  for (Block& block : blocks_) {
    if (!block.last) continue;
    const c10::Stream now = tensor::current_stream(block.memory.device());
    if (*block.last == now) continue;
    tensor::StreamEvent end;
    end.record(*block.last);
    end.block(tensor::StreamWait::kRunForLastRun, now);
    tensor::keep_for(tensor::StreamWait::kRunForLastRun, block.memory, now);
    block.last = now;
  }
}

void Executor::run(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs) {
  outputs.clear();
  try {
    std::optional<BelowAutograd> below;
    below.emplace();
    order_behind_last_run();
    prepare(inputs);
    for (Step& step : steps_) {
      const bool host = step.way == Way::kHost;
      if (host) below.reset();
      run_step(step);
      if (host) below.emplace();
      for (const ValueId id : step.dead) drop(id);
    }
    set_gradients();
    take_outputs(outputs);
  } catch (...) {
    stack_.clear();
    for (Step& step : steps_) step.given.clear();
    release();
    throw;
  }
  release();
  checked_ = true;
  if (std::exchange(refused_, false)) lay_out();
}

}  // namespace strata::graph
