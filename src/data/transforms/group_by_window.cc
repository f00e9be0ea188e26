#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;
// The input's position is kept for every so many elements at most.
constexpr int64_t kPositionInterval = 16;

/// Collects elements by key until a window is full, then gives what `reduce` makes of it. A
/// position names the elements that are held, which a restore reads again, and the position inside
/// of the window being given:
///
///     group_by_window[read, ended, key, first, a, b, c, d, ...](input, inner)
///
/// with the input's position before element `first`, and elements a..b-1, c..d-1, ... held.
class GroupStream final : public ExampleStream {
 public:
  GroupStream(std::unique_ptr<ExampleStream> input, const KeyFunction& key,
              const GroupFunction& reduce, const std::function<int64_t(int64_t)>& window_size,
              uint64_t epoch)
      : input_(std::move(input)),
        key_(key),
        reduce_(reduce),
        window_size_(window_size),
        epoch_(epoch) {}

  bool next(Example& out) override {
    while (true) {
      if (stream_ != nullptr) {
        if (stream_->next(out)) return true;
        stream_ = nullptr;
        release(current_);
      }
      if (!input_ended_) {
        read();
      } else if (groups_.empty()) {
        return false;
      } else {
        flush(groups_.begin()->first);
      }
    }
  }

  Position position() const override {
    std::vector<int64_t> held;
    for (const auto& [key, group] : groups_)
      for (const Held& each : group) held.push_back(each.index);
    if (stream_ != nullptr)
      for (const int64_t index : current_) held.push_back(index);
    std::sort(held.begin(), held.end());
    const Chunk* const chunk = held.empty() ? nullptr : &chunk_of(held.front());
    std::vector<int64_t> numbers{read_, input_ended_ ? 1 : 0, stream_ ? current_key_ : 0,
                                 chunk ? chunk->first : read_};
    for (size_t i = 0; i < held.size(); ++i) {
      if (i == 0 || held[i] != held[i - 1] + 1) {
        if (i > 0) numbers.push_back(held[i - 1] + 1);
        numbers.push_back(held[i]);
      }
      if (i + 1 == held.size()) numbers.push_back(held[i] + 1);
    }
    std::vector<Position> children{chunk ? chunk->input : input_->position()};
    if (stream_ != nullptr) children.push_back(stream_->position());
    return Position("group_by_window", std::move(numbers), std::move(children));
  }

  void restore(const Position& position) override {
    const bool open = position.children().size() == 2;
    expect_position(position, "group_by_window",
                    std::max<size_t>(4, position.numbers().size() / 2 * 2), open ? 2 : 1);
    const int64_t read = position_number(position, 0, 0, kMax);
    const bool ended = position_number(position, 1, 0, 1) == 1;
    const int64_t key = position.numbers()[2];
    read_ = position_number(position, 3, 0, read);
    input_->restore(position.children()[0]);
    for (size_t i = 4; i < position.numbers().size(); i += 2) {
      const int64_t begin = position_number(position, i, read_, read);
      const int64_t end = position_number(position, i + 1, begin, read);
      pass_to(begin);
      while (read_ < end) {
        begin_chunk_if_due();
        Example element;
        check_there(input_->next(element));
        const int64_t group = key_(element);
        hold(group, std::move(element));
      }
    }
    pass_to(read);
    input_ended_ = ended;
    if (!open) return;
    STRATA_CHECK(groups_.contains(key), kInvalidArgument,
                 "[data] restore: got a position in the window of key ", key,
                 ", of which no element is held; the source or the key function has changed");
    flush(key);
    stream_->restore(position.children()[1]);
  }

 private:
  struct Held {
    Example element;
    int64_t index;
  };
  struct Chunk {
    Position input;  // before element `first`
    int64_t first;
    int64_t held;
  };

  void read() {
    begin_chunk_if_due();
    Example element;
    int64_t key = 0, size = 0;
    try {
      input_ended_ = !input_->next(element);
      if (input_ended_) return;
      key = key_(element);
      size = window_size_(key);
      STRATA_CHECK(size >= 1, kInvalidArgument, "[data] group_by_window: got window size ", size,
                   " for key ", key, "; expected at least 1");
    } catch (...) {
      ++read_;  // this element is lost
      throw;
    }
    hold(key, std::move(element));
    if (static_cast<int64_t>(groups_[key].size()) >= size) flush(key);
  }

