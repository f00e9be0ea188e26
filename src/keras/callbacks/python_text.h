#pragma once

#include <string>

namespace strata::callbacks::detail {

/// The shortest text that reads back as `value`, as Python writes it: "0.1", "2.0".
std::string python_text(double value);

}  // namespace strata::callbacks::detail
