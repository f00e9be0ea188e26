#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include "data/row_stream.h"

namespace strata::data::detail {
namespace {

class RangeRows final : public Rows {
 public:
  RangeRows(int64_t start, int64_t step, int64_t size) : start_(start), step_(step), size_(size) {}

  int64_t size() const override { return size_; }

  Example row(int64_t index) const override {
    return Example{at::scalar_tensor(value(index), at::kLong)};
  }

  Example gather(std::span<const int64_t> indices) const override {
    at::Tensor out = at::empty({static_cast<int64_t>(indices.size())}, at::kLong);
    auto* to = out.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) *to++ = value(index);
    return Example{out};
  }

  int64_t version() const override { return 0; }
  std::optional<ElementSpec> spec() const override {
    return ElementSpec{{.shape = {}, .dtype = at::kLong}};
  }

 private:
  int64_t value(int64_t index) const { return start_ + index * step_; }

  int64_t start_;
  int64_t step_;
  int64_t size_;
};

class RangeSource final : public RowSource {
 public:
  RangeSource(int64_t start, int64_t step, int64_t size) : rows_(start, step, size) {}
  const Rows* rows() const override { return &rows_; }

 private:
  RangeRows rows_;
};

// ceil((stop - start) / step), without overflow of the difference.
int64_t range_size(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto a = static_cast<uint64_t>(start), b = static_cast<uint64_t>(stop);
  const uint64_t distance = step > 0 ? b - a : a - b;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t size = (distance - 1) / stride + 1;
  STRATA_CHECK(size <= uint64_t{1} << 62, kInvalidArgument, "[data] range: got ", size,
               " elements from ", start, " to ", stop, "; expected at most 2^62");
  return static_cast<int64_t>(size);
}

}  // namespace

SourcePtr make_range(int64_t start, int64_t stop, int64_t step) {
  STRATA_CHECK(step != 0, kInvalidArgument, "[data] range: got step 0; expected another");
  return std::make_shared<RangeSource>(start, step, range_size(start, stop, step));
}

}  // namespace strata::data::detail
