#include "checkpoint/writer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <future>

#include "checkpoint/temporary_folder.h"
#include "core/atomic_file.h"
#include "core/random_hex.h"
#include "core/sha256.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::checkpoint {
namespace {

// Hashed while still in the cache, then handed to the kernel in one call.
constexpr size_t kBlock = size_t{1} << 20;
constexpr size_t kWorthAThread = size_t{8} << 20;
constexpr std::string_view kShardEnding = ".safetensors";

/// Appends in blocks, and hashes what it appends.
class HashingFile {
 public:
  HashingFile(const FileSystem& files, const std::string& path,
              std::function<void()> throttle = nullptr)
      : file_(files.create(path)), throttle_(std::move(throttle)) {
    block_.reserve(kBlock);
  }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (block_.empty() && bytes.size() >= kBlock) {
        put(bytes.first(kBlock));
        bytes = bytes.subspan(kBlock);
        continue;
      }
      const auto taken = bytes.first(std::min(bytes.size(), kBlock - block_.size()));
      block_.insert(block_.end(), taken.begin(), taken.end());
      bytes = bytes.subspan(taken.size());
      if (block_.size() == kBlock) flush();
    }
  }

  std::string finish() {
    flush();
    file_->sync();
    file_->close();
    return hash_.hex_digest();
  }

 private:
  void put(std::span<const std::byte> bytes) {
    hash_.update(bytes.data(), bytes.size());
    file_->append(bytes);
    if (throttle_) throttle_();
  }
  void flush() {
    put(block_);
    block_.clear();
  }

  std::unique_ptr<WritableFile> file_;
  std::function<void()> throttle_;
  std::vector<std::byte> block_;
  Sha256 hash_;
};

void write_text(const FileSystem& files, const std::string& path, const std::string& text) {
  HashingFile file(files, path);
  file.append(std::as_bytes(std::span(text)));
  (void)file.finish();
}

/// With the least work for the processor: every byte comes into the cache once.
std::string write_by_one(const FileSystem& files, const std::string& path,
                         const SnapshotShard& shard, const std::function<void()>& throttle) {
  HashingFile file(files, path, throttle);
  file.append(std::as_bytes(std::span(shard.header)));
  for (const auto bytes : shard.data) file.append(bytes);
  return file.finish();
}

/// In the least time: hashing beside writing.
std::string write_by_two(const FileSystem& files, const std::string& path,
                         const SnapshotShard& shard) {
  std::future<std::string> digest = std::async(std::launch::async, [&] {
    Sha256 hash;
    hash.update(shard.header.data(), shard.header.size());
    for (const auto bytes : shard.data) hash.update(bytes.data(), bytes.size());
    return hash.hex_digest();
  });
  const auto file = files.create(path);
  file->append(std::as_bytes(std::span(shard.header)));
  for (const auto bytes : shard.data) file->append(bytes);
  file->sync();
  file->close();
  return digest.get();
}

/// A folder that is not empty, and not what we write, belongs to another program.
void check_replaceable(const FileSystem& files, const std::string& path) {
  const auto info = files.info(path);
  if (!info) return;
  STRATA_CHECK(info->is_folder, kAlreadyExists, "[checkpoint] write: ", path,
               " is a file; expected a new name, or a checkpoint to replace");
  for (const std::string& name : files.list(path)) {
    STRATA_CHECK(name == kManifestFile || name.ends_with(kShardEnding), kAlreadyExists,
                 "[checkpoint] write: ", path, " holds '", name,
                 "', which is no part of a checkpoint; expected a new name, or a checkpoint to "
                 "replace");
  }
}

/// With all missing parents, so that they survive a power cut, too.
void make_durable_folders(const FileSystem& files, const std::string& folder) {
  std::vector<std::string> above;  // of each missing one
  for (std::string at = folder; !files.info(at);) {
    above.push_back(split_path(at).first);
    if (above.back() == at) break;
    at = above.back();
  }
  files.make_folders(folder);
  for (const std::string& each : above) files.sync_folder(each);
}

void quietly(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    STRATA_VLOG(1) << "[checkpoint] while giving up: " << error.what();
  }
}

}  // namespace

