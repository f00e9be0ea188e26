#include "tools/launch/launch_options.h"

#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "tools/arguments.h"

namespace strata::tools {

const char* const kLaunchHelp = R"(usage: strata launch -n N [options] [--] PROGRAM [ARGUMENTS...]

  Runs PROGRAM as a cluster on this machine: a process for each task, with its TF_CONFIG. What they
  print comes line by line, with the task in front. The first failure ends all; the last lines say
  which task failed, how, and what it printed last, and the exit status is that task's (128 + N for
  signal N). Ctrl-C and SIGTERM are passed on to all tasks. No task stays behind, even if
  the launcher is killed.

  -n, --workers N     how many workers, 1 at least
  --chief             the first of them is a chief
  --ps K              K parameter servers, too
  --evaluator         an evaluator, too (not in the cluster's spec; no task waits for it)
  --env NAME=VALUE    for all tasks; may be given more than once
  --tls               encrypts the cluster: makes certificates for this run alone and hands them
                      over in STRATA_TLS_DIR
  --no-secret         makes no job secret. By default the tasks get a fresh one for this run alone,
                      in STRATA_JOB_SECRET, so that no stranger is let in; one that the environment
                      has, or a file of one (STRATA_JOB_SECRET_FILE), is used instead
  --log-dir DIR       writes what each task prints to DIR/worker-0.log and so on, too
  --restarts N        after a failure starts all tasks again, up to N times. Exit code 42 (preempted
                      after saving) is not counted, unless it comes within a second
  --elastic           --restarts starts the failed task alone again, while the others go on: for
                      programs that rejoin
  --grace SECONDS     from asking tasks to end (SIGTERM) to killing them (default 10)
  --linger SECONDS    how long ps and evaluator may go on after the workers have ended well
                      (default 30)
  --no-pin            lets all workers run on all cores. By default each gets its own share of the
                      cores, if there are as many as workers; ps and evaluator run anywhere.
                      GPUs are shared in the same way (CUDA_VISIBLE_DEVICES), in any case
  --dry-run           prints the commands with their TF_CONFIGs, and runs nothing

  strata launch -n 4 ./train --epochs 10
  strata launch -n 2 --ps 1 --evaluator --log-dir logs -- ./train
)";

std::vector<cluster::TaskId> LaunchOptions::tasks() const {
  std::vector<cluster::TaskId> tasks;
  const auto add = [&](std::string_view job, int count) {
    for (int i = 0; i < count; ++i) tasks.push_back({.job = std::string(job), .index = i});
  };
  add(cluster::kChief, chief ? 1 : 0);
  add(cluster::kWorker, workers - (chief ? 1 : 0));
  add(cluster::kPs, ps);
  add(cluster::kEvaluator, evaluator ? 1 : 0);
  return tasks;
}

LaunchOptions read_launch_options(std::vector<std::string> words) {
  LaunchOptions options;
  Arguments arguments("strata launch", std::move(words));
  while (const auto word = arguments.next()) {
    if (*word == "-n" || *word == "--workers") {
      options.workers = arguments.number(1);
    } else if (*word == "--chief") {
      options.chief = true;
    } else if (*word == "--ps") {
      options.ps = arguments.number(0);
    } else if (*word == "--evaluator") {
      options.evaluator = true;
    } else if (*word == "--env") {
      const std::string pair = arguments.value();
      const size_t equals = pair.find('=');
      STRATA_CHECK(equals != 0 && equals != std::string::npos, kInvalidArgument,
                   "[strata launch] got --env ", pair, "; expected NAME=VALUE");
      options.environment[pair.substr(0, equals)] = pair.substr(equals + 1);
    } else if (*word == "--tls") {
      options.tls = true;
    } else if (*word == "--no-secret") {
      options.secret = false;
    } else if (*word == "--log-dir") {
      options.log_folder = arguments.value();
    } else if (*word == "--restarts") {
      options.supervisor.restarts = arguments.number(0);
    } else if (*word == "--elastic") {
      options.supervisor.elastic = true;
    } else if (*word == "--grace") {
      options.supervisor.grace = arguments.seconds();
    } else if (*word == "--linger") {
      options.supervisor.linger = arguments.seconds();
    } else if (*word == "--no-pin") {
      options.pin = false;
    } else if (*word == "--dry-run") {
      options.dry_run = true;
    } else if (*word == "--help" || *word == "-h") {
      options.help = true;
      return options;
    } else if (*word == "--") {
      options.command = arguments.rest();
    } else if (arguments.is_option()) {
      arguments.refuse_option();
    } else {
      options.command = {*word};
      for (std::string& more : arguments.rest()) options.command.push_back(std::move(more));
    }
  }
  STRATA_CHECK(options.workers > 0, kInvalidArgument,
               "[strata launch] got no number of workers; expected -n N");
  STRATA_CHECK(!options.command.empty(), kInvalidArgument,
               "[strata launch] got no program; expected strata launch -n ", options.workers,
               " -- PROGRAM ARGUMENTS");
  STRATA_CHECK(!options.environment.contains("TF_CONFIG"), kInvalidArgument,
               "[strata launch] got --env TF_CONFIG=...; each task gets its own");
  STRATA_CHECK(
      !options.environment.contains("STRATA_JOB_SECRET"), kInvalidArgument,
      "[strata launch] got --env STRATA_JOB_SECRET=..., and all users of this host can read "
      "arguments; write it to a file of mode 0600 and give --env "
      "STRATA_JOB_SECRET_FILE=FILE");
  STRATA_CHECK(!options.supervisor.elastic || options.supervisor.restarts > 0, kInvalidArgument,
               "[strata launch] got --elastic without --restarts N; expected how often");
  return options;
}

}  // namespace strata::tools
