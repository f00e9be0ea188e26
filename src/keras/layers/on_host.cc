#include "keras/layers/on_host.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "graph/host_call.h"

namespace strata::layers {

std::vector<int64_t> integers_of(const at::Tensor& numbers) {
  const at::Tensor integers = numbers.detach().cpu().to(at::kLong).contiguous();
  const std::span<const int64_t> elements = elements_of<int64_t>(integers);
  return {elements.begin(), elements.end()};
}

at::Tensor on_host(const char* node, const std::vector<at::Tensor>& inputs,
                   std::vector<int64_t> sizes, at::ScalarType dtype, HostCompute compute) {
  const at::Device device = inputs.at(0).device();
  const auto run = [sizes, dtype,
                    compute = std::move(compute)](const std::vector<at::Tensor>& given) {
    std::vector<at::Tensor> here;
    for (const at::Tensor& each : given) here.push_back(each.detach().cpu());
    at::Tensor result = at::zeros(sizes, dtype);
    compute(here, result);
    return std::vector<at::Tensor>{result.to(given[0].device())};
  };
  return graph::call_host(node, inputs, {{sizes, dtype, device}}, run, {},
                          graph::HostInputs::kOfThisRun)
      .at(0);
}

}  // namespace strata::layers
