#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/object_store/settings.h"
#include "strata/core/file_system.h"

namespace strata::object_store {

/// "s3" and "gs".
inline bool is_scheme(std::string_view scheme) { return scheme == "s3" || scheme == "gs"; }

/// The process's.
const char* variable_of_process(const char* name);

/// The file system of an object store, as the environment says (`settings_of`).
/// @throws Error kUnimplemented: strata was built without libcurl, or it is missing. And what
///   settings.h throws.
std::unique_ptr<const FileSystem> make_file_system(
    const std::string& scheme, const Environment& environment = &variable_of_process);

}  // namespace strata::object_store
