#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata::wire {

/// A certificate and the secret key that belongs to it, in PEM form.
struct Certificate {
  std::string certificate;
  std::string key;
};

struct CertificateOptions {
  /// From when on; the default allows for clocks that differ.
  std::chrono::system_clock::time_point valid_from =
      std::chrono::system_clock::now() - std::chrono::minutes(10);
  std::chrono::system_clock::duration valid_for = std::chrono::hours(24 * 365);
};

/// What a task's certificate says it is: "worker-1.strata" for "/job:worker/task:1".
/// @throws Error kInvalidArgument: no name of a task.
STRATA_API std::string certificate_name(std::string_view task);

/// A job's own authority. Its key signs tasks' certificates and is needed for nothing else.
/// @throws Error kUnimplemented: this build has no OpenSSL.
STRATA_API Certificate make_authority(const std::string& job,
                                      const CertificateOptions& options = {});

/// The certificate of one task ("/job:worker/task:1"), for both ends of a connection.
/// @throws Error kInvalidArgument: no name of a task, no authority. kUnimplemented: no OpenSSL.
STRATA_API Certificate issue_certificate(const Certificate& authority, std::string_view task,
                                         const CertificateOptions& options = {});

/// Writes `name`.pem and `name`.key into `folder`; only the owner can read the key.
/// @throws Error as FileSystem::create.
STRATA_API void write_certificate(const Certificate& certificate, const std::string& folder,
                                  const std::string& name);

}  // namespace strata::wire
