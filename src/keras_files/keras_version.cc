#include "keras_files/keras_archive.h"

namespace strata::keras_files {

std::string KerasArchive::keras_version() const {
  const Json* version = metadata.is_object() ? metadata.find("keras_version") : nullptr;
  return version != nullptr && version->is_string() ? version->as_string() : "";
}

bool KerasArchive::is_keras_2() const { return keras_version().starts_with("2."); }

}  // namespace strata::keras_files
