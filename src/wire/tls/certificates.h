#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::wire {

/// A certificate and the secret key that belongs to it, in PEM form.
struct Certificate {
  std::string certificate;
  std::string key;
};

struct CertificateOptions {
  /// The start of its validity; the default allows for clocks that differ.
  std::chrono::system_clock::time_point valid_from =
      std::chrono::system_clock::now() - std::chrono::minutes(10);
  std::chrono::system_clock::duration valid_for = std::chrono::hours(24 * 365);
};

/// The name in a task's certificate: "worker-1.strata" for "/job:worker/task:1".
/// @throws Error kInvalidArgument: no name of a task.
STRATA_API std::string certificate_name(std::string_view task);

/// Makes a job's own authority. Its key signs tasks' certificates and has no other use.
/// @throws Error kUnimplemented: this build has no OpenSSL.
STRATA_API Certificate make_authority(const std::string& job,
                                      const CertificateOptions& options = {});

/// Makes the certificate of one task ("/job:worker/task:1"), for both ends of a connection.
/// @throws Error kInvalidArgument: no name of a task, no authority. kUnimplemented: no OpenSSL.
STRATA_API Certificate issue_certificate(const Certificate& authority, std::string_view task,
                                         const CertificateOptions& options = {});

/// The contents of a certificate.
struct CertificateInfo {
  std::string owner;               ///< "worker-1.strata", "strata authority of job"
  std::vector<std::string> names;  ///< the names it is valid for; empty for an authority
  bool is_authority = false;
  std::chrono::system_clock::time_point valid_from;
  std::chrono::system_clock::time_point valid_until;
};

/// Reads a certificate in PEM form.
/// @throws Error kInvalidArgument: not a certificate. kUnimplemented: this build has no OpenSSL.
STRATA_API CertificateInfo inspect_certificate(const std::string& pem);

/// Verifies `certificate` at `now`: that it is signed by `authority` (PEM, without its key), within
/// its validity, and matches its key. An authority is signed by itself.
/// @return ok, or kUnauthenticated with the reason.
/// @throws Error as inspect_certificate.
STRATA_API Status
verify_certificate(const Certificate& certificate, const std::string& authority,
                   std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// Writes `name`.pem and `name`.key into `folder`; only the owner can read the key.
/// @throws Error as FileSystem::create.
STRATA_API void write_certificate(const Certificate& certificate, const std::string& folder,
                                  const std::string& name);

}  // namespace strata::wire
