#pragma once

#include <optional>
#include <string>

#include "graph/tracer.h"

namespace strata::graph {

/// Removes what no output, no state and no draw of random numbers depends on, and numbers the rest anew.
void remove_dead(Trace& trace);

/// Compares two traces of one step: in a step that may be replayed all numbers are the same.
/// @return What differs, for a message; nothing, if the second could take the first one's place.
std::optional<std::string> difference(const Graph& first, const Graph& second);

}  // namespace strata::graph
