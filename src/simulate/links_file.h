#pragma once

#include <string>

#include "collective/planner/link_model.h"

namespace strata::simulate {

/// Reads links that were measured, as `LinkModel::to_json` writes them, or written down by hand:
///
///     {"across_hosts": [40e-6, 1.25e9], "in_host": [15e-6, 3e9], "message_seconds": 3e-6}
///
/// A link is its latency in seconds and its bytes a second, 0 for no limit. Without "in_host" it is
/// that of LinkModel::typical(); other members that are missing are 0 (ranks_per_processor 1), as
/// if messages and additions were free.
/// @throws Error  kInvalidArgument: names the file's member, what came and what was expected.
collective::LinkModel links_from_json(const std::string& text);

}  // namespace strata::simulate
