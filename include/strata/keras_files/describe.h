#pragma once

#include <iosfwd>
#include <string>

#include "strata/core/export.h"

namespace strata::keras_files {

/// Prints what a `.keras` archive holds: the Keras that wrote it, a line for each layer (name,
/// class, shapes, parameters; nested ones indented), the sums, how it was compiled, and the
/// optimizer's state.
/// @return false if the weights are not those that the config asks for; what is wrong is printed,
/// too.
/// @throws Error as load_keras_archive. Threads: any.
STRATA_API bool describe_keras_archive(const std::string& path, std::ostream& out);

}  // namespace strata::keras_files
