// `strata certs DIR`: a job's own authority, and its tasks' certificates.
#include <ctime>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "tools/certs/job_certificates.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/launch/task_list.h"

namespace strata::tools {
namespace {

CommandHelp certs_help() {
  return {
      .usage = R"(strata certs DIR --tasks JOB=N[,JOB=N...] [options]
       strata certs DIR --tf-config JSON [options]
       strata certs DIR --check)",
      .description =
          R"(Makes an authority of the job's own, and a certificate for each task: what a cluster needs to
encrypt its connections and to admit no stranger.

  DIR/authority.pem                the authority; every task needs it
  DIR/authority.key                signs certificates; keep it, and give it to no task
  DIR/worker-0.pem  worker-0.key   the first worker's, and so on

Copy authority.pem and a task's own two files to its host, and set STRATA_TLS_DIR to their folder
there. What is in DIR is kept: with more --tasks, the new ones get certificates of the same
authority.
)"};
}

struct CertsOptions {
  std::string folder;
  std::vector<cluster::TaskId> tasks;
  JobCertificateOptions make;
  bool check = false;
};

std::vector<cluster::TaskId> tasks_of_tf_config(const std::string& text) {
  cluster::TfConfigOptions options;
  if (text != "-") options.environment = cluster::Environment({{"TF_CONFIG", text}});
  const auto spec = cluster::TfConfigResolver(std::move(options)).cluster_spec();
  STRATA_CHECK(!spec.empty(), kInvalidArgument,
               "[strata certs] got a TF_CONFIG without a cluster; expected its tasks there");
  std::vector<cluster::TaskId> tasks = cluster::members(spec);
  if (spec.has_job(cluster::kEvaluator)) tasks.push_back({std::string(cluster::kEvaluator), 0});
  return tasks;
}

// @return nullopt: the help was asked for, and is printed.
std::optional<CertsOptions> read_options(std::vector<std::string> words) {
  CertsOptions options;
  CommandLine line("strata certs", certs_help());
  line.option("--tasks", "LIST",
              "worker=4,ps=2: how many tasks of each job (chief, worker, ps,\nevaluator, client: "
              "of strata server)",
              [&](const std::string& list) {
                options.tasks = parse_task_list(list, "[strata certs] --tasks");
              });
  line.option("--tf-config", "JSON",
              "the tasks of this TF_CONFIG's cluster instead; - takes the\nenvironment's",
              [&](const std::string& json) { options.tasks = tasks_of_tf_config(json); });
  line.text("--job", "NAME", "a name for the authority (default: strata)", options.make.job);
  int days = 0;
  line.number("--days", "N", "how long they are valid (default: 365)", days, 1);
  line.flag("--force", "makes everything anew, with a new authority: all tasks need the new files",
            options.make.replace);
  line.flag("--check",
            "makes nothing; prints until when each certificate in DIR is valid,\n"
            "and what is wrong with it; exit status 1 if anything is",
            options.check);
  if (!line.read(std::move(words))) {
    std::cout << line.help();
    return std::nullopt;
  }
  if (days > 0) options.make.valid_for = std::chrono::hours(24) * days;
  for (const std::string& word : line.operands()) {
    STRATA_CHECK(options.folder.empty(), kInvalidArgument, "[strata certs] got the folders ",
                 options.folder, " and ", word, "; expected one");
    options.folder = word;
  }
  STRATA_CHECK(!options.folder.empty(), kInvalidArgument,
               "[strata certs] got no folder; expected strata certs DIR");
  STRATA_CHECK(options.check || !options.tasks.empty(), kInvalidArgument,
               "[strata certs] got no tasks; expected --tasks worker=2 or so");
  return options;
}

std::string date_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm fields = {};
  ::gmtime_r(&seconds, &fields);
  std::ostringstream text;
  text << std::put_time(&fields, "%Y-%m-%d %H:%M UTC");
  return text.str();
}

// @return whether all are good.
bool print(const std::string& folder) {
  bool good = true;
  for (const auto& each : check_job_certificates(folder)) {
    std::cout << std::left << std::setw(14) << each.name;
    if (!each.owner.empty()) std::cout << "valid until " << date_text(each.valid_until);
    if (!each.trouble.empty()) std::cout << "  WRONG: " << each.trouble;
    std::cout << '\n';
    good = good && each.trouble.empty();
  }
  return good;
}

}  // namespace

int certs_main(int argc, char** argv) {
  const std::optional<CertsOptions> options = read_options({argv + 1, argv + argc});
  if (!options) return 0;
  if (!options->check) {
    const auto made = make_job_certificates(options->folder, options->tasks, options->make);
    std::cout << "made " << made.size() << ", kept " << options->tasks.size() - made.size()
              << " certificates in " << options->folder << '\n';
  }
  return print(options->folder) ? 0 : 1;
}

}  // namespace strata::tools
