#include "graph/stablehlo/compiled_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/stack.h>

#include "core/split_mix64.h"
#include "strata/core/error.h"

namespace strata::graph::stablehlo {
namespace {

using pjrt::ElementType;

ElementType element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return ElementType::kBool;
    case at::kByte:
      return ElementType::kUInt8;
    case at::kChar:
      return ElementType::kInt8;
    case at::kShort:
      return ElementType::kInt16;
    case at::kInt:
      return ElementType::kInt32;
    case at::kLong:
      return ElementType::kInt64;
    case at::ScalarType::UInt64:
      return ElementType::kUInt64;
    case at::kHalf:
      return ElementType::kHalf;
    case at::kBFloat16:
      return ElementType::kBFloat16;
    case at::kDouble:
      return ElementType::kDouble;
    default:
      return ElementType::kFloat;  // others had no rule
  }
}

pjrt::ArrayType array_type(const Parameter& parameter) {
  return {.element = element_of(parameter.dtype), .sizes = parameter.where.sizes};
}

/// The tensor's elements that a parameter has.
at::Tensor part_of(const at::Tensor& tensor, const Geometry& where) {
  return tensor.detach().as_strided(where.sizes, where.strides, where.offset);
}

/// The elements of an input as they lay in the trace, whichever strides this one has.
at::Tensor laid_as(const at::Tensor& input, const Value& value, const Geometry& where) {
  if (geometry_of(value) == where) return input;
  return at::empty_strided(value.sizes, value.strides, input.options())
      .copy_(input)
      .as_strided(where.sizes, where.strides);
}

Sizes with_steps(const Sizes& sizes, int64_t steps) {
  if (steps == 1) return sizes;
  Sizes result = {steps};
  result.insert(result.end(), sizes.begin(), sizes.end());
  return result;
}

}  // namespace

CompiledGraph::CompiledGraph(std::shared_ptr<const Trace> trace, const pjrt::Client& client,
                             const CompiledOptions& options)
    : trace_(std::move(trace)),
      client_(client),
      options_(options),
      lowered_(lower(
          *trace_, {.num_replicas = options.num_replicas, .steps_per_run = options.steps_per_run})),
      executable_(client_.compile(lowered_.text, {.num_replicas = options.num_replicas})),
      kept_(static_cast<size_t>(options.num_replicas)) {
  for (size_t r = 0; r < kept_.size(); ++r) {
    kept_[r].resize(lowered_.parameters.size());
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      if (lowered_.parameters[p].kind != Parameter::Kind::kRandom) continue;
      const uint64_t state[2] = {detail::split_mix64(options_.seed + 1),
                                 detail::split_mix64(r + 1)};
      kept_[r][p] = std::make_unique<pjrt::Buffer>(
          client_.to_device(state, array_type(lowered_.parameters[p]), static_cast<int64_t>(r)));
    }
  }
  push();
}

void CompiledGraph::push_one(size_t replica, size_t parameter) {
  const Parameter& each = lowered_.parameters[parameter];
  const at::Tensor part = part_of(each.tensor, each.where).contiguous();
  kept_[replica][parameter] = std::make_unique<pjrt::Buffer>(
      client_.to_device(part.const_data_ptr(), array_type(each), static_cast<int64_t>(replica)));
}

void CompiledGraph::push() {
  for (size_t r = 0; r < kept_.size(); ++r) {
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      if (lowered_.parameters[p].kind == Parameter::Kind::kCapture) push_one(r, p);
    }
  }
}

void CompiledGraph::pull() {
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
    const Parameter& parameter = lowered_.parameters[p];
    if (parameter.kind != Parameter::Kind::kCapture || parameter.next < 0) continue;
    const at::Tensor target = part_of(parameter.tensor, parameter.where);
    const at::Tensor read = at::empty(parameter.where.sizes, target.options());
    kept_[0][p]->to_host(read.mutable_data_ptr(), read.nbytes(), options_.timeout);
    target.copy_(read);
  }
}