  void hold(int64_t key, Example element) {
    groups_[key].push_back({std::move(element), read_});
    ++chunk_of(read_).held;
    ++read_;
  }

  void flush(int64_t key) {
    std::vector<Held> group = std::move(groups_.at(key));
    groups_.erase(key);
    std::vector<Example> window;
    current_.clear();
    for (Held& each : group) {
      window.push_back(std::move(each.element));
      current_.push_back(each.index);
    }
    current_key_ = key;
    try {
      SourcePtr source = reduce_(key, Dataset(make_elements(std::move(window)))).source();
      stream_ = source->examples(epoch_);
      source_ = std::move(source);
    } catch (...) {
      release(current_);  // this window is lost
      throw;
    }
  }

  void release(const std::vector<int64_t>& indices) {
    for (const int64_t index : indices) --chunk_of(index).held;
    while (!chunks_.empty() && chunks_.front().held == 0) chunks_.pop_front();
  }

  void begin_chunk_if_due() {
    if (chunks_.empty() || read_ / kPositionInterval != chunks_.back().first / kPositionInterval)
      chunks_.push_back({input_->position(), read_, 0});
  }

  const Chunk& chunk_of(int64_t index) const {
    const auto behind =
        std::upper_bound(chunks_.begin(), chunks_.end(), index,
                         [](int64_t value, const Chunk& chunk) { return value < chunk.first; });
    return *(behind - 1);
  }
  Chunk& chunk_of(int64_t index) {
    return const_cast<Chunk&>(static_cast<const GroupStream&>(*this).chunk_of(index));
  }

  // Chunk by chunk, so that positions are taken where they were.
  void pass_to(int64_t index) {
    while (read_ < index) {
      begin_chunk_if_due();
      const int64_t step = std::min(index - read_, kPositionInterval - read_ % kPositionInterval);
      check_there(input_->skip(step) == step);
      read_ += step;
    }
  }

  void check_there(bool there) const {
    STRATA_CHECK(there, kInvalidArgument,
                 "[data] restore: the input of group_by_window ended after ", read_,
                 " elements; expected as many as when the position was saved; the source "
                 "has changed");
  }

  std::unique_ptr<ExampleStream> input_;
  const KeyFunction& key_;
  const GroupFunction& reduce_;
  const std::function<int64_t(int64_t)>& window_size_;
  const uint64_t epoch_;
  std::map<int64_t, std::vector<Held>> groups_;
  std::deque<Chunk> chunks_;
  int64_t read_ = 0;
  bool input_ended_ = false;

  // The window being given.
  SourcePtr source_;  // before stream_, which refers to it
  std::unique_ptr<ExampleStream> stream_;
  int64_t current_key_ = 0;
  std::vector<int64_t> current_;  // its elements' indices
};

class GroupSource final : public TransformSource {
 public:
  GroupSource(SourcePtr input, KeyFunction key, GroupFunction reduce,
              std::function<int64_t(int64_t)> window_size)
      : TransformSource(std::move(input)),
        key_(std::move(key)),
        reduce_(std::move(reduce)),
        window_size_(std::move(window_size)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<GroupStream>(input().examples(epoch), key_, reduce_, window_size_,
                                         epoch);
  }
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  uint64_t num_shuffles() const override { return input().num_shuffles() + 8; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_group_by_window(std::move(inputs[0]), key_, reduce_, window_size_);
  }

 private:
  KeyFunction key_;
  GroupFunction reduce_;
  std::function<int64_t(int64_t)> window_size_;
};

}  // namespace

SourcePtr make_group_by_window(SourcePtr input, KeyFunction key, GroupFunction reduce,
                               std::function<int64_t(int64_t)> window_size) {
  return std::make_shared<GroupSource>(std::move(input), std::move(key), std::move(reduce),
                                       std::move(window_size));
}

}  // namespace strata::data::detail
