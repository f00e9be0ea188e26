#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata {

/// A file open for reading. Threads: `read` may be called by many at once.
class STRATA_API ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  /// Reads up to out.size() bytes from `offset`. @return the number of bytes read: fewer only at
  /// the end.
  /// @throws Error kUnavailable: the medium failed.
  virtual size_t read(uint64_t offset, std::span<std::byte> out) const = 0;

  /// Size in bytes, when it was opened.
  virtual uint64_t size() const = 0;
};

/// A new file, written from its beginning. Threads: one at a time.
class STRATA_API WritableFile {
 public:
  /// Closes the file if `close` was not called; failures are then ignored.
  virtual ~WritableFile() = default;

  /// @throws Error kResourceExhausted (disk full, quota), kUnavailable.
  virtual void append(std::span<const std::byte> bytes) = 0;

  /// Returns when the bytes are on the medium (fsync). @throws as append.
  virtual void sync() = 0;

  /// Must be called at most once, as the last call. @throws as append.
  virtual void close() = 0;
};

struct FileInfo {
  bool is_folder = false;
  uint64_t size = 0;        ///< bytes; 0 for folders
  int64_t modified_ns = 0;  ///< nanoseconds since 1970
};

/// An attempt to lock a file or a folder (`FileSystem::try_lock`).
struct PathLock {
  enum class State {
    kLocked,  ///< Until `holder` and its copies are destroyed, or the process ends in any way.
    kHeldElsewhere,  ///< Another process, or another attempt of this one, holds it.
    kMissing,        ///< It does not exist, or was renamed meanwhile.
    kUnsupported,    ///< The file system has no locks.
  };

  State state = State::kUnsupported;
  std::shared_ptr<const void> holder = nullptr;
};

/// A file system. Every path that strata reads or writes is accessed through one of these. Paths
/// are UTF-8 with '/'; symbolic links are followed.
///
/// Errors of every call name the path and the system's message: kNotFound, kPermissionDenied (also
/// a read-only file system), kAlreadyExists, kFailedPrecondition (a folder where a file was
/// expected, or the reverse; a folder that is not empty; a loop of symbolic links),
/// kResourceExhausted, kUnavailable.
///
/// Threads: any, at once.
class STRATA_API FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<ReadableFile> open(const std::string& path) const = 0;

  /// Creates `path`, or truncates an existing file.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) const = 0;

  /// Returns nullopt if nothing exists there (also if a folder on the way is missing).
  virtual std::optional<FileInfo> info(const std::string& path) const = 0;

  /// Returns names (not paths) in `folder`, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::string& folder) const = 0;

  /// Creates a folder with all missing parents; does nothing if it exists.
  virtual void make_folders(const std::string& folder) const = 0;

  /// Renames in one step: afterwards `to` is either unchanged or what `from` was. A file replaces a
  /// file, a folder an empty folder.
  virtual void rename(const std::string& from, const std::string& to) const = 0;

  /// Removes a file or an empty folder.
  virtual void remove(const std::string& path) const = 0;

  /// Returns when the names in `folder` are on the medium: a new or renamed file survives a power
  /// cut only after this call.
  virtual void sync_folder(const std::string& folder) const = 0;

  /// Locks a file or folder without waiting: among all processes that see this file system through
  /// the same kernel, one holds it. The lock stays with the file or folder when that is renamed; it
  /// is advisory and prevents no access. kUnsupported unless overridden.
  virtual PathLock try_lock(const std::string& path) const;

  /// Whether `rename` moves folders. Where it does not, as in object stores, a file of `create` is
  /// atomic: others see it whole from its first `sync` or `close` on, or what was there before, and
  /// nothing of one that is destroyed without.
  virtual bool renames_folders() const { return true; }
};

/// The disk.
STRATA_API const FileSystem& local_file_system();

/// Returns the file system of `path`: the one registered for the scheme before "://", else the
/// disk. "s3://bucket/key" and "gs://bucket/key" are object stores (docs/object_stores.md), unless
/// another was registered.
/// @throws Error kUnimplemented: the scheme is not registered; lists those that are.
///   kUnauthenticated: an object store without credentials.
STRATA_API const FileSystem& file_system_of(std::string_view path);

/// Registers `file_system`, which must live until the process ends, for paths that start with
/// `scheme` + "://". It gets them whole.
/// @throws Error kAlreadyExists: the scheme is registered.
STRATA_API void register_file_system(const std::string& scheme,
                                     std::unique_ptr<const FileSystem> file_system);

/// Reads a whole file. @throws as FileSystem::open and ReadableFile::read.
STRATA_API std::string read_file(const std::string& path);

/// `folder` + '/' + `name`, with one slash.
STRATA_API std::string join_path(std::string_view folder, std::string_view name);

/// Splits "a/b/c" into "a/b" and "c"; "c" into "." and "c". Slashes at the end are ignored.
STRATA_API std::pair<std::string, std::string> split_path(std::string_view path);

}  // namespace strata
