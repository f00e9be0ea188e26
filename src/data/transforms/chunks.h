#pragma once

#include <cstdint>
#include <deque>

#include "data/source.h"

namespace strata::data::detail {

/// The position of a stream that threads read ahead is taken every so many elements: what a restore
/// passes over at most.
inline constexpr int64_t kChunk = 32;

/// The first element behind `first` at which a position is due.
inline int64_t next_chunk(int64_t first) { return (first / kChunk + 1) * kChunk; }

struct Chunk {
  Position position;  // before element `first`
  int64_t first;
};

/// The positions that may still be needed, from that of the element given last.
class Chunks {
 public:
  bool empty() const { return chunks_.empty(); }
  const Chunk& front() const { return chunks_.front(); }

  void add(Chunk chunk) { chunks_.push_back(std::move(chunk)); }

  /// All elements before `frontier` have been given. A chunk's position serves until the next
  /// chunk's first element has been given, so positions do not depend on what has been read ahead.
  void drop_passed(int64_t frontier) {
    while (chunks_.size() > 1 && chunks_[1].first < frontier) chunks_.pop_front();
  }

 private:
  std::deque<Chunk> chunks_;
};

}  // namespace strata::data::detail
