#include "graph/remote/step_run.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/operator_of.h"
#include "graph/remote/step_operators.h"
#include "strata/core/error.h"

namespace strata::graph::remote {
namespace {

using Kind = Operand::Kind;

/// As the trace was: operators have been differentiated and cast.
class WithoutAutograd {
 public:
  WithoutAutograd()
      : keys_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset) {}

 private:
  at::NoGradGuard no_grad_;
  c10::impl::ExcludeDispatchKeyGuard keys_;
};

bool is_session_tensor(const Value& value) {
  return value.kind != ValueKind::kResult && value.kind != ValueKind::kInput;
}

}  // namespace

StepRun::StepRun(std::shared_ptr<const RemoteStep> step)
    : step_(std::move(step)), dead_(graph().nodes.size()), tensors_(graph().values.size()) {
  std::vector<bool> used(graph().values.size(), false);
  for (const ValueId id : graph().outputs) {
    if (id != kNoValue) used[static_cast<size_t>(id)] = true;
  }
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    for (const auto* operands : {&graph().nodes[n].results, &graph().nodes[n].arguments}) {
      for (const Operand& operand : *operands) {
        for (const ValueId id : operand.values) {
          if (id == kNoValue || used[static_cast<size_t>(id)]) continue;
          used[static_cast<size_t>(id)] = true;
          dead_[n].push_back(id);
        }
      }
    }
  }
  for (size_t n = 0; n < graph().nodes.size(); ++n) {
    const Node& node = graph().nodes[n];
    const bool is_operator = step_->work[n].work == Work::kOperator;
    operators_.push_back(is_operator ? std::optional(operator_of(node)) : std::nullopt);
    cleared_.push_back(is_operator && admission_of(node.name) == Admission::kZeroed);
    for (const ValueId id : node.written) {
      const ValueId memory = graph().values[static_cast<size_t>(id)].memory;
      const bool constant =
          graph().values[static_cast<size_t>(memory)].kind == ValueKind::kConstant;
      if (constant && std::ranges::find(copied_, memory) == copied_.end()) {
        copied_.push_back(memory);
      }
    }
  }
}

void StepRun::begin(const std::vector<at::Tensor>& states, const std::vector<at::Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph().inputs[i] != kNoValue) at(graph().inputs[i]) = inputs[i];
  }
  std::vector<at::Tensor> copies(tensors_.size());  // by memory
  for (const ValueId memory : copied_) {
    const int64_t state = step_->states[static_cast<size_t>(memory)];
    copies[static_cast<size_t>(memory)] = at::clone(states[static_cast<size_t>(state)]);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Value& value = graph().values[i];
    if (!is_session_tensor(value)) continue;
    const at::Tensor& copy = copies[static_cast<size_t>(value.memory)];
    const at::Tensor& of = copy.defined() ? copy : states[static_cast<size_t>(step_->states[i])];
    // Itself: an optimizer may move a variable while the step runs.
    const bool whole = value.offset == 0 && of.sizes() == at::IntArrayRef(value.sizes) &&
                       of.strides() == at::IntArrayRef(value.strides) && !step_->numbers[i];
    tensors_[i] =
        whole ? of
              : at::as_strided(of, value.sizes, value.strides, of.storage_offset() + value.offset);
    if (step_->numbers[i]) tensors_[i].unsafeGetTensorImpl()->set_wrapped_number(true);
  }
}

void StepRun::keep(size_t n, ValueId id, const at::Tensor& tensor) {
  if (id == kNoValue) return;
  const Value& value = graph().values[static_cast<size_t>(id)];
  const bool same = tensor.defined() && tensor.scalar_type() == value.dtype &&
                    tensor.sizes() == at::IntArrayRef(value.sizes) &&
                    tensor.strides() == at::IntArrayRef(value.strides) && tensor.is_cpu() &&
                    tensor.layout() == at::kStrided;
  STRATA_CHECK(same, kFailedPrecondition, "[standalone] ", graph().name, ": node ", n, " (",
               graph().nodes[n].name, ") gave ",
               tensor.defined() ? str_cat(tensor.scalar_type(), " ", tensor.sizes(),
                                          " with strides ", tensor.strides())
                                : std::string("no tensor"),
               "; the step has ", value.dtype, " ", at::IntArrayRef(value.sizes), " with strides ",
               at::IntArrayRef(value.strides),
               ": use one libtorch, and processors of one kind, for client and servers");
  at(id) = tensor;
}

