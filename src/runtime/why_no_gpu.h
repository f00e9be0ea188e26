#pragma once

#include <string>

namespace strata::detail {

/// Why list_physical_devices("GPU") is empty in this process, and how to go on; a clause for a message.
std::string why_no_gpu();

}  // namespace strata::detail
