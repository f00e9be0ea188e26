#pragma once

#include <cstdint>
#include <memory>

#include "data/source.h"

namespace strata::data::detail {

/// The rows `begin` to `begin + count` of a batch; no copies.
Example rows_of(const Example& batch, int64_t begin, int64_t count);

/// The rows of a stream of batches, one batch at a time. Its position is that of the input before
/// the batch, and a row.
class BatchRows {
 public:
  explicit BatchRows(std::unique_ptr<ExampleStream> input)
      : input_(std::move(input)), before_(input_->position()) {}

  /// Makes sure of a batch with a row left. @return false: the input has ended.
  bool ensure_row();
  /// Makes sure of a batch, which may have no row left. @return false: the input has ended.
  bool ensure_batch() { return has_batch_ || read_batch(); }

  // Of the batch:
  const Example& batch() const { return batch_; }
  int64_t row() const { return row_; }
  int64_t rows_left() const { return rows_ - row_; }
  void advance(int64_t count) { row_ += count; }
  Example take(int64_t count);

  /// Of the input, before the batch.
  const Position& before() const { return before_; }
  /// @throws Error  kInvalidArgument: the batch there has become shorter.
  void restore(const Position& before, int64_t row);

 private:
  bool read_batch();

  std::unique_ptr<ExampleStream> input_;
  Position before_;
  Example batch_;
  bool has_batch_ = false;
  int64_t rows_ = 0;
  int64_t row_ = 0;
  bool ended_ = false;
};

}  // namespace strata::data::detail
