#include "cluster/job_secret_environment.h"

#include "strata/core/error.h"

namespace strata::cluster {
namespace {

constexpr const char* kSecret = "STRATA_JOB_SECRET";
constexpr const char* kFile = "STRATA_JOB_SECRET_FILE";

}  // namespace

std::optional<wire::JobSecret> job_secret_from_environment(const Environment& environment) {
  auto secret = environment.get(kSecret);
  const auto file = environment.get(kFile);
  STRATA_CHECK(!secret || !file, kInvalidArgument, "[cluster] job secret: got ", kSecret, " and ",
               kFile, "; set one of them");
  const char* const variable = secret ? kSecret : kFile;
  try {
    if (secret) return wire::JobSecret(std::move(*secret));
    if (file) return wire::JobSecret::from_file(*file);
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[cluster] ", variable, ": ", error.what()));
  }
  return std::nullopt;
}

}  // namespace strata::cluster
