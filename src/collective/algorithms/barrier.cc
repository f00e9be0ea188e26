// Messages without content.
#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {

Schedule dissemination(const Request& request) {
  const int n = request.placement.num_ranks();
  ScheduleBuilder builder = builder_for(request, "dissemination", equal_borders(1));
  int stage = 0;
  for (int distance = 1; distance < n; distance *= 2, ++stage) {
    for (int rank = 0; rank < n; ++rank) {
      builder.message(stage, rank, 0, (rank + distance) % n, 0, /*chunk=*/0, /*chunks=*/0);
    }
  }
  return std::move(builder).finish();
}

Schedule barrier_direct(const Request& request) {
  const int n = request.placement.num_ranks();
  ScheduleBuilder builder = builder_for(request, "direct", equal_borders(1));
  for (int rank = 0; rank < n; ++rank) {
    for (int other = 0; other < n; ++other) {
      if (other != rank) builder.message(0, rank, 0, other, 0, /*chunk=*/0, /*chunks=*/0);
    }
  }
  return std::move(builder).finish();
}

}  // namespace strata::collective
