#include <algorithm>
#include <limits>

#include "data/copy_rows.h"
#include "data/element_specs.h"
#include "data/row_stream.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

// Reservations stay below this, whatever batch size the user asks for.
constexpr int64_t kMaxReserve = 1 << 20;

/// Collects `batch_size` elements of type T, and stacks them: examples by copying them together,
/// row numbers by gathering the rows.
template <class T>
class BatchStream final : public ExampleStream {
 public:
  BatchStream(const Source& input, uint64_t epoch, int64_t batch_size, bool drop_remainder)
      : input_(open_stream<T>(input, epoch)),
        rows_(input.rows()),
        guard_(rows_ ? std::make_optional<RowsGuard>(*rows_) : std::nullopt),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder) {
    elements_.reserve(static_cast<size_t>(std::min(batch_size, kMaxReserve)));
  }

  bool next(Example& out) override {
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
    if (count < batch_size_) ended_ = true;
    if (count == 0 || (count < batch_size_ && drop_remainder_)) return false;
    if constexpr (std::is_same_v<T, int64_t>) {
      guard_->check();
      out = rows_->gather(elements_);
    } else {
      out = stack_examples(elements_);
      elements_.clear();
    }
    return true;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count && !ended_) {
      const int64_t rows = input_->skip(batch_size_);
      if (rows < batch_size_) ended_ = true;
      if (rows == 0 || (rows < batch_size_ && drop_remainder_)) break;
      ++skipped;
    }
    return skipped;
  }

  // Whole batches only, so the input's position says it all.
  Position position() const override { return Position("batch", {}, {input_->position()}); }

  void restore(const Position& position) override {
    expect_position(position, "batch", 0, 1);
    input_->restore(position.children()[0]);
  }

 private:
  std::unique_ptr<Stream<T>> input_;
  const Rows* rows_;
  std::optional<RowsGuard> guard_;
  int64_t batch_size_;
  bool drop_remainder_;
  std::vector<T> elements_;
  bool ended_ = false;
};

class BatchSource final : public TransformSource {
 public:
  BatchSource(SourcePtr input, int64_t batch_size, bool drop_remainder)
      : TransformSource(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    if (input().rows() != nullptr)
      return std::make_unique<BatchStream<int64_t>>(input(), epoch, batch_size_, drop_remainder_);
    return std::make_unique<BatchStream<Example>>(input(), epoch, batch_size_, drop_remainder_);
  }

  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (n < 0) return n;
    return n / batch_size_ + (!drop_remainder_ && n % batch_size_ > 0 ? 1 : 0);
  }
  std::optional<int64_t> batch_size() const override { return batch_size_; }
  std::optional<ElementSpec> element_spec() const override {
    return batched_spec(input().element_spec(), drop_remainder_ ? batch_size_ : -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_batch(std::move(inputs[0]), batch_size_, drop_remainder_);
  }

 private:
  int64_t batch_size_;
  bool drop_remainder_;
};

}  // namespace

SourcePtr make_batch(SourcePtr input, int64_t batch_size, bool drop_remainder) {
  return std::make_shared<BatchSource>(std::move(input), batch_size, drop_remainder);
}

}  // namespace strata::data::detail
