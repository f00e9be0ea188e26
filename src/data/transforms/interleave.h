#pragma once

#include "data/transforms/functions.h"

// What the serial and the parallel interleave share: their sources, and the form of their
// positions, so that one continues where the other stopped:
//
//     interleave[slot, given of its block](input, slot 0, slot 1, ...)
//     slot: empty, or open[first, since](input before its element, its dataset's position)
//
// An open slot without the second child has given nothing yet.
namespace strata::data::detail {

struct InterleavePosition {
  struct Slot {
    bool open = false;
    int64_t first = 0;  // of the dataset's elements, that its position is before
    int64_t since = 0;  // given behind that
    Position before;
    std::optional<Position> inner;
  };

  int64_t cycle = 0;
  int64_t block = 0;
  Position input;
  std::vector<Slot> slots = {};

  Position to_position(const char* kind) const;
  /// @throws Error kInvalidArgument.
  static InterleavePosition from_position(const Position& position, const char* kind,
                                          int64_t cycle_length, int64_t block_length);
};

/// The element of `input` behind `position`, read again.
Example element_at(const Source& input, uint64_t epoch, const Position& position);

class InterleaveSource : public TransformSource {
 public:
  InterleaveSource(SourcePtr input, DatasetFunction fn, const InterleaveOptions& options)
      : TransformSource(std::move(input)), fn_(std::move(fn)), options_(options) {}

  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  // The datasets may shuffle, too; so many times, at most, that it is distinguished from shuffles
  // above.
  uint64_t num_shuffles() const override { return input().num_shuffles() + 8; }

 protected:
  DatasetFunction fn_;
  InterleaveOptions options_;
};

}  // namespace strata::data::detail
