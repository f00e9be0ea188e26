#pragma once

#include <deque>
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
  ShuffleStream(std::unique_ptr<Stream<T>> input, int64_t buffer_size, RandomStream random,
                int64_t fingerprint);

  bool next(T& out) override;
  Position position() const override;
  void restore(const Position& position) override;

 private:
  struct Slot {
    T value;
    int64_t index;  // of the input
  };
  // `chunk_size_` consecutive elements of the input.
  struct Chunk {
    Position input;  // before the chunk's first element
    int64_t first;
    int64_t held;  // how many of them the buffer still holds
  };

  void fill();
  void begin_chunk_if_due();
  Chunk& chunk_of(int64_t index);
  std::vector<int64_t> replay_draws(int64_t given, int64_t read) const;
  void check_replayed(bool there) const;

  std::unique_ptr<Stream<T>> input_;
  int64_t buffer_size_;
  int64_t chunk_size_;
  RandomStream random_;
  int64_t fingerprint_;
  std::vector<Slot> buffer_;
  std::deque<Chunk> chunks_;  // from the oldest that the buffer holds something of
  int64_t given_ = 0;
  int64_t read_ = 0;
  bool input_ended_ = false;
};

}  // namespace strata::data::detail
