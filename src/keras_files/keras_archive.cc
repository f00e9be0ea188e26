#include "keras_files/keras_archive.h"

#include <algorithm>

#include "core/atomic_file.h"
#include "keras_files/memory_file.h"
#include "keras_files/weights_file.h"
#include "keras_files/weights_image.h"
#include "keras_files/zip_reader.h"
#include "keras_files/zip_writer.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

constexpr const char* kMetadataMember = "metadata.json";
constexpr const char* kConfigMember = "config.json";
constexpr const char* kWeightsMember = "model.weights.h5";
constexpr const char* kAssets = "assets/";
/// The Keras whose format this is, as it was tried.
constexpr const char* kKerasVersion = "3.15.1";

/// True for names that stay in the folder that they are put into.
bool stays_inside(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return false;
  }
  return ('/' + name + '/').find("/../") == std::string::npos;
}

Json parse_member(const ZipReader& zip, const std::string& source, const std::string& member,
                  const ReadLimits& limits) {
  try {
    return Json::parse(zip.read(member), limits);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find(member) != std::string::npos) throw;  // the zip's own
    throw Error(error.code(), str_cat("[keras_files] ", source, ": member ", member, ": ", what));
  }
}

KerasArchive read(const ReadableFile& file, const std::string& source,
                  const ArchiveReadOptions& options) {
  const ZipReader zip(file, source, options.limits);
  KerasArchive archive;
  archive.config = parse_member(zip, source, kConfigMember, options.limits);
  const Json* class_name = archive.config.is_object() ? archive.config.find("class_name") : nullptr;
  const Json* config = archive.config.is_object() ? archive.config.find("config") : nullptr;
  STRATA_CHECK(
      class_name != nullptr && class_name->is_string() && config != nullptr && config->is_object(),
      kDataLoss, "[keras_files] ", source, ": member ", kConfigMember,
      ": got no object with 'class_name' and 'config'; expected a Keras model");
  if (zip.contains(kMetadataMember)) {
    archive.metadata = parse_member(zip, source, kMetadataMember, options.limits);
    STRATA_CHECK(archive.metadata.is_object(), kDataLoss, "[keras_files] ", source, ": member ",
                 kMetadataMember, ": expected an object");
  }
  if (!options.weights) return archive;
  STRATA_CHECK(zip.contains(kWeightsMember) || !zip.contains("model.weights.npz"), kUnimplemented,
               "[keras_files] ", source,
               ": got weights in NumPy's format (model.weights.npz); save the model with Keras's "
               "default format");
  {
    const std::string bytes = zip.read(kWeightsMember);
    archive.weights = parse_weights(std::as_bytes(std::span(bytes)),
                                    str_cat(source, ": member ", kWeightsMember), options.limits);
  }
  for (const std::string& member : zip.members()) {
    if (!member.starts_with(kAssets) || member.ends_with('/')) continue;
    const std::string name = member.substr(std::string_view(kAssets).size());
    STRATA_CHECK(stays_inside(name), kDataLoss, "[keras_files] ", source, ": member ", member,
                 ": got a name that leads out of the archive");
    archive.assets.emplace(name, zip.read(member));
  }
  return archive;
}

void write(const KerasArchive& archive, const Sink& sink) {
  const Json* class_name = archive.config.is_object() ? archive.config.find("class_name") : nullptr;
  STRATA_CHECK(class_name != nullptr && archive.config.find("config") != nullptr, kInvalidArgument,
               "[keras_files] save: got a config without 'class_name' and 'config'; expected that "
               "of a Keras model");
  for (const auto& [name, bytes] : archive.assets) {
    STRATA_CHECK(stays_inside(name), kInvalidArgument, "[keras_files] save: got the asset '", name,
                 "', which leads out of the archive");
  }
  Json metadata = archive.metadata.is_object() ? archive.metadata : Json::object();
  if (metadata.find("keras_version") == nullptr) metadata.set("keras_version", kKerasVersion);
  const auto weights = make_weights_image(archive.weights);

  ZipWriter zip(sink);
  zip.add(kMetadataMember, metadata.dump());
  zip.add(kConfigMember, archive.config.dump());
  zip.add(kWeightsMember, *weights);
  for (const auto& [name, bytes] : archive.assets) zip.add(kAssets + name, bytes);
  zip.finish();
}

}  // namespace

KerasArchive load_keras_archive(const std::string& path, const ArchiveReadOptions& options) {
  const auto file = file_system_of(path).open(path);
  return read(*file, path, options);
}

KerasArchive parse_keras_archive(std::span<const std::byte> bytes, const std::string& source,
                                 const ArchiveReadOptions& options) {
  return read(MemoryFile(bytes), source, options);
}

void save_keras_archive(const KerasArchive& archive, const std::string& path) {
  strata::detail::write_atomically(path, [&](WritableFile& file) {
    write(archive, [&](std::span<const std::byte> bytes) { file.append(bytes); });
  });
}

std::string serialize_keras_archive(const KerasArchive& archive) {
  std::string bytes;
  write(archive, [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return bytes;
}

}  // namespace strata::keras_files
