#include "data/transforms/shuffle.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace strata::data::detail {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
// Positions of the input are kept for every so many elements at most.
constexpr int kMinChunkShift = 10;
constexpr int kMaxChunkShift = 40;

int64_t at_most_sum(int64_t a, int64_t b) { return a > kMaxCount - b ? kMaxCount : a + b; }

}  // namespace

template <class T>
ShuffleStream<T>::ShuffleStream(std::unique_ptr<Stream<T>> input, int64_t buffer_size,
                                RandomStream random, int64_t fingerprint, int64_t expected)
    : input_(std::move(input)),
      buffer_size_(buffer_size),
      chunk_shift_(std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(buffer_size))),
                              kMinChunkShift, kMaxChunkShift)),
      random_(random),
      fingerprint_(fingerprint) {
  constexpr int64_t kMaxReserve = 1 << 24;
  buffer_.reserve(static_cast<size_t>(std::min({buffer_size, expected, kMaxReserve})));
}

template <class T>
bool ShuffleStream<T>::next(T& out) {
  fill();
  if (buffer_.empty()) return false;
  Slot& drawn = buffer_[random_.below(buffer_.size(), static_cast<uint64_t>(given_))];
  out = std::move(drawn.value);
  const int64_t index = drawn.index;
  --chunk_of(index).held;
  ++given_;
  if (&drawn != &buffer_.back()) drawn = std::move(buffer_.back());
  buffer_.pop_back();
  prefetch_slot();
  while (chunks_.size() > 1 && chunks_.front().held == 0) chunks_.pop_front();
  if (!errors_.empty()) [[unlikely]] {
    if (const auto error = errors_.extract(index)) std::rethrow_exception(error.mapped());
  }
  return true;
}

// What the input throws is drawn as an element is.
template <class T>
bool ShuffleStream<T>::read_element(T& out) {
  try {
    return input_->next(out);
  } catch (...) {
    errors_.emplace(read_, std::current_exception());
    return true;
  }
}

// The draws to come are known, so a large buffer need not cost a cache miss each.
template <class T>
void ShuffleStream<T>::prefetch_slot() const {
  constexpr size_t kLarge = (size_t{1} << 20) / sizeof(Slot);
  constexpr size_t kAhead = 12;
  if (buffer_.size() < kLarge) return;
  const size_t size_then = input_ended_ ? buffer_.size() - kAhead + 1 : buffer_.size() + 1;
  __builtin_prefetch(buffer_.data() +
                     random_.below(size_then, static_cast<uint64_t>(given_) + kAhead - 1));
}

template <class T>
void ShuffleStream<T>::fill() {
  while (!input_ended_ && static_cast<int64_t>(buffer_.size()) < buffer_size_) {
    begin_chunk_if_due();
    T value{};
    if (!read_element(value)) {
      input_ended_ = true;
      return;
    }
    buffer_.push_back({std::move(value), read_});
    ++chunk_of(read_).held;
    ++read_;
  }
}

template <class T>
void ShuffleStream<T>::begin_chunk_if_due() {
  if (begins_chunk(read_) && (chunks_.empty() || chunks_.back().first != read_))
    chunks_.push_back({input_->position(), read_, 0});
}

template <class T>
typename ShuffleStream<T>::Chunk& ShuffleStream<T>::chunk_of(int64_t index) {
  return chunks_[static_cast<size_t>((index - chunks_.front().first) >> chunk_shift_)];
}

template <class T>
Position ShuffleStream<T>::position() const {
  const bool started = !chunks_.empty();
  return Position("shuffle",
                  {given_, read_, input_ended_ ? 1 : 0, started ? chunks_.front().first : 0,
                   buffer_size_, fingerprint_},
                  {started ? chunks_.front().input : input_->position()});
}

