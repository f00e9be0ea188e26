#pragma once

#include <cstdint>

namespace strata {

/// What reading one file may cost at most, whatever the file asks for. The defaults are far above
/// what honest files need; raise the one that an error names. A file that asks for more than its
/// own bytes can hold is refused as damaged (kDataLoss) before any of these is reached; a file
/// that is whole and only too large is refused with kResourceExhausted.
struct ReadLimits {
  /// Bytes that unpacking may make in all, beyond the size of the file itself.
  uint64_t unpacked_bytes = uint64_t{16} << 30;

  /// How many times its stored size a compressed part may become. Parts of an archive that make
  /// less than 1 MiB, and archives that make less than 16 MiB in all, are free of it.
  uint64_t expansion = 100;

  /// Things that a file is made of and that a reader looks at one by one: members of an archive,
  /// links, attributes, nodes of trees, chunks, values of JSON.
  uint64_t parts = 10'000'000;
};

}  // namespace strata
