#include "checkpoint/reader.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <future>
#include <unordered_map>

#include "checkpoint/safetensors_format.h"
#include "core/sha256.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::checkpoint {
namespace {

constexpr size_t kReadBlock = size_t{4} << 20;

std::unique_ptr<ReadableFile> open_shard(const std::string& folder, const ManifestShard& shard) {
  const std::string path = join_path(folder, shard.file);
  const FileSystem& files = file_system_of(path);
  if (!files.info(path))
    throw_damaged(path, "got no such shard; expected the one that the manifest names");
  std::unique_ptr<ReadableFile> file = files.open(path);
  if (file->size() != shard.bytes) {
    throw_damaged(path,
                  str_cat("got ", file->size(), " bytes; expected ", shard.bytes,
                          file->size() < shard.bytes ? " (cut short)" : " (something was added)"));
  }
  return file;
}

/// A shard in memory, and where each of its tensors lies.
struct Shard {
  at::Tensor bytes;
  Header header;
  std::unordered_map<std::string, const TensorRecord*> by_name;
};

Shard load_shard(const std::string& folder, const ManifestShard& entry) {
  const std::string path = join_path(folder, entry.file);
  const auto file = open_shard(folder, entry);
  Shard shard;
  try {
    shard.bytes = at::empty({static_cast<int64_t>(entry.bytes)}, at::kByte);
  } catch (const c10::Error&) {
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("[checkpoint] ", path, ": no memory for its ", entry.bytes, " bytes"));
  }
  const std::span<std::byte> all(static_cast<std::byte*>(shard.bytes.data_ptr()), entry.bytes);
  Sha256 hash;
  std::future<void> hashing;  // of the block before, while the next one is read
  for (size_t at = 0; at < all.size(); at += kReadBlock) {
    const auto block = all.subspan(at, std::min(kReadBlock, all.size() - at));
    const size_t got = file->read(at, block);
    if (hashing.valid()) hashing.get();
    if (got < block.size()) {
      throw_damaged(path,
                    str_cat("got ", at + got, " bytes; expected ", entry.bytes, " (cut short)"));
    }
    if (block.size() == kReadBlock) {
      hashing =
          std::async(std::launch::async, [&hash, block] { hash.update(block.data(), kReadBlock); });
    } else {
      hash.update(block.data(), block.size());
    }
  }
  if (hashing.valid()) hashing.get();
  const std::string digest = hash.hex_digest();
  if (digest != entry.sha256) {
    throw_damaged(path, str_cat("got bytes whose SHA-256 is ", digest, "; expected ", entry.sha256,
                                ": the file was changed"));
  }
  shard.header = parse_header(all, entry.bytes, path);
  for (const TensorRecord& record : shard.header.records) shard.by_name[record.name] = &record;
  return shard;
}

class Assembly {
 public:
  /// @param wanted  Whether the shard of that number is needed; nullptr: all are.
  Assembly(const std::string& folder, const std::vector<ManifestShard>& entries,
           const std::function<bool(int64_t)>& wanted = nullptr)
      : path_(folder) {
    for (const ManifestShard& entry : entries) {
      const bool needed = !wanted || wanted(static_cast<int64_t>(shards_.size()));
      shards_.push_back(needed ? load_shard(folder, entry) : Shard());
      left_ += entry.bytes;
    }
  }

  /// A tensor of its pieces: a view of the shard if there is but one.
  at::Tensor tensor(const ManifestTensor& tensor, const std::vector<ManifestPiece>& pieces) {
    std::vector<at::Tensor> parts;
    for (const ManifestPiece& piece : pieces) {
      parts.push_back(part(tensor, piece));
      use(tensor, parts.back().nbytes());
      // Pieces are runs of rows.
      const at::IntArrayRef first = parts[0].sizes(), last = parts.back().sizes();
      if (parts.size() > 1 && (first.empty() || last.empty() || first.slice(1) != last.slice(1))) {
        throw_damaged(path_, str_cat("tensor '", tensor.name, "': got pieces of shapes ", first,
                                     " and ", last, "; expected rows of one tensor"));
      }
    }
    if (parts.empty()) throw_damaged(path_, str_cat("tensor '", tensor.name, "': got no pieces"));
    at::Tensor whole = parts.size() == 1 ? parts[0] : at::cat(parts);
    if (whole.sizes() != at::IntArrayRef(tensor.shape)) {
      throw_damaged(path_, str_cat("tensor '", tensor.name, "': its pieces make the shape ",
                                   whole.sizes(), "; expected ", at::IntArrayRef(tensor.shape)));
    }
    return whole;
  }

