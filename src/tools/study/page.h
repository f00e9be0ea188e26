#pragma once

#include <string>

namespace strata::tools {

/// A page with this body, which fetches nothing and runs no script.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace strata::tools
