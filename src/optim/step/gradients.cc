#include "optim/step/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <utility>

#include "graph/host_call.h"
#include "graph/trace_key.h"
#include "optim/step/backward.h"
#include "runtime/context.h"
#include "runtime/replica_group.h"
#include "runtime/span.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata::optimizers {
namespace {

namespace autograd = torch::autograd;

/// What a program's own backwards have left, to which another gradient is added as libtorch does it.
bool may_add_to(const at::Tensor& grad) {
  return !grad.defined() || (!grad.is_sparse() && !graph::tracing());
}

/// A caller needs to know when `.grad` is there, so it must be.
bool has_hook_of_grad(const at::Tensor& tensor) {
  return autograd::impl::post_acc_grad_hooks(tensor) != nullptr;
}

/// Without the way through `.grad`.
std::vector<at::Tensor> gradients_of(const at::Tensor& loss, const std::vector<at::Tensor>& inputs,
                                     const OnGradient& on_gradient) {
  std::vector<at::Tensor> gradients;
  if (auto found = backward_here(loss, inputs, on_gradient)) {
    gradients = *std::move(found);
  } else {
    autograd::edge_list edges;
    for (const at::Tensor& input : inputs) edges.push_back(autograd::impl::gradient_edge(input));
    gradients = autograd::Engine::get_default_engine().execute(
        {autograd::impl::gradient_edge(loss)}, {at::ones_like(loss)}, /*keep_graph=*/false,
        /*create_graph=*/false, /*accumulate_grad=*/false, edges);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& gradient = gradients[i];
    // As `.grad` would be: a tensor of its own, laid out as the parameter is.
    if (!gradient.defined()) continue;
    const bool sparse = gradient.is_sparse();
    if (!sparse && gradient.strides() != inputs[i].strides()) {
      gradient = at::zeros_like(inputs[i]).copy_(gradient);
    } else if (gradient.use_count() > 1) {
      gradient = gradient.clone();
    }
  }
  return gradients;
}

}  // namespace

void check_variables(std::string_view optimizer, const std::vector<Variable>& variables) {
  detail::require_cross_replica("build an optimizer");
  STRATA_CHECK(!variables.empty(), kInvalidArgument, "[", optimizer,
               "] build: got no variables; expected at least one that is trainable");
  for (size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    STRATA_CHECK(&variable.group() == &variables[0].group(), kFailedPrecondition, "[", optimizer,
                 "] build: '", variable.name(), "' belongs to ", variable.group().name(), " and '",
                 variables[0].name(), "' to ", variables[0].group().name(),
                 "; Mixing different tf.distribute.Strategy objects is not possible");
    STRATA_CHECK(at::isFloatingType(variable.dtype()), kInvalidArgument, "[", optimizer,
                 "] build: '", variable.name(), "' is ", variable.dtype(),
                 "; expected a floating dtype: others have no gradient");
    for (size_t j = 0; j < i; ++j) {
      STRATA_CHECK(!variable.is_same(variables[j]), kInvalidArgument, "[", optimizer,
                   "] build: got '", variable.name(), "' twice; pass each variable once");
    }
  }
}

const ReplicaContext& replica_of(std::string_view optimizer, std::string_view call,
                                 const std::vector<Variable>& variables) {
  STRATA_CHECK(!variables.empty(), kFailedPrecondition, "[", optimizer, "] ", call,
               ": the optimizer has no variables; pass them to the constructor or to build()");
  const ReplicaContext* context = get_replica_context();
  STRATA_CHECK(
      context, kFailedPrecondition, "[", optimizer, "] ", call,
      ": called in cross-replica context; expected a replica function: strategy.run([&](...) "
      "{ ... optimizer.",
      call, "(...); })");
  const ReplicaGroup& group = variables[0].group();
  STRATA_CHECK(&context->group() == &group || &context->group() != detail::default_group().get(),
               kFailedPrecondition, "[", optimizer, "] ", call,
               ": called outside a replica function of ", group.name(), ", to which '",
               variables[0].name(), "' belongs; call it in strategy.run([&](...) { ... optimizer.",
               call, "(...); })");
  STRATA_CHECK(&context->group() == &group, kFailedPrecondition, "[", optimizer, "] ", call, ": '",
               variables[0].name(), "' was not created in the distribution strategy scope of ",
               context->group().name(), " but in that of ", group.name(),
               "; make the model inside strategy.scope(...) or with strategy.replicate(...)");
  return *context;
}

