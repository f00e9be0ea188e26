#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/attention_products.h"
#include "kernels/attention_tiles.h"
#include "kernels/bf16_tensor.h"
#include "kernels/scratch.h"

/// Attention's operands and results. Tiles read and write floats: those of tensors of float where
/// they lie, and copies of some heads of tensors of bfloat16, which stay in the caches meanwhile.
namespace strata::kernels::attention_tiles {

/// The shape of a thread's copy.
class HeadsCopy {
 public:
  /// @param count  Heads at a time.
  HeadsCopy(const at::Tensor& x, int64_t count)
      : heads_(count),
        rows_(x.size(2)),
        columns_(x.size(3)),
        stride_(padded(columns_)),
        memory_(is_cpu_bfloat16(x) ? heads_ * rows_ * stride_ : 0) {}

 protected:
  template <typename T>
  HeadsView<T> copy_of(int64_t first) const {
    return {memory_.data(), 0, rows_ * stride_, stride_, first};
  }
  int64_t heads() const { return heads_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  int64_t heads_, rows_, columns_, stride_;
  Scratch memory_;
};

class HeadsIn : HeadsCopy {
 public:
  HeadsIn(const at::Tensor& x, int64_t count) : HeadsCopy(x, count) {
    if (is_cpu_bfloat16(x)) {
      halves_ = {bf16_data(x), x.stride(0), x.stride(1), x.stride(2), 0};
    } else {
      floats_ = view_of(x);
    }
  }

  /// From here on `first` is the first head of those that are read.
  const HeadsView<const float>& take(int64_t batch, int64_t first) {
    if (halves_.data == nullptr || (batch == batch_ && first == floats_.first)) return floats_;
    batch_ = batch;
    floats_ = copy_of<const float>(first);
    const HeadsView<float> to = copy_of<float>(first);
    for (int64_t head = first; head < first + heads(); ++head) {
      attention_products().widen_rows(halves_.at(batch, head, 0), halves_.row, rows(), columns(),
                                      to.at(batch, head, 0), to.row);
    }
    return floats_;
  }

 private:
  HeadsView<const uint16_t> halves_;
  HeadsView<const float> floats_;
  int64_t batch_ = -1;
};

class HeadsOut : HeadsCopy {
 public:
  HeadsOut(const at::Tensor& x, int64_t count) : HeadsCopy(x, count) {
    if (is_cpu_bfloat16(x)) {
      halves_ = {mutable_bf16_data(x), x.stride(0), x.stride(1), x.stride(2), 0};
    } else {
      floats_ = mutable_view_of(x);
    }
  }

  /// From here on `first` is the first head of those that are written.
  const HeadsView<float>& take(int64_t first) {
    if (halves_.data != nullptr) floats_ = copy_of<float>(first);
    return floats_;
  }
  /// Rounds rows of the heads that were taken, if they are a copy.
  void put(int64_t batch, int64_t first_row, int64_t count) const {
    if (halves_.data == nullptr) return;
    for (int64_t head = floats_.first; head < floats_.first + heads(); ++head) {
      attention_products().round_rows(floats_.at(batch, head, first_row), floats_.row, count,
                                      columns(), halves_.at(batch, head, first_row), halves_.row);
    }
  }

 private:
  HeadsView<uint16_t> halves_;
  HeadsView<float> floats_;
};

}  // namespace strata::kernels::attention_tiles
