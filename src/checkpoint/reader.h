#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace strata::checkpoint {

struct LoadedTensor {
  at::Tensor value;
  std::vector<at::Tensor> replicas = {};  ///< Empty where the value represents all.
};

struct Loaded {
  std::string path = {};
  Manifest manifest;
  std::map<std::string, LoadedTensor> tensors = {};  ///< Under each of its names.
  std::map<std::string, CheckpointValue> values = {};
};

/// The manifest, checked by itself.
/// @throws Error kNotFound: no such folder, or none with a manifest. kDataLoss: damaged or foreign.
///               kUnimplemented: a newer format. And what core/file_system.h throws.
Manifest read_manifest(const std::string& path);

/// What can be seen without reading the shards: the manifest, and that each shard is there with its
/// size.
/// @throws as read_manifest; kDataLoss names the shard.
Manifest check_quickly(const std::string& path);

/// `tensor`, or the one that it is said to be the same as.
/// @throws Error kDataLoss: there is no such one.
const ManifestTensor& held_as(const Manifest& manifest, const ManifestTensor& tensor);

/// One tensor that is no other's: only the shards of its pieces are read and verified.
at::Tensor load_tensor(const std::string& path, const Manifest& manifest,
                       const ManifestTensor& tensor);

/// Everything, checksums verified before anything is handed out.
Loaded load_checkpoint(const std::string& path);

}  // namespace strata::checkpoint
