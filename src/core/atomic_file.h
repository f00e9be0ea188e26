#pragma once

#include <functional>
#include <string>

#include "strata/core/file_system.h"

namespace strata::detail {

/// Lets `write` fill the file `temporary`, beside `path`, and then puts it there: `path` appears
/// whole and on the medium, or is what it was.
/// @throws what `write` throws, and as FileSystem; `temporary` is then gone if that is possible.
void write_atomically(const std::string& path, const std::string& temporary,
                      const std::function<void(WritableFile&)>& write);

}  // namespace strata::detail
