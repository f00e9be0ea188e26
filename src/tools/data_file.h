#pragma once

#include <filesystem>
#include <string>

namespace strata::tools {

/// A file that this program reads or copies: share/strata/`name`, beside the program in a build
/// folder, else under its prefix.
/// @throws Error kNotFound: names the places looked at.
std::filesystem::path data_file(const std::string& name);

}  // namespace strata::tools
