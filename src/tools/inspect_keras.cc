// `strata inspect model.keras`.
#include <iostream>

#include "strata/core/error.h"
#include "strata/keras_files/describe.h"
#include "tools/inspect.h"

namespace strata::tools {
namespace {

bool recognises(const InspectPath& path) {
  return !path.is_folder && path.start.starts_with("PK") && path.name().ends_with(".keras");
}

void print(const InspectPath& path, const InspectOptions&) {
  STRATA_CHECK(keras_files::describe_keras_archive(path.path, std::cout), kDataLoss,
               "[strata inspect] ", path.path, ": its weights are not those that its layers need");
}

}  // namespace

const InspectKind kInspectKeras = {.name = "Keras model", .recognises = recognises, .print = print};

}  // namespace strata::tools
