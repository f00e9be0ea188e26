#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "strata/core/export.h"

namespace strata::wire {

/// Files in PEM form. Both sides present a certificate (TLS 1.3): it must be signed by the
/// authority, be valid now, and name its owner's task. `strata certs` makes
/// them.
struct TlsOptions {
  std::string authority_file = {};    ///< the job's own authority
  std::string certificate_file = {};  ///< this task's certificate
  std::string key_file = {};          ///< this task's secret key
};

/// A secret that all tasks of a job share. With it each end of a new connection proves to the other
/// that it belongs to the job, without sending the secret: by an HMAC-SHA-256 over the hello
/// messages of both sides, which contain fresh random bytes. It decides admission. It does not
/// encrypt, and it does not distinguish the tasks of the job; TLS does both.
///
/// It cannot be printed by accident: it has no stream operator, only `reveal`.
class STRATA_API JobSecret {
 public:
  static constexpr size_t kShortest = 16;  ///< bytes
  static constexpr size_t kLongest = 4096;

  /// @param bytes  Any; use random ones (`openssl rand -hex 32`).
  /// @throws Error  kInvalidArgument: fewer than kShortest or more than kLongest.
  explicit JobSecret(std::string bytes);

  /// Makes a new one: 32 random bytes of the kernel's, as 64 hexadecimal digits.
  /// @throws Error  kUnavailable: the kernel has none.
  static JobSecret random();

  /// Reads a file without the end of its last line. A file that others may read or write is no
  /// secret: it must be a regular file of this process's user, mode 0600 or less.
  /// @throws Error  kNotFound, kPermissionDenied (names the chmod or chown that mends it),
  ///     kInvalidArgument: no regular file, or as the constructor.
  static JobSecret from_file(const std::string& path);

  const std::string& reveal() const { return bytes_; }

  friend std::ostream& operator<<(std::ostream&, const JobSecret&) = delete;

 private:
  std::string bytes_;
};

}  // namespace strata::wire
