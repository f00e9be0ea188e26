#pragma once

#include <optional>

#include "strata/cluster/resolvers.h"
#include "strata/wire/security.h"

namespace strata::cluster {

/// The job's secret that the environment gives; nullopt: none.
///
/// STRATA_JOB_SECRET_FILE is the path of a file with it (JobSecret::from_file); STRATA_JOB_SECRET
/// is the secret itself, which is what `strata launch` sets. No argument gives one: all users of a
/// host can read those.
/// @throws Error  kInvalidArgument: both are set, or too short. As JobSecret::from_file.
std::optional<wire::JobSecret> job_secret_from_environment(
    const Environment& environment = Environment::of_process());

}  // namespace strata::cluster