std::vector<pjrt::Buffer> CompiledGraph::copy_inputs(size_t replica,
                                                     const std::vector<at::Tensor>& inputs) const {
  std::vector<pjrt::Buffer> buffers;
  for (const Parameter& parameter : lowered_.parameters) {
    if (parameter.kind != Parameter::Kind::kInput) continue;
    const at::Tensor& input = inputs[parameter.input];
    const Value& value =
        trace_->graph.values[static_cast<size_t>(trace_->graph.inputs[parameter.input])];
    const Sizes expected = with_steps(value.sizes, options_.steps_per_run);
    STRATA_CHECK(input.defined() && input.scalar_type() == value.dtype &&
                     input.sizes() == at::IntArrayRef(expected),
                 kInvalidArgument, "[stablehlo] run: ", trace_->graph.name, ": got an input ",
                 parameter.input, " of ",
                 input.defined() ? str_cat(input.scalar_type(), " ", input.sizes()) : "nothing",
                 "; expected ", value.dtype, " ", at::IntArrayRef(expected),
                 ", as the step was traced with; pad a smaller batch, or trace it again");
    at::Tensor laid = input.detach();
    if (options_.steps_per_run == 1) {
      laid = laid_as(laid, value, parameter.where);
    } else if (geometry_of(value) != parameter.where) {
      std::vector<at::Tensor> steps;
      for (const at::Tensor& step : laid.unbind(0)) {
        steps.push_back(laid_as(step, value, parameter.where));
      }
      laid = at::stack(steps);
    }
    laid = laid.contiguous();
    pjrt::ArrayType type = array_type(parameter);
    type.sizes = with_steps(type.sizes, options_.steps_per_run);
    buffers.push_back(
        client_.to_device(laid.const_data_ptr(), type, static_cast<int64_t>(replica)));
  }
  return buffers;
}

at::Tensor CompiledGraph::to_tensor(const pjrt::Buffer& buffer, const Value& value,
                                    bool stacked) const {
  const at::Tensor tensor = at::empty(with_steps(value.sizes, stacked ? options_.steps_per_run : 1),
                                      at::TensorOptions(value.dtype));
  buffer.to_host(tensor.mutable_data_ptr(), tensor.nbytes(), options_.timeout);
  return tensor;
}

std::vector<std::vector<at::Tensor>> CompiledGraph::run(
    const std::vector<std::vector<at::Tensor>>& inputs) {
  const Graph& graph = trace_->graph;
  STRATA_CHECK(inputs.size() == kept_.size(), kInvalidArgument, "[stablehlo] run: ", graph.name,
               ": got inputs for ", inputs.size(), " replicas; expected ", kept_.size());
  std::vector<std::vector<pjrt::Buffer>> copied;
  std::vector<std::vector<const pjrt::Buffer*>> arguments(inputs.size());
  for (size_t r = 0; r < inputs.size(); ++r) {
    STRATA_CHECK(inputs[r].size() == graph.inputs.size(), kInvalidArgument,
                 "[stablehlo] run: ", graph.name, ": got ", inputs[r].size(), " inputs; expected ",
                 graph.inputs.size());
    copied.push_back(copy_inputs(r, inputs[r]));
    size_t next = 0;
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      const bool input = lowered_.parameters[p].kind == Parameter::Kind::kInput;
      arguments[r].push_back(input ? &copied[r][next++] : kept_[r][p].get());
    }
  }
  std::vector<std::vector<pjrt::Buffer>> results = executable_.run(arguments);
  std::vector<std::vector<at::Tensor>> outputs(results.size());
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      const int64_t next = lowered_.parameters[p].next;
      if (next < 0) continue;
      kept_[r][p] = std::make_unique<pjrt::Buffer>(results[r][static_cast<size_t>(next)]);
    }
  }
  gradients_.clear();
  for (size_t r = 0; r < results.size(); ++r) {
    size_t place = 0;
    const auto read = [&](ValueId id, bool stacked) {
      return to_tensor(results[r][place++], graph.values[static_cast<size_t>(id)], stacked);
    };
    for (const ValueId id : graph.outputs) {
      outputs[r].push_back(id == kNoValue ? at::Tensor() : read(id, true));
    }
    if (r > 0) continue;
    for (const GradientEffect& effect : trace_->effects) {
      for (const ValueId id : effect.gradients) gradients_.push_back(read(id, false));
    }
  }
  return outputs;
}

}  // namespace strata::graph::stablehlo
