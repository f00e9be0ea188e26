#pragma once

#include <functional>
#include <string>

namespace strata::estimator::detail {

/// Makes the folder `<export_path>/<seconds since 1970>`, whole or not at all: `write` fills it
/// under another name. If it exists, the name of a later second is taken.
/// @param call  For errors: "export_checkpoint".
/// @return Its path. @throws Error kAlreadyExists: ten names in a row are taken.
std::string write_export(const std::string& export_path, const char* call,
                         const std::function<void(const std::string& folder)>& write);

void write_text_file(const std::string& path, const std::string& text);

}  // namespace strata::estimator::detail
