#include "strata/interop/torch_data.h"

#include <ATen/ops/stack.h>

namespace strata::interop::detail {

data::Example stack(const std::vector<std::vector<at::Tensor>>& rows) {
  STRATA_CHECK(!rows.empty(), kInvalidArgument,
               "[interop] from_data_loader: got a batch without rows; expected at least one");
  data::Example batch;
  for (size_t field = 0; field < rows[0].size(); ++field) {
    std::vector<at::Tensor> column;
    for (const auto& row : rows) {
      const at::Tensor& value = row[field];
      STRATA_CHECK(value.sizes() == rows[0][field].sizes(), kInvalidArgument,
                   "[interop] from_data_loader: got rows of shapes ", rows[0][field].sizes(),
                   " and ", value.sizes(), " in one batch; expected equal shapes, to be stacked");
      column.push_back(value);
    }
    batch.fields.push_back(at::stack(column));
  }
  return batch;
}

}  // namespace strata::interop::detail
