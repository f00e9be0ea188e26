#pragma once

#include <optional>
#include <string>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/resolvers.h"
#include "strata/core/export.h"
#include "strata/wire/security.h"

namespace strata::cluster {

/// What a task's files are called in a folder of certificates: "worker-1", with ".pem" and ".key".
STRATA_API std::string certificate_file_name(const TaskId& task);

/// The certificates that the environment gives to `task`; nullopt: none, and no TLS.
///
/// STRATA_TLS_DIR is a folder as `strata certs` makes it: `authority.pem`, and `worker-1.pem` with
/// `worker-1.key` for "/job:worker/task:1". Instead, where files have other names:
/// STRATA_TLS_AUTHORITY, STRATA_TLS_CERTIFICATE and STRATA_TLS_KEY, the paths of this task's three.
/// @throws Error  kInvalidArgument: some of the three variables only, or those and the folder.
///     kNotFound: a file does not exist; says which variable names it.
STRATA_API std::optional<wire::TlsOptions> tls_from_environment(
    const TaskId& task, const Environment& environment = Environment::of_process());

}  // namespace strata::cluster
