#pragma once

namespace strata::detail {

/// Whether the program has said how many logical devices the CPU is (set_logical_devices).
bool is_cpu_divided();

}  // namespace strata::detail
