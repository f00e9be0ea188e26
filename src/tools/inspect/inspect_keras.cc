// `strata inspect model.keras`, model.h5 and model.weights.h5.
#include <iostream>

#include "keras_files/describe.h"
#include "strata/core/error.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

bool is_keras_file(const InspectPath& path) {
  return !path.is_folder && path.start.starts_with("PK") && path.name().ends_with(".keras");
}

void print_keras(const InspectPath& path, const InspectOptions&) {
  STRATA_CHECK(keras_files::describe_keras_archive(path.path, std::cout), kDataLoss,
               "[strata inspect] ", path.path, ": its weights are not those that its layers need");
}

bool recognises_h5(const InspectPath& path) {
  return !path.is_folder && path.start.starts_with("\x89HDF\r\n\x1A\n");
}

void print_h5(const InspectPath& path, const InspectOptions&) {
  keras_files::describe_keras_h5(path.path, std::cout);
}

}  // namespace

const InspectKind kInspectKeras = {
    .name = "Keras model", .recognises = is_keras_file, .print = print_keras};
const InspectKind kInspectKerasH5 = {
    .name = "Keras HDF5 file", .recognises = recognises_h5, .print = print_h5};

}  // namespace strata::tools