void StepRun::refuse(size_t n, std::string_view why) const {
  throw Error(ErrorCode::kInvalidArgument, str_cat("[standalone] ", graph().name, ": node ", n,
                                                   " (", graph().nodes[n].name, "): ", why));
}

void StepRun::call(size_t n) {
  const Node& node = graph().nodes[n];
  const c10::OperatorHandle& op = *operators_[n];
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Operand& argument = node.arguments[i];
    if (argument.kind == Kind::kNumber) {
      stack.push_back(argument.number);
    } else if (argument.kind == Kind::kValue) {
      stack.emplace_back(argument.values[0] == kNoValue ? at::Tensor() : at(argument.values[0]));
    } else if (op.schema().arguments()[i].type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      c10::List<at::Tensor> list;
      for (const ValueId id : argument.values) list.push_back(at(id));
      stack.emplace_back(std::move(list));
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const ValueId id : argument.values) {
        list.push_back(id == kNoValue ? std::nullopt : std::optional(at(id)));
      }
      stack.emplace_back(std::move(list));
    }
  }
  op.callBoxed(stack);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const std::vector<ValueId>& ids = node.results[i].values;
    const std::vector<at::Tensor> made = stack[i].isTensor()
                                             ? std::vector<at::Tensor>{stack[i].toTensor()}
                                             : stack[i].toTensorVector();
    STRATA_CHECK(made.size() == ids.size(), kFailedPrecondition, "[standalone] ", graph().name,
                 ": node ", n, " (", node.name, ") gave ", made.size(), " tensors; the step has ",
                 ids.size());
    for (size_t k = 0; k < ids.size(); ++k) {
      // Another session's elements may be in it.
      const size_t bytes = cleared_[n] ? made[k].storage().nbytes() : 0;
      if (bytes > 0) std::memset(made[k].storage().mutable_data(), 0, bytes);
      keep(n, ids[k], made[k]);
    }
  }
}

void StepRun::call_host(size_t n, const HostRun& host) {
  const Node& node = graph().nodes[n];
  std::vector<at::Tensor> tensors;
  for (const ValueId id : node.arguments[0].values) {
    tensors.push_back(id == kNoValue ? at::Tensor() : at(id));
  }
  const std::vector<at::Tensor> made = host(step_->work[n], tensors);
  const std::vector<ValueId>& ids = node.results[0].values;
  STRATA_CHECK(made.size() == ids.size(), kInternal, "[standalone] ", graph().name, ": node ", n,
               " (", node.name, ") gave ", made.size(), " tensors; the step has ", ids.size());
  for (size_t k = 0; k < ids.size(); ++k) keep(n, ids[k], made[k]);
}

std::vector<at::Tensor> StepRun::run(const std::vector<at::Tensor>& states,
                                     const std::vector<at::Tensor>& inputs, const HostRun& host,
                                     const Watch& watch) {
  struct Release {
    std::vector<at::Tensor>& tensors;
    ~Release() { std::ranges::fill(tensors, at::Tensor()); }
  } const release{tensors_};
  std::optional<WithoutAutograd> below;
  below.emplace();
  begin(states, inputs);
  for (size_t n = 0; n < graph().nodes.size(); ++n) {
    watch();
    try {
      if (operators_[n]) {
        call(n);
      } else {
        below.reset();
        {
          const at::NoGradGuard no_grad;
          call_host(n, host);
        }
        below.emplace();
      }
    } catch (const Error&) {
      throw;
    } catch (const c10::Error& error) {
      refuse(n, error.what_without_backtrace());
    } catch (const std::exception& error) {  // of numbers that a dtype does not have
      refuse(n, error.what());
    }
    for (const ValueId id : dead_[n]) at(id) = at::Tensor();
  }
  std::vector<at::Tensor> outputs;
  for (const ValueId id : graph().outputs) {
    outputs.push_back(id == kNoValue ? at::Tensor() : at(id));
  }
  return outputs;
}

}  // namespace strata::graph::remote
