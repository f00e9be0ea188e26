#pragma once

#include <iosfwd>
#include <string>

namespace strata::keras_files {

/// Prints what a `.keras` archive holds: the Keras that wrote it, a line for each layer (name,
/// class, shapes, parameters; nested ones indented), the sums, how it was compiled, and the
/// optimizer's state.
/// @return false if the weights are not those that the config asks for; what is wrong is printed,
/// too.
/// @throws Error as load_keras_archive. Threads: any.
bool describe_keras_archive(const std::string& path, std::ostream& out);

/// Prints what an HDF5 file of Keras's holds. A whole model (`.h5`): the Keras that wrote it, its
/// layers' weights by name, how it was compiled. Weights alone (`.weights.h5`): each group with the
/// shapes of its variables. And the sums.
/// @throws Error as load_legacy_model and load_weights_file. Threads: any.
void describe_keras_h5(const std::string& path, std::ostream& out);

}  // namespace strata::keras_files
