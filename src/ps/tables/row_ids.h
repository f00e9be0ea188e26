#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::ps {

/// Which rows some ids ask for, each once: server by server (row r is server r modulo their
/// number's), ascending.
struct RowIds {
  std::vector<int64_t> rows;
  std::vector<int64_t> begins;  ///< Where each server's rows begin; the last is the end.
};

/// @param total  Rows of the table: ids are below it.
/// @param inverse  As many as ids: gets each one's place in `rows`.
/// @throws Error  kOutOfRange: an id that is no row; names it. kUnimplemented: more ids at a time
///   than a 64-bit word can number beside the rows.
/// Cost: about 10 ns an id, no comparison.
RowIds find_rows(std::span<const int64_t> ids, int64_t total, int servers,
                 std::span<int64_t> inverse);

}  // namespace strata::ps
