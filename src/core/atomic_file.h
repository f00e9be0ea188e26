#pragma once

#include <functional>
#include <string>

#include "strata/core/file_system.h"

namespace strata::detail {

/// Lets `write` fill a temporary file beside `path`, and then puts it there: `path` appears whole
/// and on the medium, or is what it was. Temporary files of `path` that dead processes left are
/// removed first (core/scratch.h).
/// @throws what `write` throws, and as FileSystem, with `path` or its folder for the temporary
///         file, which is then removed if that is possible.
void write_atomically(const std::string& path, const std::function<void(WritableFile&)>& write);

/// The same with a temporary file of that name, for a `path` that one process at a time writes.
void write_atomically(const std::string& path, const std::string& temporary,
                      const std::function<void(WritableFile&)>& write);

/// Calls `work`; what it throws tells of `path` where it would tell of `temporary`.
/// @throws also Error kNotFound: the folder of `path` is missing.
void name_instead_of(const std::string& temporary, const std::string& path,
                     const std::function<void()>& work);

}  // namespace strata::detail
