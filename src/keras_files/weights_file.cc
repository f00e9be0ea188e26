#include "keras_files/weights_file.h"

#include <set>

#include "core/atomic_file.h"
#include "keras_files/weights_image.h"
#include "keras_files/zip_writer.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"

namespace strata::keras_files {
namespace {

WeightsGroup read_one(const std::string& path, const ReadLimits& limits) {
  const std::string bytes = read_file(path);
  return parse_weights(std::as_bytes(std::span(bytes)), path, limits);
}

/// Adds the groups of a shard. A layer that did not fit into one shard has variables in several,
/// numbered on.
void merge(WeightsGroup&& from, WeightsGroup& to) {
  if (from.name) to.name = std::move(from.name);
  for (at::Tensor& tensor : from.vars) to.vars.push_back(std::move(tensor));
  to.named_vars.merge(from.named_vars);
  for (auto& [name, group] : from.groups) merge(std::move(group), to.groups[name]);
}

Json read_index(const std::string& path, const ReadLimits& limits) {
  const std::string text = read_file(path);
  try {
    return Json::parse(text, limits);
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[keras_files] ", path, ": ", error.what()));
  }
}

WeightsGroup read_shards(const std::string& path, const ReadLimits& limits) {
  const Json index = read_index(path, limits);
  const Json* map = index.is_object() ? index.find("weight_map") : nullptr;
  STRATA_CHECK(map != nullptr, kDataLoss, "[keras_files] ", path,
               ": got no 'weight_map'; expected the index that Keras writes beside shards");
  std::set<std::string> shards;
  for (const auto& [group, files] : map->as_object()) {
    if (files.is_string()) {
      shards.insert(files.as_string());
    } else {
      for (const Json& file : files.as_array()) shards.insert(file.as_string());
    }
  }
  const size_t slash = path.rfind('/');
  WeightsGroup weights;
  for (const std::string& shard : shards) {
    STRATA_CHECK(shard.find('/') == std::string::npos && !shard.empty(), kDataLoss,
                 "[keras_files] ", path, ": got the shard '", shard,
                 "'; expected a name in the same folder");
    merge(read_one(slash == std::string::npos ? shard : path.substr(0, slash + 1) + shard, limits),
          weights);
  }
  return weights;
}

}  // namespace

bool have_keras_files() { return true; }

WeightsGroup load_weights_file(const std::string& path, const ReadLimits& limits) {
  return path.ends_with(".json") ? read_shards(path, limits) : read_one(path, limits);
}

void save_weights_file(const WeightsGroup& weights, const std::string& path) {
  const auto image = make_weights_image(weights);
  strata::detail::write_atomically(path, [&](WritableFile& file) {
    for_each_part(*image, [&](std::span<const std::byte> bytes) { file.append(bytes); });
  });
}

std::string serialize_weights(const WeightsGroup& weights) {
  const auto image = make_weights_image(weights);
  std::string bytes(image->size(), '\0');
  STRATA_DCHECK(image->read(0, std::as_writable_bytes(std::span(bytes))) == bytes.size());
  return bytes;
}

}  // namespace strata::keras_files
