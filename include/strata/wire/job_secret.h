#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "strata/core/export.h"

namespace strata::wire {

/// What all tasks of a job know and a stranger does not. With it each end of a new connection
/// proves to the other that it is of the job, without sending the secret: by an HMAC-SHA-256 over
/// what both have said, fresh random bytes of both sides among it. It decides who is let in. It
/// does not encrypt, and it does not tell one task of the job from another; TLS does both.
///
/// It does not print: no stream takes it, and `reveal` is for who hands it on.
class STRATA_API JobSecret {
 public:
  static constexpr size_t kShortest = 16;  ///< bytes
  static constexpr size_t kLongest = 4096;

  /// @param bytes  Any; ones that nobody can guess (`openssl rand -hex 32`).
  /// @throws Error  kInvalidArgument: fewer than kShortest or more than kLongest.
  explicit JobSecret(std::string bytes);

  /// A fresh one: 32 random bytes of the kernel's, as 64 hexadecimal digits.
  /// @throws Error  kUnavailable: the kernel gives none.
  static JobSecret random();

  /// The content of a file without the end of its last line. A file that others may read or write
  /// is no secret: it must be a regular file of this process's user, mode 0600 or less.
  /// @throws Error  kNotFound, kPermissionDenied (says which chmod or chown mends it),
  ///     kInvalidArgument: no regular file, or as the constructor.
  static JobSecret from_file(const std::string& path);

  const std::string& reveal() const { return bytes_; }

  friend std::ostream& operator<<(std::ostream&, const JobSecret&) = delete;

 private:
  std::string bytes_;
};

}  // namespace strata::wire
