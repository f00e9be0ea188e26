#include "data/transforms/functions.h"
#include "data/row_stream.h"

namespace strata::data::detail {
namespace {

/// Passes on what the predicate is true of; of in-memory sources row numbers.
template <class T>
class FilterStream final : public Stream<T> {
 public:
  FilterStream(std::unique_ptr<Stream<T>> input, const Rows* rows, const Predicate& predicate)
      : input_(std::move(input)), rows_(rows), predicate_(predicate) {}

  bool next(T& out) override {
    while (input_->next(out)) {
      if (accepts(out)) return true;
    }
    return false;
  }
  Position position() const override { return Position("filter", {}, {input_->position()}); }
  void restore(const Position& position) override {
    expect_position(position, "filter", 0, 1);
    input_->restore(position.children()[0]);
  }

 private:
  bool accepts(const Example& element) const { return predicate_(element); }
  bool accepts(int64_t row) const { return predicate_(rows_->row(row)); }

  std::unique_ptr<Stream<T>> input_;
  const Rows* rows_;
  const Predicate& predicate_;
};

class FilterSource final : public OrderSource<FilterSource> {
 public:
  FilterSource(SourcePtr input, Predicate predicate)
      : OrderSource(std::move(input)), predicate_(std::move(predicate)) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return std::make_unique<FilterStream<T>>(open_stream<T>(input(), epoch), rows(), predicate_);
  }
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_filter(std::move(inputs[0]), predicate_);
  }

 private:
  Predicate predicate_;
};

/// Ends before the first element that the predicate is false of.
template <class T>
class TakeWhileStream final : public Stream<T> {
 public:
  TakeWhileStream(std::unique_ptr<Stream<T>> input, const Rows* rows, const Predicate& predicate)
      : input_(std::move(input)), rows_(rows), predicate_(predicate) {}

  bool next(T& out) override {
    if (ended_) return false;
    ended_ = !input_->next(out) || !accepts(out);
    return !ended_;
  }
  Position position() const override {
    return Position("take_while", {ended_ ? 1 : 0}, {input_->position()});
  }
  void restore(const Position& position) override {
    expect_position(position, "take_while", 1, 1);
    ended_ = position_number(position, 0, 0, 1) == 1;
    input_->restore(position.children()[0]);
  }

 private:
  bool accepts(const Example& element) const { return predicate_(element); }
  bool accepts(int64_t row) const { return predicate_(rows_->row(row)); }

  std::unique_ptr<Stream<T>> input_;
  const Rows* rows_;
  const Predicate& predicate_;
  bool ended_ = false;
};

class TakeWhileSource final : public OrderSource<TakeWhileSource> {
 public:
  TakeWhileSource(SourcePtr input, Predicate predicate)
      : OrderSource(std::move(input)), predicate_(std::move(predicate)) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return std::make_unique<TakeWhileStream<T>>(open_stream<T>(input(), epoch), rows(), predicate_);
  }
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_take_while(std::move(inputs[0]), predicate_);
  }

 private:
  Predicate predicate_;
};

}  // namespace

SourcePtr make_filter(SourcePtr input, Predicate predicate) {
  return std::make_shared<FilterSource>(std::move(input), std::move(predicate));
}

SourcePtr make_take_while(SourcePtr input, Predicate predicate) {
  return std::make_shared<TakeWhileSource>(std::move(input), std::move(predicate));
}

}  // namespace strata::data::detail
