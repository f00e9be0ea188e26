#pragma once

#include <functional>
#include <string>

#include "keras_files/zip_writer.h"

namespace strata::keras_files {

/// Lets `write` fill a temporary file beside `path`, and then puts it there: the file appears whole
/// or not at all.
void write_atomically(const std::string& path, const std::function<void(const Sink&)>& write);

}  // namespace strata::keras_files
