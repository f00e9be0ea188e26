#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata {
namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case ELOOP:
    case EXDEV:
    case ENAMETOOLONG:
    case EINVAL:
      return ErrorCode::kFailedPrecondition;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kUnavailable;
  }
}

[[noreturn]] void fail(const char* call, const std::string& path, int error = errno) {
  throw Error(code_of(error),
              str_cat("[core] ", call, ": ", path, ": ", std::generic_category().message(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class LocalReadableFile final : public ReadableFile {
 public:
  explicit LocalReadableFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_.get() < 0) fail("open", path_);
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail("open", path_);
    if (S_ISDIR(status.st_mode)) fail("open", path_, EISDIR);
    size_ = static_cast<uint64_t>(status.st_size);
  }

  size_t read(uint64_t offset, std::span<std::byte> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::pread(fd_.get(), out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
      if (got == 0) break;
      if (got > 0) {
        done += static_cast<size_t>(got);
      } else if (errno != EINTR) {
        fail("read", path_);
      }
    }
    return done;
  }
  uint64_t size() const override { return size_; }

 private:
  std::string path_;
  Descriptor fd_;
  uint64_t size_ = 0;
};

class LocalWritableFile final : public WritableFile {
 public:
  explicit LocalWritableFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (fd_.get() < 0) fail("create", path_);
  }

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written >= 0) {
        bytes = bytes.subspan(static_cast<size_t>(written));
      } else if (errno != EINTR) {
        fail("write", path_);
      }
    }
  }
  void sync() override {
    if (::fsync(fd_.get()) != 0) fail("sync", path_);
  }
  void close() override {
    // Some file systems report a full disk only here.
    if (::close(fd_.release()) != 0 && errno != EINTR) fail("close", path_);
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class LocalFileSystem final : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& path) const override {
    return std::make_unique<LocalReadableFile>(path);
  }

  std::unique_ptr<WritableFile> create(const std::string& path) const override {
    return std::make_unique<LocalWritableFile>(path);
  }

  std::optional<FileInfo> info(const std::string& path) const override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      fail("info", path);
    }
    const bool is_folder = S_ISDIR(status.st_mode);
    return FileInfo{.is_folder = is_folder,
                    .size = is_folder ? 0 : static_cast<uint64_t>(status.st_size),
                    .modified_ns = static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                                   status.st_mtim.tv_nsec};
  }

  std::vector<std::string> list(const std::string& folder) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(folder.c_str()), &::closedir);
    if (!handle) fail("list", folder);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = ::readdir(handle.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) fail("list", folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_folders(const std::string& folder) const override {
    for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
      const std::string part = folder.substr(0, end);
      if (::mkdir(part.c_str(), 0777) != 0) {
        const int error = errno;
        // Also EROFS, EACCES and so on are no failure where the folder exists.
        struct stat status {};
        if (::stat(part.c_str(), &status) != 0) fail("make_folders", part, error);
        if (!S_ISDIR(status.st_mode)) fail("make_folders", part, ENOTDIR);
      }
      if (end == std::string::npos) return;
    }
  }

  void rename(const std::string& from, const std::string& to) const override {
    if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename", str_cat(from, " -> ", to));
  }

  void remove(const std::string& path) const override {
    if (std::remove(path.c_str()) != 0) fail("remove", path);
  }

  void sync_folder(const std::string& folder) const override {
    const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) fail("sync_folder", folder);
    // Some network file systems cannot sync folders, and need not.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) fail("sync_folder", folder);
  }

  PathLock try_lock(const std::string& path) const override {
    using State = PathLock::State;
    // Not to block where a pipe has that name.
    auto fd =
        std::make_shared<const Descriptor>(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd->get() < 0) {
      return {.state = errno == ENOENT || errno == ENOTDIR ? State::kMissing : State::kUnsupported};
    }
    // flock belongs to the open file, not to the process: no other close() here can drop it.
    if (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) {
      return {.state = errno == EWOULDBLOCK ? State::kHeldElsewhere : State::kUnsupported};
    }
    struct stat locked {
    }, there{};
    if (::fstat(fd->get(), &locked) != 0 || ::stat(path.c_str(), &there) != 0 ||
        locked.st_ino != there.st_ino || locked.st_dev != there.st_dev) {
      return {.state = State::kMissing};
    }
    return {.state = State::kLocked, .holder = std::move(fd)};
  }
};

}  // namespace

const FileSystem& local_file_system() {
  static const LocalFileSystem* const disk = new LocalFileSystem;  // outlives every file
  return *disk;
}

}  // namespace strata
