#include "suites/multiplications.h"

#include <ATen/record_function.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/cpu_isa.h"
#include "strata/core/error.h"
#include "suites/fma_peak.h"

namespace strata::bench {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

/// a b, the operands being inputs `first` and the next.
int64_t of_product(Inputs inputs, size_t first) {
  return inputs[first].toTensor().numel() * inputs[first + 1].toTensor().size(-1);
}

int64_t of_convolution(Inputs inputs) {
  const at::Tensor& input = inputs[0].toTensor();
  const at::Tensor& weight = inputs[1].toTensor();
  const auto strides = inputs[3].toIntVector(), padding = inputs[4].toIntVector(),
             dilation = inputs[5].toIntVector();
  int64_t count = input.size(0) * weight.numel();
  for (size_t i = 0; i < strides.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    count *=
        (input.size(dim) + 2 * padding[i] - dilation[i] * (weight.size(dim) - 1) - 1) / strides[i] +
        1;
  }
  return count;
}

int64_t of_convolution_gradients(Inputs inputs) {
  const at::Tensor& weight = inputs[2].toTensor();
  const auto wanted = inputs[10].toBoolList();
  return inputs[0].toTensor().numel() * (weight.numel() / weight.size(0)) *
         (int64_t{wanted[0]} + int64_t{wanted[1]});
}

/// `products` of them. @param query  Which input; the key is the next. @param causal  Which input.
int64_t of_attention(Inputs inputs, int64_t products, size_t query, size_t causal) {
  const at::Tensor& key = inputs[query + 1].toTensor();
  const int64_t tokens = key.size(-2);
  const int64_t all = products * inputs[query].toTensor().numel() * tokens;
  return inputs[causal].toBool() ? all * (tokens + 1) / (2 * tokens) : all;
}

/// A step's of each row with the weights of inputs and of the state, the inputs behind the first.
int64_t of_recurrence(Inputs inputs) {
  const at::Tensor& rows = inputs[0].toTensor();  // [steps, batch, features]
  return rows.size(0) * rows.size(1) *
         (inputs[1].toTensor().numel() + inputs[2].toTensor().numel());
}

using Count = int64_t (*)(Inputs);
const std::map<std::string_view, Count> kCounts = {
    {"aten::mm", [](Inputs inputs) { return of_product(inputs, 0); }},
    {"aten::bmm", [](Inputs inputs) { return of_product(inputs, 0); }},
    {"aten::addmm", [](Inputs inputs) { return of_product(inputs, 1); }},
    {"aten::baddbmm", [](Inputs inputs) { return of_product(inputs, 1); }},
    {"aten::convolution", of_convolution},
    {"aten::convolution_backward", of_convolution_gradients},
    {"aten::mkldnn_rnn_layer", of_recurrence},
    {"aten::mkldnn_rnn_layer_backward", [](Inputs inputs) { return 2 * of_recurrence(inputs); }},
    {"aten::_scaled_dot_product_flash_attention_for_cpu",
     [](Inputs inputs) { return of_attention(inputs, 2, 0, 4); }},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     [](Inputs inputs) { return of_attention(inputs, 4, 1, 7); }},
};

std::atomic<int64_t> counted;

std::unique_ptr<at::ObserverContext> add_call(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  // An operator with an `out` is called by one that has been counted.
  if (!name || name->overload_name == "out") return nullptr;
  const auto count = kCounts.find(name->name);
  if (count != kCounts.end()) counted += count->second(call.inputs());
  return nullptr;
}

}  // namespace

int64_t count_multiplications(const std::function<void()>& run) {
  counted = 0;
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(add_call).needsInputs(true).scopes(
          {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  run();
  at::removeCallback(handle);
  return counted;
}

float multiply_at_peak(int64_t multiplications) {
  STRATA_CHECK(best_cpu_isa() != CpuIsa::kBaseline, kUnimplemented,
               "[strata bench] peak: got a processor without AVX2 and FMA; expected one with them");
  return STRATA_KERNELS_FOR(best_cpu_isa(), fma_peak).multiply(multiplications);
}

}  // namespace strata::bench
