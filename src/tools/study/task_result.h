#pragma once

#include <string>

#include "strata/core/json.h"

namespace strata::tools {

/// Where worker `index` of a run leaves its result, for the command that has started it.
std::string task_result_path(const std::string& folder, int index);

/// @throws Error  as FileSystem::create.
void write_text(const std::string& path, const std::string& text);

}  // namespace strata::tools
