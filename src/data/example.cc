#include "strata/data/example.h"

#include "strata/core/error.h"

namespace strata::data {

const at::Tensor& Example::field(int64_t index, const char* name) const {
  STRATA_CHECK(index >= 0 && index < size(), kOutOfRange, "[data] Example: got a call for field ",
               index, name ? str_cat(" (", name, ")") : std::string(), "; this example has ",
               size(), size() == 1 ? " field" : " fields",
               "; fields are x, y, weight in this order");
  return fields[static_cast<size_t>(index)];
}

int64_t Example::num_rows() const {
  STRATA_CHECK(!fields.empty(), kInvalidArgument,
               "[data] Example::num_rows: got an example without fields; expected at least one");
  int64_t rows = -1;
  for (size_t f = 0; f < fields.size(); ++f) {
    STRATA_CHECK(fields[f].defined() && fields[f].dim() > 0, kInvalidArgument,
                 "[data] Example::num_rows: got ",
                 fields[f].defined() ? "a scalar" : "an undefined tensor", " in field ", f,
                 "; expected a batch, whose fields have dimension 0 = rows; call batch() first");
    if (f == 0) rows = fields[f].size(0);
    STRATA_CHECK(fields[f].size(0) == rows, kInvalidArgument, "[data] Example::num_rows: got ",
                 fields[f].size(0), " rows in field ", f, " and ", rows,
                 " in field 0; expected the same number in every field");
  }
  return rows;
}

Example Example::map(const std::function<at::Tensor(const at::Tensor&)>& fn) const {
  std::vector<at::Tensor> mapped;
  mapped.reserve(fields.size());
  for (const auto& field : fields) mapped.push_back(fn(field));
  return Example(std::move(mapped));
}

}  // namespace strata::data
