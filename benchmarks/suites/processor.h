#pragma once

#include <string>

namespace strata::bench {

/// Prints what the results of `suite` were measured on: a JSON line with vendor, family, model, name
/// and instruction sets from /proc/cpuinfo, and the number of cores that this process may use.
void print_processor(const std::string& suite);

}  // namespace strata::bench
