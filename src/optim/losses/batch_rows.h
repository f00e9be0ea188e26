#pragma once

#include <cstdint>
#include <string>

namespace strata::losses {

/// Where the rows that this thread computes stand in the batch that was asked for: messages name
/// that row, which the user can look up, and not the place in a replica's part.
struct BatchRows {
  int64_t first = 0;
  int64_t count = -1;  ///< Rows of the part; -1: nothing is known.
  int worker = -1;     ///< In whose part of the batch they are counted; -1: in the batch.
};

/// Makes `rows` this thread's while it lives.
class BatchRowsGuard {
 public:
  explicit BatchRowsGuard(const BatchRows& rows);
  ~BatchRowsGuard();
  BatchRowsGuard(const BatchRowsGuard&) = delete;
  BatchRowsGuard& operator=(const BatchRowsGuard&) = delete;

 private:
  BatchRows outer_;
};

/// "row 7" of the batch where it is known, with several workers "row 7 of worker 1's part of the
/// batch"; else "row 2 of replica 1's part of the batch", or "row 2".
std::string row_in_batch(int64_t row, int64_t rows);

}  // namespace strata::losses
