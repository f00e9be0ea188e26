#include "graph/stablehlo/transfers.h"

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

pjrt::ArrayType array_type(const Parameter& parameter) {
  return {.element = element_of(parameter.dtype), .sizes = parameter.where.sizes};
}

}  // namespace

at::Tensor part_of(const at::Tensor& tensor, const Geometry& where) {
  return tensor.detach().as_strided(where.sizes, where.strides, where.offset);
}

pjrt::Buffer copy_capture(const pjrt::Client& client, const Parameter& parameter,
                          const at::Tensor& tensor, size_t replica) {
  const at::Tensor part = part_of(tensor, parameter.where).contiguous();
  return client.to_device(part.const_data_ptr(), array_type(parameter),
                          static_cast<int64_t>(replica));
}

void read_capture(const pjrt::Buffer& buffer, const Parameter& parameter, const at::Tensor& tensor,
                  std::chrono::milliseconds timeout) {
  const at::NoGradGuard no_grad;
  const at::Tensor target = part_of(tensor, parameter.where);
  const at::Tensor read = at::empty(parameter.where.sizes, target.options());
  buffer.to_host(read.mutable_data_ptr(), read.nbytes(), timeout);
  target.copy_(read);
}

pjrt::Buffer random_state(const pjrt::Client& client, const Parameter& parameter, uint64_t seed,
                          size_t replica) {
  const uint64_t state[2] = {detail::split_mix64(seed + 1), detail::split_mix64(replica + 1)};
  return client.to_device(state, array_type(parameter), static_cast<int64_t>(replica));
}

std::vector<pjrt::Buffer> copy_inputs(const pjrt::Client& client, const Graph& graph,
                                      const LoweredGraph& lowered, int64_t steps, size_t replica,
                                      const std::vector<at::Tensor>& inputs) {
  std::vector<pjrt::Buffer> buffers;
  for (const Parameter& parameter : lowered.parameters) {
    if (parameter.kind != Parameter::Kind::kInput) continue;
    const at::Tensor& input = inputs[parameter.input];
    const Value& value = graph.values[static_cast<size_t>(graph.inputs[parameter.input])];
    const Sizes expected = with_steps(value.sizes, steps);
    STRATA_CHECK(input.defined() && input.scalar_type() == value.dtype &&
                     input.sizes() == at::IntArrayRef(expected),
                 kInvalidArgument, "[stablehlo] run: ", graph.name, ": got an input ",
                 parameter.input, " of ",
                 input.defined() ? str_cat(input.scalar_type(), " ", input.sizes()) : "nothing",
                 "; expected ", value.dtype, " ", at::IntArrayRef(expected),
                 ", as the step was traced with; pad a smaller batch, or trace it again");
    at::Tensor laid = input.detach();
    if (steps == 1) {
      laid = laid_as(laid, value, parameter.where);
    } else if (geometry_of(value) != parameter.where) {
      std::vector<at::Tensor> each_step;
      for (const at::Tensor& step : laid.unbind(0)) {
        each_step.push_back(laid_as(step, value, parameter.where));
      }
      laid = at::stack(each_step);
    }
    laid = laid.contiguous();
    pjrt::ArrayType type = array_type(parameter);
    type.sizes = with_steps(type.sizes, steps);
    buffers.push_back(client.to_device(laid.const_data_ptr(), type, static_cast<int64_t>(replica)));
  }
  return buffers;
}

at::Tensor read_result(const pjrt::Buffer& buffer, const Value& value, int64_t steps,
                       std::chrono::milliseconds timeout) {
  const at::Tensor tensor =
      at::empty(with_steps(value.sizes, steps), at::TensorOptions(value.dtype));
  buffer.to_host(tensor.mutable_data_ptr(), tensor.nbytes(), timeout);
  return tensor;
}

}  // namespace strata::graph::stablehlo
