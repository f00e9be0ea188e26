#pragma once

#include <string>
#include <vector>

namespace strata::bench {

constexpr int kTableBatch = 128;  ///< Rows of a step of wide-deep.

/// `strata bench estimator-worker --case C --data FILE --through estimator|fit`: the strata side of
/// suite estimator, on a pipe.
int run_estimator_worker(const std::vector<std::string>& arguments);

}  // namespace strata::bench
