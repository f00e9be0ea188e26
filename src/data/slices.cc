#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <numeric>

#include "data/copy_rows.h"
#include "data/row_stream.h"
#include "data/row_view.h"

namespace strata::data::detail {
namespace {

class TensorRows final : public Rows {
 public:
  explicit TensorRows(std::vector<at::Tensor> fields)
      : fields_(std::move(fields)), size_(fields_.front().size(0)) {}

  int64_t size() const override { return size_; }

  Example row(int64_t index) const override {
    std::vector<at::Tensor> row;
    row.reserve(fields_.size());
    for (const auto& field : fields_) row.push_back(row_view(field, index));
    return Example(std::move(row));
  }

  Example gather(std::span<const int64_t> indices) const override {
    std::vector<at::Tensor> batch;
    batch.reserve(fields_.size());
    for (const auto& field : fields_) batch.push_back(gather_field(field, indices));
    return Example(std::move(batch));
  }

  int64_t version() const override {
    int64_t version = 0;
    for (const auto& field : fields_) version += tensor_version(field);
    return version;
  }

  std::optional<ElementSpec> spec() const override {
    ElementSpec all;
    for (const auto& field : fields_)
      all.push_back({.shape = field.sizes().slice(1).vec(), .dtype = field.scalar_type()});
    return all;
  }

 private:
  static at::Tensor gather_field(const at::Tensor& field, std::span<const int64_t> indices) {
    if (!field.is_cpu()) {
      const auto rows = at::from_blob(const_cast<int64_t*>(indices.data()),
                                      {static_cast<int64_t>(indices.size())}, at::kLong);
      return at::index_select(field, 0, rows.to(field.device()));
    }
    std::vector<int64_t> sizes = field.sizes().vec();
    sizes[0] = static_cast<int64_t>(indices.size());
    at::Tensor out = at::empty(sizes, field.options());
    const int64_t row_numel = field.size(0) == 0 ? 0 : field.numel() / field.size(0);
    copy_rows(static_cast<const char*>(field.const_data_ptr()), indices,
              static_cast<size_t>(row_numel) * field.element_size(),
              static_cast<char*>(out.mutable_data_ptr()));
    return out;
  }

  std::vector<at::Tensor> fields_;
  int64_t size_;
};

class SlicesSource final : public RowSource {
 public:
  explicit SlicesSource(std::vector<at::Tensor> fields) : rows_(std::move(fields)) {}
  const Rows* rows() const override { return &rows_; }

 private:
  TensorRows rows_;
};

void check_field(const at::Tensor& field, size_t f, const char* call) {
  STRATA_CHECK(field.defined(), kInvalidArgument, "[data] ", call,
               ": got an undefined tensor in field ", f, "; expected a dense tensor");
  STRATA_CHECK(field.layout() == at::kStrided, kInvalidArgument, "[data] ", call, ": got a ",
               field.layout(), " tensor in field ", f,
               "; expected a dense one; call to_dense() first");
}

}  // namespace

SourcePtr make_slices(const Example& tensors, const char* call) {
  STRATA_CHECK(tensors.size() > 0, kInvalidArgument, "[data] ", call,
               ": got no tensors; expected at least one");
  std::vector<at::Tensor> fields;
  for (size_t f = 0; f < tensors.fields.size(); ++f) {
    const auto& field = tensors.fields[f];
    check_field(field, f, call);
    STRATA_CHECK(
        field.dim() > 0, kInvalidArgument, "[data] ", call, ": got a scalar in field ", f,
        "; expected at least one dimension, the rows; use from_tensors for a single element");
    STRATA_CHECK(field.size(0) == tensors[0].size(0), kInvalidArgument, "[data] ", call, ": got ",
                 field.size(0), " rows in field ", f, " and ", tensors[0].size(0),
                 " in field 0; expected the same number in every field");
    // detach() shares the data and its version counter; a dataset takes no part in autograd.
    fields.push_back(field.detach().resolve_conj().resolve_neg().contiguous());
  }
  return std::make_shared<SlicesSource>(std::move(fields));
}

SourcePtr make_single(const Example& tensors) {
  Example rows;
  for (size_t f = 0; f < tensors.fields.size(); ++f) {
    check_field(tensors.fields[f], f, "from_tensors");
    rows.fields.push_back(tensors.fields[f].detach().unsqueeze(0));
  }
  return make_slices(rows, "from_tensors");
}

}  // namespace strata::data::detail
