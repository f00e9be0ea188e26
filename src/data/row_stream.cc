#include "data/row_stream.h"

#include <algorithm>

namespace strata::data::detail {

bool CountStream::next(int64_t& out) {
  if (next_ >= size_) return false;
  out = next_++;
  return true;
}

int64_t CountStream::skip(int64_t count) {
  const int64_t skipped = std::min(count, size_ - next_);
  next_ += skipped;
  return skipped;
}

Position CountStream::position() const { return Position("rows", {next_, size_}); }

void CountStream::restore(const Position& position) {
  expect_position(position, "rows", 2, 0);
  position_number(position, 1, size_, size_);
  next_ = position_number(position, 0, 0, size_);
}

void RowsGuard::fail() const {
  throw Error(
      ErrorCode::kFailedPrecondition,
      "[data] next: the source's tensors were changed in place during the iteration; expected "
      "them to stay as they are; elements are views, so clone() before an in-place operation "
      "(in a mapped function: x.div(255) instead of x.div_(255))");
}

namespace {

class RowStream final : public ExampleStream {
 public:
  RowStream(const Rows& rows, std::unique_ptr<IndexStream> indices)
      : rows_(rows), guard_(rows), indices_(std::move(indices)) {}

  bool next(Example& out) override {
    int64_t index = 0;
    if (!indices_->next(index)) return false;
    guard_.check();
    out = rows_.row(index);
    return true;
  }
  int64_t skip(int64_t count) override { return indices_->skip(count); }
  Position position() const override { return indices_->position(); }
  void restore(const Position& position) override { indices_->restore(position); }

 private:
  const Rows& rows_;
  RowsGuard guard_;
  std::unique_ptr<IndexStream> indices_;
};

}  // namespace

std::unique_ptr<ExampleStream> open_row_stream(const Source& source, uint64_t epoch) {
  return std::make_unique<RowStream>(*source.rows(), source.indices(epoch));
}

}  // namespace strata::data::detail