void check_weight(std::string_view optimizer, double weight) {
  STRATA_CHECK(weight >= 0, kInvalidArgument, "[", optimizer, "] weight: got ", weight,
               "; expected the number of examples, or 0 for a loss that is divided already");
}

std::vector<at::Tensor> backward_to(std::string_view optimizer, const at::Tensor& loss,
                                    const std::vector<Variable>& variables, int replica,
                                    const OnGradient& on_gradient,
                                    const std::vector<at::Tensor>& more) {
  STRATA_CHECK(loss.defined() && loss.numel() == 1, kInvalidArgument, "[", optimizer,
               "] minimize: got a loss of shape ",
               loss.defined() ? loss.sizes() : at::IntArrayRef{},
               "; expected a scalar: compute_average_loss(...) or a sum");
  STRATA_CHECK(
      loss.requires_grad(), kInvalidArgument, "[", optimizer,
      "] minimize: the loss does not depend on anything that requires gradients; is grad mode "
      "off, or the model frozen?");
  const strata::detail::Span span(strata::detail::span_observer(), "backward");
  // As in a step that is recorded: the engine adds gradients in another order where a GPU's thread runs it.
  const graph::OneAutogradThread here;
  bool plain = true;
  std::vector<at::Tensor> inputs;
  std::vector<size_t> indices;  // among the variables
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i].state()->check_version(replica);
    const at::Tensor& tensor = variables[i].on_replica(replica);
    if (!tensor.requires_grad()) continue;
    plain = plain && may_add_to(tensor.grad()) && !has_hook_of_grad(tensor);
    inputs.push_back(tensor);
    indices.push_back(i);
  }
  for (const at::Tensor& leaf : more) {
    plain = plain && !leaf.grad().defined() && !has_hook_of_grad(leaf);
    inputs.push_back(leaf);
  }
  std::vector<at::Tensor> found;
  if (plain && !inputs.empty()) {
    std::vector<bool> is_added(inputs.size(), false);
    const auto with_what_was_before = [&](size_t input, const at::Tensor& gradient) {
      const at::Tensor& before = inputs[input].grad();
      if (!before.defined()) return gradient;
      const at::NoGradGuard no_grad;
      if (gradient.defined() && !is_added[input]) before.add_(gradient);
      is_added[input] = true;
      return before;
    };
    const OnGradient on_input = [&](size_t input, const at::Tensor& gradient) {
      if (input < indices.size())
        on_gradient(indices[input], with_what_was_before(input, gradient));
    };
    found = gradients_of(loss, inputs, on_gradient ? on_input : OnGradient());
    for (size_t i = 0; i < inputs.size(); ++i) {
      found[i] = with_what_was_before(i, found[i]);
      inputs[i].mutable_grad().reset();
    }
  } else {
    loss.backward({}, /*retain_graph=*/std::nullopt, /*create_graph=*/false, inputs);
    for (const at::Tensor& tensor : inputs)
      found.push_back(std::exchange(tensor.mutable_grad(), at::Tensor()));
  }
  std::vector<at::Tensor> gradients;
  auto next = found.begin();
  for (const Variable& variable : variables) {
    const at::Tensor& tensor = variable.on_replica(replica);
    gradients.push_back(tensor.requires_grad()
                            ? std::move(*next++)
                            : std::exchange(tensor.mutable_grad(), at::Tensor()));
  }
  std::move(next, found.end(), std::back_inserter(gradients));
  return gradients;
}

std::vector<PerReplica<at::Tensor>> reduce_by_ops(ReplicaGroup& group,
                                                  const std::vector<Variable>& variables,
                                                  std::vector<std::vector<at::Tensor>> gradients) {
  std::vector<PerReplica<at::Tensor>> values;
  for (size_t i = 0; i < variables.size(); ++i) {
    for (size_t r = 0; r < gradients[i].size(); ++r) {
      at::Tensor& gradient = gradients[i][r];
      if (gradient.defined()) continue;
      gradient = at::zeros_like(variables[i].on_replica(static_cast<int>(r)).detach());
    }
    values.emplace_back(std::move(gradients[i]));
  }
  if (values.empty()) return values;
  ReductionToOneDevice fallback;
  CrossDeviceOps& ops = group.cross_device_ops() ? *group.cross_device_ops() : fallback;
  return ops.batch_reduce(ReduceOp::kSum, values);
}

}  // namespace strata::optimizers
