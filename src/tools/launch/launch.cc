// `strata launch`: a cluster on this machine, from start to end.
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "tools/certs/job_certificates.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/local_cluster.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launch/remote_cluster.h"
#include "tools/launch/run_cluster.h"

namespace strata::tools {
namespace {

// For this run's certificates; empty without --tls. The guard removes it.
std::string certificates_for(const LaunchOptions& options) {
  if (!options.tls) return {};
  std::string folder = (std::filesystem::temp_directory_path() / "strata-tls-XXXXXX").string();
  STRATA_CHECK(::mkdtemp(folder.data()) != nullptr, kPermissionDenied,
               "[strata launch] got --tls, but ", folder, " cannot be made; TMPDIR sets the place");
  return folder;
}

int launch(const LaunchOptions& options) {
  const std::string certificates = certificates_for(options);
  const OrphanReaper guard(certificates);
  if (options.tls) make_job_certificates(certificates, options.tasks(), {.job = "strata launch"});
  return run_cluster(options, guard, certificates).status;
}

int dry_run(const LaunchOptions& options) {
  if (!options.hosts.empty()) {
    for (const SupervisedTask& task : RemoteCluster(options).tasks()) {
      std::cout << "# " << task.name << " on " << task.host << ": "
                << LocalCluster::shell_line(task) << " with this on its input\n"
                << *task.child.input;
    }
    return 0;
  }
  const LocalCluster cluster(options, options.tls ? "DIR_OF_THE_RUN" : "");
  for (const SupervisedTask& task : cluster.tasks()) {
    std::cout << "# " << task.name << '\n' << LocalCluster::shell_line(task) << '\n';
  }
  return 0;
}

}  // namespace

int launch_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::cerr << read_launch_options({"--help"}).help;
    return kUsageError;
  }
  const LaunchOptions options = read_launch_options(words);
  if (!options.help.empty()) {
    std::cout << options.help;
    return 0;
  }
  return options.dry_run ? dry_run(options) : launch(options);
}

}  // namespace strata::tools
