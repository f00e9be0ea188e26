#include "data/row_stream.h"
#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

/// Asks about elements; of in-memory sources the input moves row numbers.
template <class T>
class PredicateStream : public Stream<T> {
 public:
  PredicateStream(std::unique_ptr<Stream<T>> input, const Rows* rows, const Predicate& predicate)
      : input_(std::move(input)), rows_(rows), predicate_(predicate) {}

 protected:
  Stream<T>& input() { return *input_; }
  const Stream<T>& input() const { return *input_; }
  bool accepts(const Example& element) const { return predicate_(element); }
  bool accepts(int64_t row) const { return predicate_(rows_->row(row)); }

 private:
  std::unique_ptr<Stream<T>> input_;
  const Rows* rows_;
  const Predicate& predicate_;
};

/// Passes on what the predicate is true of.
template <class T>
class FilterStream final : public PredicateStream<T> {
 public:
  using PredicateStream<T>::PredicateStream;

  bool next(T& out) override {
    while (this->input().next(out)) {
      if (this->accepts(out)) return true;
    }
    return false;
  }
  Position position() const override { return Position("filter", {}, {this->input().position()}); }
  void restore(const Position& position) override {
    expect_position(position, "filter", 0, 1);
    this->input().restore(position.children()[0]);
  }
};

/// Ends before the first element that the predicate is false of.
template <class T>
class TakeWhileStream final : public PredicateStream<T> {
 public:
  using PredicateStream<T>::PredicateStream;

  bool next(T& out) override {
    if (ended_) return false;
    ended_ = !this->input().next(out) || !this->accepts(out);
    return !ended_;
  }
  Position position() const override {
    return Position("take_while", {ended_ ? 1 : 0}, {this->input().position()});
  }
  void restore(const Position& position) override {
    expect_position(position, "take_while", 1, 1);
    ended_ = position_number(position, 0, 0, 1) == 1;
    this->input().restore(position.children()[0]);
  }

 private:
  bool ended_ = false;
};

/// @param make  Makes the same transform over another input.
template <template <class> class StreamOf, SourcePtr (*make)(SourcePtr, Predicate)>
class PredicateSource final : public OrderSource<PredicateSource<StreamOf, make>> {
 public:
  PredicateSource(SourcePtr input, Predicate predicate)
      : OrderSource<PredicateSource>(std::move(input)), predicate_(std::move(predicate)) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return std::make_unique<StreamOf<T>>(open_stream<T>(this->input(), epoch), this->rows(),
                                         predicate_);
  }
  int64_t cardinality() const override {
    return this->input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make(std::move(inputs[0]), predicate_);
  }
  // What it decides about a batch depends on all rows.
  SourcePtr with_slices(const BatchSlices&) const override { return nullptr; }

 private:
  Predicate predicate_;
};

}  // namespace

SourcePtr make_filter(SourcePtr input, Predicate predicate) {
  return std::make_shared<PredicateSource<FilterStream, make_filter>>(std::move(input),
                                                                      std::move(predicate));
}

SourcePtr make_take_while(SourcePtr input, Predicate predicate) {
  return std::make_shared<PredicateSource<TakeWhileStream, make_take_while>>(std::move(input),
                                                                             std::move(predicate));
}

}  // namespace strata::data::detail
