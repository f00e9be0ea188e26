#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/planner/link_model.h"
#include "strata/collective/algorithms.h"
#include "wire/transport.h"

namespace strata::collective {

struct MeasureLinksOptions {
  uint32_t channel = 1;  ///< Nothing else may use it meanwhile.
};

/// A model of the links for a planner. Rank 0 measures, with one rank of its host and one of
/// another, how long small messages take and how much longer large ones; then all talk at once,
/// which shows whether they share processors. All ranks get its numbers, so that they plan alike.
/// Every rank calls it.
/// @param peers  As WireCommunicator's.
/// @throws Error as the connections': kUnavailable, kDeadlineExceeded.
/// Cost: some hundred small messages a rank (20 where one takes over 1 ms), and as many bytes as
/// the line carries in 10 ms.
LinkModel measure_links(int rank, const Placement& placement,
                        const std::vector<std::shared_ptr<wire::Connection>>& peers,
                        wire::Transport& transport, wire::Deadline deadline,
                        const MeasureLinksOptions& options = {});

}  // namespace strata::collective
