#pragma once

#include <deque>
#include <exception>
#include <map>
#include <vector>

#include "data/random.h"
#include "data/source.h"

namespace strata::data::detail {

/// tf.data's shuffle: a buffer of `buffer_size` that input refills; draw i takes slot
/// random.below(held, i), and the last slot moves into the gap. A position holds counts and the
/// input's position at or before the oldest element in the buffer, not the buffer: the draws can be
/// replayed.
template <class T>
class ShuffleStream final : public Stream<T> {
 public:
  /// @param fingerprint  tells this order's positions from those of others.
  /// @param expected  elements in the input, 0 if unknown.
  ShuffleStream(std::unique_ptr<Stream<T>> input, int64_t buffer_size, RandomStream random,
                int64_t fingerprint, int64_t expected);

  bool next(T& out) override;
  Position position() const override;
  void restore(const Position& position) override;

 private:
  struct Slot {
    T value;
    int64_t index;  // of the input
  };
  // 2^`chunk_shift_` consecutive elements of the input.
  struct Chunk {
    Position input;  // before the chunk's first element
    int64_t first;
    int64_t held;  // how many of them the buffer still holds
  };

  void fill();
  bool read_element(T& out);
  void prefetch_slot() const;
  void begin_chunk_if_due();
  bool begins_chunk(int64_t index) const {
    return (index & ((int64_t{1} << chunk_shift_) - 1)) == 0;
  }
  Chunk& chunk_of(int64_t index);
  std::vector<int64_t> replay_draws(int64_t given, int64_t read) const;
  void check_replayed(bool there) const;

  std::unique_ptr<Stream<T>> input_;
  int64_t buffer_size_;
  int chunk_shift_;
  RandomStream random_;
  int64_t fingerprint_;
  std::vector<Slot> buffer_;
  std::map<int64_t, std::exception_ptr> errors_;  // that came instead of elements in the buffer
  std::deque<Chunk> chunks_;  // from the oldest that the buffer holds something of
  int64_t given_ = 0;
  int64_t read_ = 0;
  bool input_ended_ = false;
};

}  // namespace strata::data::detail
