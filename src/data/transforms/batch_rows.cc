#include "data/transforms/batch_rows.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "strata/core/error.h"

namespace strata::data::detail {

Example rows_of(const Example& batch, int64_t begin, int64_t count) {
  Example rows;
  rows.fields.reserve(batch.fields.size());
  for (const at::Tensor& field : batch.fields) rows.fields.push_back(field.narrow(0, begin, count));
  return rows;
}

bool BatchRows::ensure_row() {
  while (row_ == rows_) {
    if (!read_batch()) return false;
  }
  return true;
}

Example BatchRows::take(int64_t count) {
  Example rows = rows_of(batch_, row_, count);
  row_ += count;
  return rows;
}

void BatchRows::restore(const Position& before, int64_t row) {
  input_->restore(before);
  before_ = before;
  if (row == 0) return;
  STRATA_CHECK(ensure_row() && row <= rows_, kInvalidArgument, "[data] restore: got row ", row,
               " of a batch with ", rows_, " rows; the source has changed");
  row_ = row;
}

bool BatchRows::read_batch() {
  if (ended_) return false;
  Position before = input_->position();
  row_ = rows_ = 0;
  has_batch_ = false;
  try {
    ended_ = !input_->next(batch_);
    if (!ended_) rows_ = batch_.num_rows();
  } catch (...) {
    before_ = input_->position();
    throw;
  }
  before_ = std::move(before);
  has_batch_ = !ended_;
  return has_batch_;
}

}  // namespace strata::data::detail
