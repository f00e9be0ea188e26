#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"

namespace strata::tools {

struct JobCertificateOptions {
  std::string job = "strata";  ///< for the authority's name
  std::chrono::hours valid_for = std::chrono::hours(24 * 365);
  bool replace = false;  ///< make all anew instead of keeping what is there
};

/// Makes sure that `folder` has an authority (`authority.pem`, `authority.key`) and for each task a
/// certificate that it has signed (`worker-1.pem`, `worker-1.key`). Keys are the owner's alone to
/// read. What is there is kept, so that tasks can be added later.
/// @return the tasks that got a new certificate.
/// @throws Error  kFailedPrecondition: one file of a pair is missing, or the authority, kept, can
///     sign no more. kUnimplemented: this build has no OpenSSL. As FileSystem.
std::vector<cluster::TaskId> make_job_certificates(const std::string& folder,
                                                   const std::vector<cluster::TaskId>& tasks,
                                                   const JobCertificateOptions& options = {});

/// One certificate of a folder, looked at.
struct CheckedCertificate {
  std::string name = {};   ///< "worker-1", "authority"
  std::string owner = {};  ///< "worker-1.strata"
  std::chrono::system_clock::time_point valid_until = {};
  std::string trouble = {};  ///< empty: it is good
};

/// All certificates of `folder`, the authority first: readable, in their time, signed by the
/// authority, for the task in the file's name, with their keys, which only the owner can read.
/// @throws Error  kNotFound: there is no authority.pem. As FileSystem.
std::vector<CheckedCertificate> check_job_certificates(
    const std::string& folder,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace strata::tools
