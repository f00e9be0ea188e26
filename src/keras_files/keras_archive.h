#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "keras_files/weights_tree.h"
#include "strata/core/json.h"
#include "strata/core/read_limits.h"

namespace strata::keras_files {

/// What a `.keras` file holds, without any meaning.
struct KerasArchive {
  /// `keras_version`, `date_saved`. An empty object if the file has none.
  Json metadata = Json::object();
  /// The model: `class_name`, `config`, `compile_config` ...
  Json config = Json::object();
  WeightsGroup weights = {};
  /// Below `assets/`, as `layers/string_lookup/vocabulary.txt`.
  std::map<std::string, std::string> assets = {};

  /// `metadata.keras_version`, or "" if the file does not say.
  std::string keras_version() const;
  /// Written by tf-keras, the Keras that TensorFlow had before version 3: the config has other
  /// keys, and the optimizer keeps no learning rate.
  bool is_keras_2() const;
};

struct ArchiveReadOptions {
  bool weights = true;     ///< False leaves `weights` empty and reads the JSON parts alone.
  ReadLimits limits = {};  ///< Of the archive, and of each member that is a file itself.
};

/// Reads a `.keras` archive, whichever of zip's methods its members have. Members that Keras does
/// not know are ignored. Nothing is unpacked to the disk, and nothing in the file is run.
///
/// @throws Error  kDataLoss: no zip, a member that is missing, damaged (CRC), not JSON, listed
///                twice; names file and member. kResourceExhausted: a member, or all of them
///                together, that would become more than `limits` allows.
///                And what load_weights_file throws. Threads: any.
KerasArchive load_keras_archive(const std::string& path, const ArchiveReadOptions& options = {});

/// The same for bytes; `source` names them in errors.
KerasArchive parse_keras_archive(std::span<const std::byte> bytes, const std::string& source,
                                 const ArchiveReadOptions& options = {});

/// Writes `archive` as Keras does: members stored, dated 1980; equal archives give equal bytes.
/// Metadata without `keras_version` gets that of the Keras whose format this is; the date is the
/// caller's to set. The file appears whole or not at all.
///
/// @throws Error  kInvalidArgument: a config without `class_name` or `config`, an asset's name
///                that leads out of the archive. And what save_weights_file throws.
void save_keras_archive(const KerasArchive& archive, const std::string& path);

/// The bytes that `save_keras_archive` writes.
std::string serialize_keras_archive(const KerasArchive& archive);

}  // namespace strata::keras_files
