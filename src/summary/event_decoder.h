#pragma once

#include <string_view>

#include "strata/summary/event_reader.h"

namespace strata::summary::detail {

/// @throws Error  kDataLoss.
Event decode_event(std::string_view bytes);

}  // namespace strata::summary::detail
