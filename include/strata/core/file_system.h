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

  /// Reads up to out.size() bytes from `offset`. @return how many there were: fewer only at the
  /// end.
  /// @throws Error kUnavailable: the medium failed.
  virtual size_t read(uint64_t offset, std::span<std::byte> out) const = 0;

  /// In bytes, when it was opened.
  virtual uint64_t size() const = 0;
};

/// A new file, written from its beginning. Threads: one at a time.
class STRATA_API WritableFile {
 public:
  /// Closes the file if `close` was not called, and then keeps quiet about failures.
  virtual ~WritableFile() = default;

  /// @throws Error kResourceExhausted (disk full, quota), kUnavailable.
  virtual void append(std::span<const std::byte> bytes) = 0;

  /// Returns when the bytes are on the medium (fsync). @throws as append.
  virtual void sync() = 0;

  /// At most once; nothing else may follow. @throws as append.
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
    kLocked,  ///< Until `holder` and its copies are gone, or the process is, however it ends.
    kHeldElsewhere,  ///< By another process, or by another attempt of this one.
    kMissing,        ///< There is nothing of that name, or it was renamed meanwhile.
    kUnsupported,    ///< The file system has no locks.
  };

  State state = State::kUnsupported;
  std::shared_ptr<const void> holder = nullptr;
};

/// Where files live. Everything that strata keeps or reads by path goes through one of these, so
/// that an object store can be added. Paths are UTF-8 with '/'; symbolic links are followed.
///
/// Errors of every call name the path and what the system said: kNotFound, kPermissionDenied (also
/// a read-only file system), kAlreadyExists, kFailedPrecondition (a folder where a file was
/// expected, or the reverse; a folder that is not empty; a loop of symbolic links),
/// kResourceExhausted, kUnavailable.
///
/// Threads: any, at once.
class STRATA_API FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<ReadableFile> open(const std::string& path) const = 0;

  /// Makes `path`, or cuts an existing file to nothing.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) const = 0;

  /// Nullopt if there is nothing (a folder on the way that is missing included).
  virtual std::optional<FileInfo> info(const std::string& path) const = 0;

  /// Names (not paths) in `folder`, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::string& folder) const = 0;

  /// With all missing parents; nothing if it is there.
  virtual void make_folders(const std::string& folder) const = 0;

  /// Atomic: afterwards `to` is either what it was or what `from` was. A file replaces a file, a
  /// folder an empty folder.
  virtual void rename(const std::string& from, const std::string& to) const = 0;

  /// A file or an empty folder.
  virtual void remove(const std::string& path) const = 0;

  /// Returns when the names in `folder` are on the medium: a file that was made or renamed there
  /// survives a power cut only behind this.
  virtual void sync_folder(const std::string& folder) const = 0;

  /// Locks a file or folder without waiting: among all processes that see this file system through
  /// the same kernel, one holds it. The lock stays with what was locked when that is renamed; it
  /// keeps nothing and nobody from reading, writing or removing. Not there unless overridden.
  virtual PathLock try_lock(const std::string& path) const;
};

/// The disk.
STRATA_API const FileSystem& local_file_system();

/// The file system of `path`: the one registered for what stands before "://", else the disk.
/// @throws Error kUnimplemented: nobody registered that scheme; names those that are.
STRATA_API const FileSystem& file_system_of(std::string_view path);

/// From now on paths that start with `scheme` + "://" go, whole, to `file_system`, which must live
/// until the process ends.
/// @throws Error kAlreadyExists: the scheme has one.
STRATA_API void register_file_system(const std::string& scheme,
                                     std::unique_ptr<const FileSystem> file_system);

/// The whole file. @throws as FileSystem::open and ReadableFile::read.
STRATA_API std::string read_file(const std::string& path);

/// `folder` + '/' + `name`, with one slash.
STRATA_API std::string join_path(std::string_view folder, std::string_view name);

/// "a/b/c" as "a/b" and "c"; "c" as "." and "c". Slashes at the end do not count.
STRATA_API std::pair<std::string, std::string> split_path(std::string_view path);

}  // namespace strata