 private:
  /// Every byte of a shard belongs to one piece; a manifest that uses them again and again could
  /// ask for any amount of memory.
  void use(const ManifestTensor& tensor, uint64_t bytes) {
    if (bytes > left_) {
      throw_damaged(path_, str_cat("tensor '", tensor.name,
                                   "': got pieces that take more bytes than the shards have"));
    }
    left_ -= bytes;
  }

  at::Tensor part(const ManifestTensor& tensor, const ManifestPiece& piece) const {
    const Shard& shard = shards_[static_cast<size_t>(piece.shard)];
    const auto found = shard.by_name.find(piece.key);
    if (found == shard.by_name.end() || found->second->dtype != tensor.dtype) {
      throw_damaged(path_, str_cat("tensor '", tensor.name, "': got no '", piece.key,
                                   "' of its dtype in shard ", piece.shard));
    }
    const TensorRecord& record = *found->second;
    const uint64_t offset = shard.header.data_begin + record.begin;
    const at::Tensor bytes = shard.bytes.narrow(0, static_cast<int64_t>(offset),
                                                static_cast<int64_t>(record.end - record.begin));
    if (offset % c10::elementSize(record.dtype) != 0) {
      return bytes.clone().view(record.dtype).view(record.shape);
    }
    return bytes.view(record.dtype).view(record.shape);
  }

  const std::string path_;
  std::vector<Shard> shards_;
  uint64_t left_ = 0;  // bytes that no piece has used
};

}  // namespace

Manifest read_manifest(const std::string& path) {
  const FileSystem& files = file_system_of(path);
  const auto info = files.info(path);
  STRATA_CHECK(info.has_value(), kNotFound, "[checkpoint] ", path,
               ": there is no such folder; expected a checkpoint");
  STRATA_CHECK(info->is_folder, kDataLoss, "[checkpoint] ", path,
               ": got a file; expected a checkpoint, which is a folder");
  const std::string manifest = join_path(path, kManifestFile);
  const auto file = files.info(manifest);
  STRATA_CHECK(file.has_value(), kNotFound, "[checkpoint] ", path,
               ": got no manifest.json; expected a checkpoint (one that was not written to its end "
               "has none)");
  constexpr int64_t kLargest = 100'000'000;  // bytes, some hundred thousand tensors
  STRATA_CHECK(file->size <= kLargest, kDataLoss, "[checkpoint] ", manifest, ": got ", file->size,
               " bytes; expected at most ", kLargest);
  return parse_manifest(read_file(manifest), manifest);
}

Manifest check_quickly(const std::string& path) {
  Manifest manifest = read_manifest(path);
  for (const ManifestShard& shard : manifest.shards) (void)open_shard(path, shard);
  return manifest;
}

const ManifestTensor& held_as(const Manifest& manifest, const ManifestTensor& tensor) {
  if (tensor.same_as.empty()) return tensor;
  const auto original = std::ranges::find(manifest.tensors, tensor.same_as, &ManifestTensor::name);
  STRATA_CHECK(original != manifest.tensors.end() && original->same_as.empty(), kDataLoss,
               "[checkpoint] tensor '", tensor.name, "' refers to '", tensor.same_as,
               "', which does not exist");
  return *original;
}

at::Tensor load_tensor(const std::string& path, const Manifest& manifest,
                       const ManifestTensor& tensor) {
  Assembly assembly(path, manifest.shards, [&](int64_t shard) {
    return std::ranges::find(tensor.pieces, shard, &ManifestPiece::shard) != tensor.pieces.end();
  });
  // Not a view of a shard that would be kept for its sake.
  return assembly.tensor(tensor, tensor.pieces).clone();
}

Loaded load_checkpoint(const std::string& path) {
  Loaded loaded{.path = path, .manifest = read_manifest(path)};
  Assembly assembly(path, loaded.manifest.shards);
  for (const ManifestTensor& tensor : loaded.manifest.tensors) {
    if (!tensor.same_as.empty()) {
      const auto original = loaded.tensors.find(tensor.same_as);
      if (original == loaded.tensors.end()) {
        throw_damaged(path, str_cat("tensor '", tensor.name, "' refers to '", tensor.same_as,
                                    "', which does not exist"));
      }
      loaded.tensors[tensor.name] = original->second;
      continue;
    }
    LoadedTensor& entry = loaded.tensors[tensor.name];
    entry.value = assembly.tensor(tensor, tensor.pieces);
    for (const auto& pieces : tensor.replicas) {
      entry.replicas.push_back(assembly.tensor(tensor, pieces));
    }
  }
  for (const auto& [name, value] : loaded.manifest.values) loaded.values[name] = value;
  return loaded;
}

}  // namespace strata::checkpoint
