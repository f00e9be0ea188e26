#pragma once

#include "data/source.h"

namespace strata::data::detail {

/// 0, 1, ..., size - 1.
class CountStream final : public IndexStream {
 public:
  explicit CountStream(int64_t size) : size_(size) {}

  bool next(int64_t& out) override;
  int64_t skip(int64_t count) override;
  Position position() const override;
  void restore(const Position& position) override;

 private:
  int64_t size_;
  int64_t next_ = 0;
};

/// Finds out that rows were changed in place during an iteration.
class RowsGuard {
 public:
  explicit RowsGuard(const Rows& rows) : rows_(rows), version_(rows.version()) {}

  /// @throws Error kFailedPrecondition: the rows are not what they were.
  void check() const {
    if (rows_.version() != version_) [[unlikely]]
      fail();
  }

 private:
  [[noreturn]] void fail() const;

  const Rows& rows_;
  int64_t version_;
};

/// An in-memory source: every row once, in order.
class RowSource : public Source {
 public:
  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return open_row_stream(*this, epoch);
  }
  std::unique_ptr<IndexStream> indices(uint64_t) const override {
    return std::make_unique<CountStream>(rows()->size());
  }
  int64_t cardinality() const override { return rows()->size(); }
};

}  // namespace strata::data::detail
