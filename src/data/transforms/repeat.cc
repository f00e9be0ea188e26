#include <limits>
#include <utility>

#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

// An endless repeat under another repeat or a later epoch: rounds of different epochs stay apart.
constexpr uint64_t kEndlessRounds = uint64_t{1} << 40;

// The round behind one that had no elements.
constexpr int64_t kEnded = std::numeric_limits<int64_t>::max();

template <class T>
class RepeatStream final : public Stream<T> {
 public:
  RepeatStream(const Source& input, int64_t count, uint64_t epoch)
      : input_(input), count_(count), epoch_(epoch) {}

  bool next(T& out) override {
    return advance([&] {
             const bool was_fresh = std::exchange(fresh_, false);  // whatever is thrown
             if (current_->next(out)) return 1;
             fresh_ = was_fresh;
             return 0;
           }) > 0;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      const int64_t step = advance([&] { return current_->skip(count - skipped); });
      if (step == 0) break;
      skipped += step;
    }
    return skipped;
  }

  Position position() const override {
    if (!current_) return Position("repeat", {round_});
    return Position("repeat", {round_}, {current_->position()});
  }

  void restore(const Position& position) override {
    expect_position(position, "repeat", 1, position.children().empty() ? 0 : 1);
    round_ = position_number(position, 0, 0, kEnded);
    if (position.children().empty()) return;
    open();
    current_->restore(position.children()[0]);
    fresh_ = false;  // unknown; at worst an empty dataset is opened once more
  }

 private:
  // Calls `step` on this round's stream, or on the first later round that has an element.
  template <class Step>
  int64_t advance(Step&& step) {
    while (true) {
      if (!current_) {
        if (round_ == kEnded || (count_ >= 0 && round_ >= count_)) return 0;
        open();
      }
      if (const int64_t steps = step(); steps > 0) {
        fresh_ = false;
        return steps;
      }
      current_ = nullptr;
      // A round without elements ends an endless repeat, which would otherwise never return.
      round_ = fresh_ ? kEnded : round_ + 1;
    }
  }

  void open() {
    const uint64_t rounds = count_ >= 0 ? static_cast<uint64_t>(count_) : kEndlessRounds;
    current_ = open_stream<T>(input_, epoch_ * rounds + static_cast<uint64_t>(round_));
    fresh_ = true;
  }

  const Source& input_;
  const int64_t count_;
  const uint64_t epoch_;
  int64_t round_ = 0;
  std::unique_ptr<Stream<T>> current_;
  bool fresh_ = true;  // this round has given nothing yet
};

class RepeatSource final : public OrderSource<RepeatSource> {
 public:
  RepeatSource(SourcePtr input, int64_t count) : OrderSource(std::move(input)), count_(count) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return std::make_unique<RepeatStream<T>>(input(), count_, epoch);
  }

  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (count_ == 0 || n == 0) return 0;
    if (count_ < 0) return n == Dataset::kUnknown ? n : Dataset::kInfinite;
    if (n < 0) return n;
    return n > std::numeric_limits<int64_t>::max() / count_ ? Dataset::kUnknown : n * count_;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_repeat(std::move(inputs[0]), count_);
  }

 private:
  int64_t count_;
};

}  // namespace

SourcePtr make_repeat(SourcePtr input, int64_t count) {
  return std::make_shared<RepeatSource>(std::move(input), count);
}

}  // namespace strata::data::detail