void write_shards(const FileSystem& files, const std::string& folder, Snapshot& snapshot) {
  for (size_t i = 0; i < snapshot.shards.size(); ++i) {
    const SnapshotShard& shard = snapshot.shards[i];
    ManifestShard& entry = snapshot.manifest.shards[i];
    const std::string path = join_path(folder, entry.file);
    const bool two_threads = snapshot.in_a_hurry && shard.data_bytes >= kWorthAThread;
    entry.sha256 = two_threads ? write_by_two(files, path, shard)
                               : write_by_one(files, path, shard, snapshot.throttle);
  }
}

void commit(const FileSystem& files, const std::string& folder, const std::string& path,
            const Manifest& manifest) {
  write_text(files, join_path(folder, kManifestFile), write_manifest(manifest));
  files.sync_folder(folder);
  const auto [parent, name] = split_path(path);
  if (!files.info(path)) {
    files.rename(folder, path);
    files.sync_folder(parent);
    return;
  }
  // A process that finds no `path` between these two finds the old one under its other name
  // (clean_up), and does not take that for left behind: it is locked.
  const PathLock lock = files.try_lock(path);
  const std::string old = join_path(parent, make_scratch_name(ScratchKind::kReplaced, name));
  files.rename(path, old);
  try {
    files.rename(folder, path);
  } catch (...) {
    quietly([&] { files.rename(old, path); });
    throw;
  }
  files.sync_folder(parent);
  quietly([&] { remove_folder(files, old); });
}

namespace {

/// Those that the manifest of `path` does not name: of the checkpoint that was there, or of a
/// process that died.
void remove_other_shards(const FileSystem& files, const std::string& path,
                         const Manifest& manifest) {
  for (const std::string& name : files.list(path)) {
    const bool is_named = std::ranges::any_of(
        manifest.shards, [&](const ManifestShard& shard) { return shard.file == name; });
    if (name.ends_with(kShardEnding) && !is_named) files.remove(join_path(path, name));
  }
}

void write_in_place(const FileSystem& files, const std::string& path, Snapshot& snapshot) {
  const std::string unique = "-" + strata::detail::random_hex(8);
  std::vector<ManifestShard>& shards = snapshot.manifest.shards;
  for (ManifestShard& shard : shards) {
    shard.file.insert(shard.file.size() - kShardEnding.size(), unique);
  }
  try {
    write_shards(files, path, snapshot);
  } catch (...) {
    for (const ManifestShard& shard : shards) {
      quietly([&] { files.remove(join_path(path, shard.file)); });
    }
    throw;
  }
  // If this fails the manifest may be there nevertheless, so that the shards stay.
  write_text(files, join_path(path, kManifestFile), write_manifest(snapshot.manifest));
  quietly([&] { remove_other_shards(files, path, snapshot.manifest); });
}

}  // namespace

void write_checkpoint(const std::string& path, Snapshot& snapshot) {
  const FileSystem& files = file_system_of(path);
  const auto [parent, name] = split_path(path);
  STRATA_CHECK(!name.empty(), kInvalidArgument, "[checkpoint] write: got '", path,
               "'; expected the path of a folder to make");
  check_replaceable(files, path);
  make_durable_folders(files, parent);
  if (!files.renames_folders()) return write_in_place(files, path, snapshot);
  // Locked until it has its name: the same folder under another one.
  const Scratch scratch =
      make_scratch(files, parent, name, [&](const std::string& made) { files.make_folders(made); });
  const std::string& folder = scratch.path;
  strata::detail::name_instead_of(folder, path, [&] {
    try {
      write_shards(files, folder, snapshot);
      commit(files, folder, path, snapshot.manifest);
    } catch (...) {
      quietly([&] {
        if (files.info(folder)) remove_folder(files, folder);
      });
      throw;
    }
  });
}

void write_file_atomically(const std::string& path, const std::string& contents) {
  strata::detail::write_atomically(
      path, [&](WritableFile& file) { file.append(std::as_bytes(std::span(contents))); });
}

}  // namespace strata::checkpoint