// The input's elements in the buffer are those that replaying the draws over mere numbers leaves
// there. The oldest of them lies in the saved chunk; from there on the input is read again.
template <class T>
void ShuffleStream<T>::restore(const Position& position) {
  expect_position(position, "shuffle", 6, 1);
  position_number(position, 4, buffer_size_, buffer_size_);
  position_number(position, 5, fingerprint_, fingerprint_);
  given_ = position_number(position, 0, 0, kMaxCount);
  const int64_t read = position_number(position, 1, given_, at_most_sum(given_, buffer_size_));
  input_ended_ = position_number(position, 2, 0, 1) == 1;
  const int64_t first = position_number(position, 3, 0, read);

  const std::vector<int64_t> held = replay_draws(given_, read);
  std::vector<size_t> slots(held.size());
  for (size_t slot = 0; slot < held.size(); ++slot) slots[slot] = slot;
  std::sort(slots.begin(), slots.end(), [&](size_t a, size_t b) { return held[a] < held[b]; });
  const int64_t oldest = slots.empty() ? read : held[slots.front()];
  STRATA_CHECK(begins_chunk(first) && first <= oldest, kInvalidArgument,
               "[data] restore: got a shuffle's position whose input starts at ", first,
               "; expected a multiple of ", int64_t{1} << chunk_shift_, " up to ", oldest,
               "; the text is damaged");

  input_->restore(position.children()[0]);
  buffer_.resize(held.size());
  read_ = first;
  chunks_.clear();
  size_t next_slot = 0;
  begin_chunk_if_due();
  while (read_ < read) {
    begin_chunk_if_due();
    const bool wanted = next_slot < slots.size() && held[slots[next_slot]] == read_;
    if (wanted) {
      Slot& slot = buffer_[slots[next_slot++]];
      slot.index = read_;
      check_replayed(read_element(slot.value));
      ++chunk_of(read_).held;
    } else {
      check_replayed(input_->skip(1) == 1);
    }
    ++read_;
  }
  while (chunks_.size() > 1 && chunks_.front().held == 0) chunks_.pop_front();
}

template <class T>
std::vector<int64_t> ShuffleStream<T>::replay_draws(int64_t given, int64_t read) const {
  std::vector<int64_t> held;
  int64_t next = 0;
  const auto refill = [&] {
    while (next < read && static_cast<int64_t>(held.size()) < buffer_size_) held.push_back(next++);
  };
  for (int64_t i = 0; i < given; ++i) {
    refill();
    STRATA_CHECK(
        !held.empty(), kInvalidArgument,
        "[data] restore: got a shuffle's position that gave more than it read; the text is "
        "damaged");
    held[random_.below(held.size(), static_cast<uint64_t>(i))] = held.back();
    held.pop_back();
  }
  // What was read behind the last draw: only at the very start, or when the input's end was found.
  refill();
  return held;
}

template <class T>
void ShuffleStream<T>::check_replayed(bool there) const {
  STRATA_CHECK(
      there, kInvalidArgument, "[data] restore: the shuffle's input ended after ", read_,
      " elements; expected as many as when the position was saved; the source has changed");
}

template class ShuffleStream<Example>;
template class ShuffleStream<int64_t>;

namespace {

class ShuffleSource final : public OrderSource<ShuffleSource> {
 public:
  ShuffleSource(SourcePtr input, int64_t buffer_size, uint64_t seed, bool reshuffle)
      : OrderSource(std::move(input)),
        buffer_size_(buffer_size),
        seed_(seed),
        reshuffle_(reshuffle) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    const RandomStream random(seed_, reshuffle_ ? epoch : 0, input().num_shuffles());
    // Tells positions of other orders (seed, epoch, stage) from its own.
    const auto fingerprint = static_cast<int64_t>(random.bits(~uint64_t{0}) >> 33);
    return std::make_unique<ShuffleStream<T>>(open_stream<T>(input(), epoch), buffer_size_, random,
                                              fingerprint, std::max<int64_t>(0, cardinality()));
  }

  int64_t cardinality() const override { return input().cardinality(); }
  uint64_t num_shuffles() const override { return input().num_shuffles() + 1; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_shuffle(std::move(inputs[0]), buffer_size_, seed_, reshuffle_);
  }

 private:
  int64_t buffer_size_;
  uint64_t seed_;
  bool reshuffle_;
};

}  // namespace

SourcePtr make_shuffle(SourcePtr input, int64_t buffer_size, uint64_t seed, bool reshuffle) {
  return std::make_shared<ShuffleSource>(std::move(input), buffer_size, seed, reshuffle);
}

}  // namespace strata::data::detail
