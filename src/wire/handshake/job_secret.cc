#include "strata/wire/security.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/random_hex.h"
#include "strata/core/error.h"
#include "wire/shared_memory.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::wire {
namespace {

constexpr size_t kRandomBytes = 32;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

std::string octal(mode_t mode) {
  std::ostringstream text;
  text << std::oct << std::setw(4) << std::setfill('0') << (mode & 07777);
  return text.str();
}

/// Of the open file, not of its name: that may mean another one by now.
void check_file(int file, const std::string& path) {
  struct stat info = {};
  STRATA_CHECK(::fstat(file, &info) == 0, kPermissionDenied, "[wire] job secret: got ", path, ": ",
               system_error_text(errno));
  STRATA_CHECK(S_ISREG(info.st_mode), kInvalidArgument, "[wire] job secret: got ", path,
               ", which is no regular file; expected one with the secret in it");
  STRATA_CHECK(info.st_uid == ::geteuid(), kPermissionDenied, "[wire] job secret: got ", path,
               ", which belongs to user ", info.st_uid, "; expected this process's user; chown ",
               ::geteuid(), " ", path);
  STRATA_CHECK((info.st_mode & kOthers) == 0, kPermissionDenied, "[wire] job secret: got ", path,
               " with mode ", octal(info.st_mode), ", which is open to others; chmod 600 ", path);
}

std::string read_at_most(int file, size_t limit, const std::string& path) {
  std::string bytes(limit, '\0');
  size_t came = 0;
  while (came < limit) {
    const ssize_t got = ::read(file, bytes.data() + came, limit - came);
    if (got < 0 && errno == EINTR) continue;
    STRATA_CHECK(got >= 0, kUnavailable, "[wire] job secret: reading ", path, ": ",
                 system_error_text(errno));
    if (got == 0) break;
    came += static_cast<size_t>(got);
  }
  bytes.resize(came);
  return bytes;
}

}  // namespace

JobSecret::JobSecret(std::string bytes) : bytes_(std::move(bytes)) {
  STRATA_CHECK(bytes_.size() >= kShortest && bytes_.size() <= kLongest, kInvalidArgument,
               "[wire] job secret: got one of ", bytes_.size(), " bytes; expected ", kShortest,
               " to ", kLongest, "; `openssl rand -hex 32` makes a good one");
}

JobSecret JobSecret::random() { return JobSecret(strata::detail::random_hex(kRandomBytes)); }

JobSecret JobSecret::from_file(const std::string& path) {
  // A FIFO must not hold the program up before it is refused.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.open()) {
    const int error = errno;
    const bool absent = error == ENOENT || error == ENOTDIR;
    strata::detail::throw_error(
        absent ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied,
        str_cat("[wire] job secret: got ", path, ": ", system_error_text(error),
                absent ? str_cat("; `(umask 077; openssl rand -hex 32 > ", path, ")` makes one")
                       : std::string()));
  }
  check_file(file.get(), path);
  std::string bytes = read_at_most(file.get(), kLongest + 3, path);
  if (bytes.ends_with('\n')) bytes.pop_back();
  if (bytes.ends_with('\r')) bytes.pop_back();
  return JobSecret(std::move(bytes));
}

}  // namespace strata::wire
