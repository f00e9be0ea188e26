#pragma once

#include <string>
#include <string_view>

namespace strata::summary::detail {

/// `bytes` as the content of a .gz file (RFC 1952). gzip.cc; stored_gzip.cc, which does not make it
/// smaller, where there is no zlib.
std::string gzip(std::string_view bytes);

}  // namespace strata::summary::detail
