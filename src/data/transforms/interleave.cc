#include "data/transforms/interleave.h"

#include <exception>
#include <limits>

namespace strata::data::detail {

Position InterleavePosition::to_position(const char* kind) const {
  std::vector<Position> children{input};
  for (const Slot& slot : slots) {
    if (!slot.open) {
      children.emplace_back("empty", std::vector<int64_t>{});
      continue;
    }
    std::vector<Position> inside;
    inside.reserve(2);
    inside.push_back(slot.before);
    if (slot.inner) inside.push_back(*slot.inner);
    children.emplace_back("open", std::vector<int64_t>{slot.first, slot.since}, std::move(inside));
  }
  return Position(kind, {cycle, block}, std::move(children));
}

InterleavePosition InterleavePosition::from_position(const Position& position, const char* kind,
                                                     int64_t cycle_length, int64_t block_length) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;
  expect_position(position, kind, 2, static_cast<size_t>(cycle_length) + 1);
  InterleavePosition result;
  result.cycle = position_number(position, 0, 0, cycle_length - 1);
  result.block = position_number(position, 1, 0, block_length - 1);
  result.input = position.children()[0];
  for (size_t s = 1; s < position.children().size(); ++s) {
    const Position& child = position.children()[s];
    Slot slot;
    if (child.kind() != "empty") {
      expect_position(child, "open", 2, child.children().size() == 1 ? 1 : 2);
      slot.open = true;
      slot.first = position_number(child, 0, 0, kMax);
      slot.since = position_number(child, 1, 0, kMax);
      slot.before = child.children()[0];
      if (child.children().size() == 2) slot.inner = child.children()[1];
    }
    result.slots.push_back(std::move(slot));
  }
  return result;
}

Example element_at(const Source& input, uint64_t epoch, const Position& position) {
  const auto stream = input.examples(epoch);
  stream->restore(position);
  Example element;
  STRATA_CHECK(stream->next(element), kInvalidArgument,
               "[data] restore: the input of an interleave has fewer elements than when the "
               "position was saved; the source has changed");
  return element;
}

namespace {

/// Reads its datasets on the thread that asks.
class InterleaveStream final : public ExampleStream {
 public:
  InterleaveStream(const Source& input, const DatasetFunction& fn, const InterleaveOptions& options,
                   const char* kind, uint64_t epoch)
      : input_source_(input),
        fn_(fn),
        kind_(kind),
        epoch_(epoch),
        block_length_(options.block_length),
        input_(input.examples(epoch)),
        slots_(static_cast<size_t>(options.cycle_length)) {}

  bool next(Example& out) override {
    std::exception_ptr error;
    const int64_t steps = advance([&](ExampleStream& stream) {
      try {
        return stream.next(out) ? 1 : 0;
      } catch (...) {
        error = std::current_exception();
        return 1;
      }
    });
    if (error) std::rethrow_exception(error);
    return steps > 0;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      try {
        const int64_t step = advance([&](ExampleStream& stream) {
          const int64_t left = slots_.size() == 1 ? count : block_length_ - block_;
          return stream.skip(std::min(count - skipped, left));
        });
        if (step == 0) break;
        skipped += step;
      } catch (...) {  // the input, or opening, failed: an element, too
        ++skipped;
      }
    }
    return skipped;
  }

  Position position() const override {
    InterleavePosition position{
        .cycle = static_cast<int64_t>(cycle_), .block = block_, .input = input_->position()};
    for (const Slot& slot : slots_) {
      auto& saved = position.slots.emplace_back();
      if (!slot.stream) continue;
      saved.open = true;
      saved.before = slot.before;
      saved.inner = slot.stream->position();
    }
    return position.to_position(kind_);
  }

  void restore(const Position& position) override {
    const auto saved = InterleavePosition::from_position(
        position, kind_, static_cast<int64_t>(slots_.size()), block_length_);
    cycle_ = static_cast<size_t>(saved.cycle);
    block_ = saved.block;
    input_->restore(saved.input);
    for (size_t s = 0; s < slots_.size(); ++s) {
      const auto& from = saved.slots[s];
      if (!from.open) continue;
      open(slots_[s], from.before, element_at(input_source_, epoch_, from.before));
      if (from.inner) slots_[s].stream->restore(*from.inner);
      slots_[s].stream->skip(from.since);
    }
  }

 private:
  struct Slot {
    Position before;  // of the input
    SourcePtr source;
    std::unique_ptr<ExampleStream> stream;
  };

  void open(Slot& slot, Position before, Example element) {
    SourcePtr source = fn_(std::move(element)).source();
    slot.stream = source->examples(epoch_);
    slot.source = std::move(source);
    slot.before = std::move(before);
    ++num_open_;
  }

  void next_slot() {
    block_ = 0;
    if (++cycle_ == slots_.size()) cycle_ = 0;
  }

  // Calls `step` on the stream whose turn it is, and continues until it made a step.
  template <class Step>
  int64_t advance(Step&& step) {
    while (true) {
      Slot& slot = slots_[cycle_];
      if (slot.stream) {
        if (const int64_t steps = step(*slot.stream); steps > 0) {
          if (slots_.size() > 1 && (block_ += steps) == block_length_) next_slot();
          return steps;
        }
        slot.stream = nullptr;  // destroyed before its source
        slot.source = nullptr;
        --num_open_;
        next_slot();
      } else if (!input_ended_) {
        Position before = input_->position();
        Example element;
        input_ended_ = !input_->next(element);
        if (!input_ended_) open(slot, std::move(before), std::move(element));
      } else if (num_open_ == 0) {
        return 0;
      } else {
        next_slot();
      }
    }
  }

  const Source& input_source_;
  const DatasetFunction& fn_;
  const char* const kind_;
  const uint64_t epoch_;
  const int64_t block_length_;
  std::unique_ptr<ExampleStream> input_;
  std::vector<Slot> slots_;
  size_t cycle_ = 0;   // the slot whose turn it is
  int64_t block_ = 0;  // how many it has given in this turn
  int64_t num_open_ = 0;
  bool input_ended_ = false;
};

class SerialInterleaveSource final : public InterleaveSource {
 public:
  SerialInterleaveSource(SourcePtr input, DatasetFunction fn, const InterleaveOptions& options,
                         const char* kind)
      : InterleaveSource(std::move(input), std::move(fn), options), kind_(kind) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<InterleaveStream>(input(), fn_, options_, kind_, epoch);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return std::make_shared<SerialInterleaveSource>(std::move(inputs[0]), fn_, options_, kind_);
  }

 private:
  const char* kind_;
};

}  // namespace

SourcePtr make_flat_map(SourcePtr input, DatasetFunction fn) {
  return std::make_shared<SerialInterleaveSource>(std::move(input), std::move(fn),
                                                  InterleaveOptions{.cycle_length = 1}, "flat_map");
}

SourcePtr make_interleave(SourcePtr input, DatasetFunction fn, const InterleaveOptions& options) {
  if (options.num_parallel_calls != 0)
    return make_parallel_interleave(std::move(input), std::move(fn), options);
  return std::make_shared<SerialInterleaveSource>(std::move(input), std::move(fn), options,
                                                  "interleave");
}

}  // namespace strata::data::detail
