#include "tools/certs/job_certificates.h"

#include <sys/stat.h>

#include <algorithm>

#include "strata/cluster/tls_environment.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "wire/tls/certificates.h"

namespace strata::tools {
namespace {

constexpr const char* kAuthority = "authority";

bool is_there(const std::string& path) { return local_file_system().info(path).has_value(); }

// Whether the pair of files is there: both or none.
bool has_pair(const std::string& folder, const std::string& name) {
  const std::string path = join_path(folder, name);
  const bool certificate = is_there(path + ".pem");
  const bool key = is_there(path + ".key");
  STRATA_CHECK(certificate == key, kFailedPrecondition, "[strata certs] got ", path,
               certificate ? ".pem without " : ".key without ", name, certificate ? ".key" : ".pem",
               "; --force makes all anew");
  return certificate;
}

wire::Certificate read_pair(const std::string& folder, const std::string& name) {
  const std::string path = join_path(folder, name);
  return {.certificate = read_file(path + ".pem"), .key = read_file(path + ".key")};
}

std::string key_trouble(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "";  // removed after it was listed
  const bool open_to_others = (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  return open_to_others ? str_cat("others can read its key; chmod 600 ", path) : "";
}

std::string trouble_with(const std::string& folder, const std::string& name,
                         const std::string& authority, const wire::CertificateInfo& info,
                         std::chrono::system_clock::time_point now) {
  const bool leads = name == kAuthority;
  const std::string key_file = join_path(folder, name + ".key");
  if (leads != info.is_authority) return leads ? "it is no authority" : "it is an authority's";
  // A task's host has no use for the authority's key.
  const bool has_key = is_there(key_file);
  if (!has_key && !leads) return str_cat(name, ".key is missing");
  if (has_key) {
    const Status verdict = wire::verify_certificate(read_pair(folder, name), authority, now);
    if (!verdict.ok()) return verdict.message();
  } else if (now < info.valid_from || now > info.valid_until) {
    return "certificate has expired, or is not yet valid";
  }
  if (!leads && std::ranges::count(info.names, name + ".strata") == 0) {
    return str_cat("it is of ", info.owner, ", not of ", name, ".strata");
  }
  return has_key ? key_trouble(key_file) : "";
}

}  // namespace

std::vector<cluster::TaskId> make_job_certificates(const std::string& folder,
                                                   const std::vector<cluster::TaskId>& tasks,
                                                   const JobCertificateOptions& options) {
  const wire::CertificateOptions validity = {.valid_for = options.valid_for};
  wire::Certificate authority;
  if (!options.replace && has_pair(folder, kAuthority)) {
    authority = read_pair(folder, kAuthority);
    const Status verdict = wire::verify_certificate(authority, authority.certificate);
    STRATA_CHECK(verdict.ok(), kFailedPrecondition, "[strata certs] got an authority in ", folder,
                 " that can sign no more: ", verdict.message(), "; --force makes all anew");
  } else {
    STRATA_CHECK(options.replace || !is_there(folder) ||
                     std::ranges::none_of(tasks,
                                          [&](const auto& task) {
                                            return has_pair(folder,
                                                            cluster::certificate_file_name(task));
                                          }),
                 kFailedPrecondition, "[strata certs] got certificates in ", folder,
                 " without their authority.pem and authority.key; --force makes all anew");
    authority = wire::make_authority(options.job, validity);
    wire::write_certificate(authority, folder, kAuthority);
  }
  std::vector<cluster::TaskId> made;
  for (const cluster::TaskId& task : tasks) {
    const std::string name = cluster::certificate_file_name(task);
    if (!options.replace && has_pair(folder, name)) continue;
    wire::write_certificate(wire::issue_certificate(authority, task.to_string(), validity), folder,
                            name);
    made.push_back(task);
  }
  return made;
}

std::vector<CheckedCertificate> check_job_certificates(const std::string& folder,
                                                       std::chrono::system_clock::time_point now) {
  const std::string authority_file = join_path(folder, "authority.pem");
  STRATA_CHECK(is_there(authority_file), kNotFound, "[strata certs] got ", folder,
               ", which has no authority.pem; `strata certs ", folder, " --tasks ...` makes one");
  const std::string authority = read_file(authority_file);
  std::vector<CheckedCertificate> checked;
  for (const std::string& file : local_file_system().list(folder)) {
    if (!file.ends_with(".pem")) continue;
    CheckedCertificate each = {.name = file.substr(0, file.size() - 4)};
    try {
      const auto info = wire::inspect_certificate(read_file(join_path(folder, file)));
      each.owner = info.owner;
      each.valid_until = info.valid_until;
      each.trouble = trouble_with(folder, each.name, authority, info, now);
    } catch (const Error& error) {
      each.trouble = error.what();
    }
    checked.push_back(std::move(each));
  }
  std::stable_partition(checked.begin(), checked.end(),
                        [](const auto& each) { return each.name == kAuthority; });
  return checked;
}

}  // namespace strata::tools
