#pragma once

#include <cstdint>

#include "strata/core/read_limits.h"

namespace strata::keras_files::h5 {

/// What reading one file may still cost. The parts of an honest file lie beside one another, so
/// all that a reader visits, and all that it makes of it, is bounded by the file's size. A file
/// whose parts are shared (a tree whose children are one node, a thousand links to one object, a
/// thousand texts that are one) breaks that bound, and is refused when it does, however the sharing
/// was built.
///
/// Errors say what, not where, as those of h5_bytes.h.
class Budget {
 public:
  Budget(uint64_t file_bytes, const ReadLimits& limits)
      : file_bytes_(file_bytes), limits_(limits) {}

  /// `count` messages, links, entries of a tree, chunks or texts are looked at.
  /// @throws Error kDataLoss: more than the file's bytes can hold. kResourceExhausted: more than
  ///               ReadLimits::parts.
  void visit(uint64_t count = 1);

  /// So many bytes of names and texts are copied. @throws Error kDataLoss.
  void copy(uint64_t bytes);

  /// So many bytes of a dataset are read as they are stored. @throws Error kDataLoss: read more
  /// often than once.
  void read(uint64_t bytes);

  /// So many bytes are made of a dataset or of one of its chunks.
  /// @throws Error kDataLoss: deflate cannot make so much of the file. kResourceExhausted: more
  ///               than ReadLimits::unpacked_bytes.
  void unpack(uint64_t bytes);

 private:
  const uint64_t file_bytes_;
  const ReadLimits limits_;
  uint64_t visited_ = 0, copied_ = 0, read_ = 0, unpacked_ = 0;
};

/// Deflate cannot expand by more (zlib's technical notes: 1032 to 1), and little memory is no
/// danger.
inline constexpr uint64_t kMaxExpansion = 1100;
inline constexpr uint64_t kHarmlessBytes = uint64_t{64} << 20;

/// Can `stored` bytes become `made` bytes?
inline bool can_become(uint64_t stored, uint64_t made) {
  return made <= kHarmlessBytes || made / kMaxExpansion <= stored;
}

}  // namespace strata::keras_files::h5
