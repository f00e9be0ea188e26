#include "estimator/columns/host_entries.h"

#include <ATen/ops/full.h>

#include <utility>

#include "graph/host_call.h"

namespace strata::feature_column::detail {

int64_t most_entries(const at::Tensor& values, bool is_text) {
  int64_t most = 1;
  const int64_t end = values.dim() - (is_text ? 1 : 0);
  for (int64_t axis = 1; axis < end; ++axis) most *= values.size(axis);
  return most;
}

HostEntries::HostEntries(const at::Tensor& values, bool is_text)
    : values_(values.detach().cpu().contiguous()),
      rows_(values.size(0)),
      most_(most_entries(values, is_text)),
      width_(is_text ? values.size(-1) : 0) {
  if (!is_text) values_ = values_.to(at::kLong);
}

std::string_view HostEntries::text(int64_t row, int64_t entry) const {
  const auto* from = reinterpret_cast<const char*>(values_.const_data_ptr<uint8_t>()) +
                     (row * most_ + entry) * width_;
  const std::string_view padded(from, static_cast<size_t>(width_));
  return padded.substr(0, padded.find_last_not_of('\0') + 1);
}

int64_t HostEntries::integer(int64_t row, int64_t entry) const {
  return values_.const_data_ptr<int64_t>()[row * most_ + entry];
}

at::Tensor ids_on_host(const char* node, const std::vector<at::Tensor>& inputs, int64_t most,
                       ComputeIds compute) {
  const at::Device device = inputs.at(0).device();
  const auto run = [most, compute = std::move(compute)](const std::vector<at::Tensor>& given) {
    at::Tensor ids = at::full({given.at(0).size(0), most}, kAbsent, at::kLong);
    compute(given, ids);
    return std::vector<at::Tensor>{ids.to(given[0].device())};
  };
  return graph::call_host(node, inputs, {{{inputs[0].size(0), most}, at::kLong, device}}, run, {},
                          graph::HostInputs::kOfThisRun)
      .at(0);
}

}  // namespace strata::feature_column::detail
