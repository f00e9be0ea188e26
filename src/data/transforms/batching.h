#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "data/source.h"

namespace strata::data::detail {

/// Collects `batch_size` elements of type T, and makes one of them. Holds nothing between batches,
/// so the input's position says it all.
template <class T>
class BatchingStream : public ExampleStream {
 public:
  /// @param kind  Of the positions.
  BatchingStream(const char* kind, std::unique_ptr<Stream<T>> input, int64_t batch_size,
                 bool drop_remainder)
      : kind_(kind),
        input_(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder) {
    // Whatever batch size the user asks for.
    constexpr int64_t kMaxReserve = 1 << 20;
    elements_.reserve(static_cast<size_t>(std::min(batch_size, kMaxReserve)));
  }

  bool next(Example& out) final {
    if (ended_) return false;
    elements_.clear();
    T element{};
    try {
      while (static_cast<int64_t>(elements_.size()) < batch_size_ && input_->next(element))
        elements_.push_back(std::move(element));
    } catch (...) {
      // This batch is lost, and the next one what it would have been.
      input_->skip(batch_size_ - static_cast<int64_t>(elements_.size()) - 1);
      throw;
    }
    const auto count = static_cast<int64_t>(elements_.size());
    ended_ = count < batch_size_;
    if (count == 0 || (ended_ && drop_remainder_)) return false;
    out = make(elements_);
    elements_.clear();
    return true;
  }

  int64_t skip(int64_t count) final {
    int64_t skipped = 0;
    while (skipped < count && !ended_) {
      const int64_t rows = input_->skip(batch_size_);
      ended_ = rows < batch_size_;
      if (rows == 0 || (ended_ && drop_remainder_)) break;
      ++skipped;
    }
    return skipped;
  }

  Position position() const final { return Position(kind_, {}, {input_->position()}); }

  void restore(const Position& position) final {
    expect_position(position, kind_, 0, 1);
    input_->restore(position.children()[0]);
  }

 private:
  /// The batch of `elements`, at least one.
  virtual Example make(const std::vector<T>& elements) = 0;

  const char* kind_;
  std::unique_ptr<Stream<T>> input_;
  int64_t batch_size_;
  bool drop_remainder_;
  std::vector<T> elements_;
  bool ended_ = false;
};

/// Of batches. `n` elements, or Dataset::kInfinite, kUnknown.
inline int64_t batched_cardinality(int64_t n, int64_t batch_size, bool drop_remainder) {
  if (n < 0) return n;
  return n / batch_size + (!drop_remainder && n % batch_size > 0 ? 1 : 0);
}

}  // namespace strata::data::detail
