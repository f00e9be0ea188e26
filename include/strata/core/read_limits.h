#pragma once

#include <cstdint>

namespace strata {

/// Bounds on the cost of reading one file, whatever its contents. The defaults are far above the
/// needs of honest files; raise the one that an error names. A file that asks for more than its own
/// bytes can hold is refused as damaged (kDataLoss) before any of these is reached; a file that is
/// whole and only too large is refused with kResourceExhausted.
struct ReadLimits {
  /// The total size of unpacked data in bytes, beyond the size of the file itself.
  uint64_t unpacked_bytes = uint64_t{16} << 30;

  /// The ratio of a compressed part's size to its stored size. Parts of an archive that make less
  /// than 1 MiB, and archives that make less than 16 MiB in all, are exempt.
  uint64_t expansion = 100;

  /// The number of parts that a reader handles one by one: members of an archive, links,
  /// attributes, nodes of trees, chunks, values of JSON.
  uint64_t parts = 10'000'000;
};

}  // namespace strata
