#pragma once

#include <string>
#include <string_view>

namespace strata::test {

/// Where `path`, relative to the top of the source tree, is: source_path("tests/golden/x.json").
/// Only source_path.cc is told the folder, so that no other object file depends on it, nor what the
/// compiler says: g++ 12 has false warnings about strings of some lengths.
std::string source_path(std::string_view path = "");

}  // namespace strata::test
