// How the words behind `strata launch` become options, by CLI11.
#include "tools/launch/launch_options.h"

#include <chrono>
#include <utility>

#include "strata/core/error.h"
#include "tools/command_line.h"

namespace strata::tools {

namespace {

CommandHelp launch_help() {
  return {
      .usage = "strata launch -n N [options] [--] PROGRAM [ARGUMENTS...]",
      .description =
          R"(Runs PROGRAM as a cluster on this machine: a process for each task, with its TF_CONFIG. What they
print comes line by line, with the task in front. The first failure ends all tasks; the last lines say
which task failed, how, and what it printed last, and the exit status is that task's (128 + N for
signal N). Ctrl-C and SIGTERM are passed on to all tasks. No task outlives the launcher, even if it is
killed.
)",
      .examples = R"(Examples:
  strata launch -n 4 ./train --epochs 10
  strata launch -n 2 --ps 1 --evaluator --log-dir logs -- ./train)"};
}

void add_environment(const std::string& pair, std::map<std::string, std::string>& environment) {
  const size_t equals = pair.find('=');
  STRATA_CHECK(equals != 0 && equals != std::string::npos, kInvalidArgument,
               "[strata launch] got --env ", pair, "; expected NAME=VALUE");
  environment[pair.substr(0, equals)] = pair.substr(equals + 1);
}

std::chrono::milliseconds rounded(std::chrono::duration<double> time) {
  return std::chrono::round<std::chrono::milliseconds>(time);
}

}  // namespace

LaunchOptions read_launch_options(std::vector<std::string> words) {
  LaunchOptions options;
  int gpus_per_task = -1;  // not given
  std::chrono::duration<double> grace = options.supervisor.grace;
  std::chrono::duration<double> linger = options.supervisor.linger;
  CommandLine line("strata launch", launch_help(), Operands::kProgram);
  line.number("-n,--workers", "N", "how many workers, 1 at least", options.workers, 1);
  line.flag("--chief", "the first of them is a chief", options.chief);
  line.number("--ps", "K", "K parameter servers, too", options.ps, 0);
  line.flag("--evaluator", "an evaluator, too (not in the cluster's spec; no task waits for it)",
            options.evaluator);
  line.option("--env", "NAME=VALUE", "for all tasks; may be given more than once",
              [&](const std::string& pair) { add_environment(pair, options.environment); });
  line.flag("--tls",
            "encrypts the cluster: makes certificates for this run alone and hands\n"
            "them over in STRATA_TLS_DIR",
            options.tls);
  line.flag("--no-secret",
            "makes no job secret. By default the tasks get a fresh one for this run\n"
            "alone, in STRATA_JOB_SECRET, so that no stranger is admitted; one that\n"
            "the environment has, or a file of one (STRATA_JOB_SECRET_FILE), is used\n"
            "instead",
            options.secret, false);
  line.text("--log-dir", "DIR", "writes what each task prints to DIR/worker-0.log and so on, too",
            options.log_folder);
  line.number("--restarts", "N",
              "after a failure starts all tasks again, up to N times. Exit code 42\n"
              "(preempted after saving) is not counted, unless it comes within a\n"
              "second",
              options.supervisor.restarts, 0);
  line.flag("--elastic",
            "--restarts starts the failed task alone again, while the others go on:\n"
            "for programs that rejoin",
            options.supervisor.elastic);
  line.seconds("--grace", "SECONDS",
               "from asking tasks to end (SIGTERM) to killing them (default 10)", grace);
  line.seconds("--linger", "SECONDS",
               "how long ps and evaluator may go on after the workers have ended well\n"
               "(default 30)",
               linger);
  line.flag("--no-pin",
            "lets all workers run on all cores. By default each gets its own share\n"
            "of the cores, if there are as many as workers, and those near its GPUs if\n"
            "it has some; ps and evaluator run anywhere",
            options.pin, false);
  line.number("--gpus-per-task", "N",
              "each worker sees N of the GPUs (CUDA_VISIBLE_DEVICES), and no other worker\n"
              "sees them; 0: none. By default they are shared equally, if there are as\n"
              "many as workers",
              gpus_per_task, 0);
  line.flag("--share-gpus",
            "several workers may use one GPU, which is an error otherwise: where there\n"
            "are fewer than the workers need, they take them in turn",
            options.gpus.shared);
  line.flag("--dry-run", "prints the commands with their TF_CONFIGs, and runs nothing",
            options.dry_run);
  if (!line.read(std::move(words))) {
    options.help = line.help();
    return options;
  }
  options.command = line.operands();
  if (gpus_per_task >= 0) options.gpus.per_task = gpus_per_task;
  options.supervisor.grace = rounded(grace);
  options.supervisor.linger = rounded(linger);
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
  STRATA_CHECK(!options.environment.contains("CUDA_VISIBLE_DEVICES") ||
                   (!options.gpus.per_task && !options.gpus.shared),
               kInvalidArgument,
               "[strata launch] got --env CUDA_VISIBLE_DEVICES=..., which is for all tasks, and ",
               options.gpus.per_task ? "--gpus-per-task" : "--share-gpus",
               ", which gives each its own; set the variable in front of strata launch for the "
               "GPUs that tasks share");
  STRATA_CHECK(!options.supervisor.elastic || options.supervisor.restarts > 0, kInvalidArgument,
               "[strata launch] got --elastic without --restarts N; expected how often");
  return options;
}

}  // namespace strata::tools
