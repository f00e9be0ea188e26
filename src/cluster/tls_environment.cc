#include "strata/cluster/tls_environment.h"

#include <array>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::cluster {
namespace {

constexpr const char* kFolder = "STRATA_TLS_DIR";
constexpr std::array kFiles = {"STRATA_TLS_AUTHORITY", "STRATA_TLS_CERTIFICATE", "STRATA_TLS_KEY"};

void check_there(const std::string& file, const char* variable, const std::string& hint) {
  STRATA_CHECK(local_file_system().info(file).has_value(), kNotFound, "[cluster] ", variable,
               ": got ", file, ", which does not exist; ", hint);
}

}  // namespace

std::string certificate_file_name(const TaskId& task) { return str_cat(task.job, "-", task.index); }

std::optional<wire::TlsOptions> tls_from_environment(const TaskId& task,
                                                     const Environment& environment) {
  const auto folder = environment.get(kFolder);
  std::array<std::string, 3> files;
  std::string given, missing;
  for (size_t i = 0; i < files.size(); ++i) {
    const auto file = environment.get(kFiles[i]);
    files[i] = file.value_or("");
    std::string& list = file ? given : missing;
    list += str_cat(list.empty() ? "" : ", ", kFiles[i]);
  }
  STRATA_CHECK(!folder || given.empty(), kInvalidArgument, "[cluster] TLS: got ", kFolder, " and ",
               given, "; set the folder, or the three files");
  STRATA_CHECK(given.empty() || missing.empty(), kInvalidArgument, "[cluster] TLS: got ", given,
               " without ", missing, "; set all three");
  if (folder) {
    const std::string own = join_path(*folder, certificate_file_name(task));
    files = {join_path(*folder, "authority.pem"), own + ".pem", own + ".key"};
    for (const std::string& file : files) {
      check_there(file, kFolder,
                  str_cat("`strata certs ", *folder, " --tasks ...` makes the job's files"));
    }
  } else {
    if (given.empty()) return std::nullopt;
    for (size_t i = 0; i < files.size(); ++i)
      check_there(files[i], kFiles[i], "set it to the file");
  }
  return wire::TlsOptions{
      .authority_file = files[0], .certificate_file = files[1], .key_file = files[2]};
}

}  // namespace strata::cluster
