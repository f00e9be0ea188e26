#include "keras_files/keras_archive.h"
#include "keras_files/legacy_model.h"
#include "keras_files/weights_file.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[keras_files] ", what,
                      ": this strata was built without HDF5, libzip or zlib; install them (Debian: "
                      "libhdf5-dev libzip-dev zlib1g-dev) and build again"));
}

}  // namespace

bool have_keras_files() { return false; }

WeightsGroup load_weights_file(const std::string& path, const ReadLimits&) { refuse(path); }
WeightsGroup parse_weights(std::span<const std::byte>, const std::string& source,
                           const ReadLimits&) {
  refuse(source);
}
void save_weights_file(const WeightsGroup&, const std::string& path) { refuse(path); }
std::string serialize_weights(const WeightsGroup&) { refuse("serialize_weights"); }

KerasArchive load_keras_archive(const std::string& path, const ArchiveReadOptions&) {
  refuse(path);
}
KerasArchive parse_keras_archive(std::span<const std::byte>, const std::string& source,
                                 const ArchiveReadOptions&) {
  refuse(source);
}
void save_keras_archive(const KerasArchive&, const std::string& path) { refuse(path); }
std::string serialize_keras_archive(const KerasArchive&) { refuse("serialize_keras_archive"); }

LegacyModel load_legacy_model(const std::string& path, const ReadLimits&) { refuse(path); }
LegacyModel parse_legacy_model(std::span<const std::byte>, const std::string& source,
                               const ReadLimits&) {
  refuse(source);
}

}  // namespace strata::keras_files
