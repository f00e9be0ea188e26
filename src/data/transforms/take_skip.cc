#include <algorithm>
#include <limits>

#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

template <class T>
class TakeStream final : public Stream<T> {
 public:
  TakeStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : input_(std::move(input)), count_(count) {}

  bool next(T& out) override {
    if (taken_ >= count_) return false;
    ++taken_;  // whatever is thrown
    if (input_->next(out)) return true;
    --taken_;
    return false;
  }

  int64_t skip(int64_t count) override {
    const int64_t skipped = input_->skip(std::min(count, count_ - taken_));
    taken_ += skipped;
    return skipped;
  }

  Position position() const override { return Position("take", {taken_}, {input_->position()}); }

  void restore(const Position& position) override {
    expect_position(position, "take", 1, 1);
    taken_ = position_number(position, 0, 0, count_);
    input_->restore(position.children()[0]);
  }

 private:
  std::unique_ptr<Stream<T>> input_;
  int64_t count_;
  int64_t taken_ = 0;
};

class TakeSource final : public OrderSource<TakeSource> {
 public:
  TakeSource(SourcePtr input, int64_t count) : OrderSource(std::move(input)), count_(count) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    const int64_t count = count_ < 0 ? std::numeric_limits<int64_t>::max() : count_;
    return std::make_unique<TakeStream<T>>(open_stream<T>(input(), epoch), count);
  }

  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (count_ < 0 || n == 0) return n;
    if (count_ == 0 || n == Dataset::kInfinite) return count_;
    return n == Dataset::kUnknown ? n : std::min(n, count_);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_take(std::move(inputs[0]), count_);
  }

 private:
  int64_t count_;
};

template <class T>
class SkipStream final : public Stream<T> {
 public:
  SkipStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : input_(std::move(input)), left_to_skip_(count) {}

  bool next(T& out) override {
    pass();
    return input_->next(out);
  }

  int64_t skip(int64_t count) override {
    if (count == 0) return 0;
    pass();
    return input_->skip(count);
  }

  Position position() const override {
    return Position("skip", {left_to_skip_}, {input_->position()});
  }

  void restore(const Position& position) override {
    expect_position(position, "skip", 1, 1);
    left_to_skip_ = position_number(position, 0, 0, left_to_skip_);
    input_->restore(position.children()[0]);
  }

 private:
  void pass() {
    if (left_to_skip_ == 0) return;
    input_->skip(left_to_skip_);
    left_to_skip_ = 0;
  }

  std::unique_ptr<Stream<T>> input_;
  int64_t left_to_skip_;
};

class SkipSource final : public OrderSource<SkipSource> {
 public:
  SkipSource(SourcePtr input, int64_t count) : OrderSource(std::move(input)), count_(count) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    auto stream = open_stream<T>(input(), epoch);
    if (count_ < 0) return std::make_unique<TakeStream<T>>(std::move(stream), 0);
    return std::make_unique<SkipStream<T>>(std::move(stream), count_);
  }

  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (count_ < 0) return 0;
    return n < 0 ? n : std::max<int64_t>(0, n - count_);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_skip(std::move(inputs[0]), count_);
  }

 private:
  int64_t count_;
};

}  // namespace

SourcePtr make_take(SourcePtr input, int64_t count) {
  return std::make_shared<TakeSource>(std::move(input), count);
}

SourcePtr make_skip(SourcePtr input, int64_t count) {
  return std::make_shared<SkipSource>(std::move(input), count);
}

}  // namespace strata::data::detail
