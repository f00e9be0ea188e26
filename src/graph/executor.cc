#include "graph/executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <utility>

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

}  // namespace

Executor::Executor(std::shared_ptr<const Trace> trace)
    : trace_(std::move(trace)), tensors_(graph().values.size()) {
  for (size_t n = 0; n < graph().nodes.size(); ++n) steps_.push_back(make_step(n));
  find_last_uses();
  for (const Node& node : graph().nodes) {
    for (const ValueId id : node.written) {
      const ValueId memory = graph().values[index(id)].memory;
      const bool constant = graph().values[index(memory)].kind == ValueKind::kConstant;
      if (constant && std::ranges::find(copied_, memory) == copied_.end())
        copied_.push_back(memory);
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i] = graph().values[i].tensor;
}

Executor::Step Executor::make_step(size_t n) const {
  const Node& node = graph().nodes[n];
  Step step{.node = &node};
  if (!node.host) step.op = operator_of(node);
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
    step.results.push_back(std::move(kept));
  }
  return step;
}

/// From the end: the first step that is met is a value's last use.
void Executor::find_last_uses() {
  std::vector<bool> used(graph().values.size(), false);
  for (size_t i = 0; i < used.size(); ++i) {
    const ValueKind kind = graph().values[i].kind;
    used[i] = kind != ValueKind::kResult && kind != ValueKind::kInput;  // kept between runs
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
        argument->last_use = true;
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
  STRATA_CHECK(
      tensor.defined() && tensor.sizes() == at::IntArrayRef(value.sizes) &&
          tensor.strides() == at::IntArrayRef(value.strides) && tensor.scalar_type() == value.dtype,
      kInternal, "[function] ", graph().name, ": a result of ",
      graph().nodes[index(value.node)].name, " lies otherwise than its trace says: got ",
      tensor.defined()
          ? str_cat(tensor.scalar_type(), " ", tensor.sizes(), " with strides ", tensor.strides())
          : std::string("none"),
      "; expected ", value.dtype, " ", at::IntArrayRef(value.sizes), " with strides ",
      at::IntArrayRef(value.strides), "; run this function eagerly, and report it");
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

void Executor::run_operator(Step& step) {
  stack_.clear();
  for (Argument& argument : step.arguments) push(argument);
  step.op->callBoxed(stack_);
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

void Executor::run_host(const Step& step) {
  std::vector<at::Tensor> inputs;
  for (const ValueId id : step.arguments[0].values) {
    inputs.push_back(id == kNoValue ? at::Tensor() : tensors_[index(id)]);
  }
  std::vector<at::Tensor> results = step.node->host(inputs);
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

std::vector<at::Tensor> Executor::take_outputs() {
  std::vector<at::Tensor> outputs;
  for (const ValueId id : graph().outputs) {
    if (id == kNoValue) {
      outputs.emplace_back();
      continue;
    }
    const at::Tensor& tensor = tensors_[index(id)];
    const bool shared = graph().values[index(id)].kind == ValueKind::kConstant;
    outputs.push_back(shared ? tensor.clone() : tensor.detach());
  }
  return outputs;
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

void Executor::release() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ValueKind kind = graph().values[i].kind;
    if (kind == ValueKind::kResult || kind == ValueKind::kInput) tensors_[i] = at::Tensor();
  }
}

std::vector<at::Tensor> Executor::run(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> outputs;
  try {
    std::optional<BelowAutograd> below;
    below.emplace();
    prepare(inputs);
    for (Step& step : steps_) {
      if (step.op) {
        run_operator(step);
      } else {
        below.reset();
        run_host(step);
        below.emplace();
      }
      for (const ValueId id : step.dead) tensors_[index(id)] = at::Tensor();
    }
    set_gradients();
    outputs = take_outputs();
  } catch (...) {
    stack_.clear();
    release();
    throw;
  }
  release();
  checked_ = true;
  return outputs;
}

}  // namespace strata::graph
