// How the words behind `strata launch` become options, by CLI11.
#include "tools/launch/launch_options.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "strata/core/error.h"
#include "tools/command_line.h"

namespace strata::tools {

namespace {

CommandHelp launch_help() {
  return {
      .usage = "strata launch -n N | --hosts HOSTS [options] [--] PROGRAM [ARGUMENTS...]",
      .description =
          R"(Runs PROGRAM as a cluster on this machine, or on others over ssh: a process for each task, with its
TF_CONFIG. What they print comes line by line, with the task in front. The first failure ends all tasks; the last lines say
which task failed, how, and what it printed last, and the exit status is that task's (128 + N for
signal N). Ctrl-C and SIGTERM are passed on to all tasks. No task outlives the launcher, even if it is
killed.
)",
      .examples = R"(Examples:
  strata launch -n 4 ./train --epochs 10
  strata launch -n 2 --ps 1 --evaluator --log-dir logs -- ./train
  strata launch --hosts h1:2,h2:2 ./train)"};
}

void add_environment(const std::string& pair, std::map<std::string, std::string>& environment) {
  const size_t equals = pair.find('=');
  const char* const own = equals == std::string::npos ? std::getenv(pair.c_str())
                                                      : nullptr;  // NOLINT(concurrency-mt-unsafe)
  STRATA_CHECK(equals != 0 && (equals != std::string::npos || own != nullptr), kInvalidArgument,
               "[strata launch] got --env ", pair,
               "; expected NAME=VALUE, or the NAME of a variable that is set");
  environment[pair.substr(0, equals)] = own != nullptr ? own : pair.substr(equals + 1);
}

void set_hosts(LaunchOptions& options, std::vector<Host> hosts, const char* option) {
  STRATA_CHECK(options.hosts.empty(), kInvalidArgument, "[strata launch] got ", option,
               ", and hosts before it; expected one of --hosts and --hostfile");
  options.hosts = std::move(hosts);
}

// What only one of the two kinds of launch has.
void check_hosts(LaunchOptions& options, bool remote_option) {
  if (options.hosts.empty()) {
    STRATA_CHECK(!remote_option, kInvalidArgument,
                 "[strata launch] got an option for other hosts without hosts; expected --hosts "
                 "with --ssh, --directory, --port and --host-timeout");
    return;
  }
  STRATA_CHECK(options.supervisor.host_timeout >= std::chrono::seconds(1), kInvalidArgument,
               "[strata launch] got --host-timeout below 1; expected seconds, 1 or more");
  int slots = 0;
  for (const Host& host : options.hosts) slots += host.slots;
  STRATA_CHECK(options.workers <= slots, kInvalidArgument, "[strata launch] got -n ",
               options.workers, ", and hosts with room for ", slots,
               " workers; expected fewer, or more room: --hosts h1:4");
  if (options.workers == 0) options.workers = slots;
  STRATA_CHECK(options.pin, kInvalidArgument,
               "[strata launch] got --no-pin with --hosts; programs on other hosts share the cores "
               "by themselves: leave it out");
  STRATA_CHECK(!options.gpus.shared || !options.gpus.per_task, kInvalidArgument,
               "[strata launch] got --share-gpus and --gpus-per-task with --hosts, whose GPUs are "
               "not known here; expected one of them");
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
  std::string ssh;
  std::chrono::duration<double> host_timeout = options.supervisor.host_timeout;
  line.option("--hosts", "h1:2,h2:2",
              "on these hosts over ssh, with so many workers each (1 if left out).\n"
              "me@h1 logs in as me; h1=10.0.0.3:2 is h1 to ssh and 10.0.0.3 to the\n"
              "other tasks. -n takes fewer workers than there is room for",
              [&](const std::string& list) { set_hosts(options, parse_hosts(list), "--hosts"); });
  line.option(
      "--hostfile", "FILE", "the same from a file, a host a line: h1:2, or h1 slots=2",
      [&](const std::string& path) { set_hosts(options, read_host_file(path), "--hostfile"); });
  line.text("--ssh", "WORDS", "how to reach the hosts (default ssh): \"ssh -p 2222 -i KEY\"", ssh);
  line.text("--directory", "DIR",
            "where programs start on the hosts. By default this directory, and\n"
            "the home folder where it does not exist",
            options.remote.directory);
  line.number("--port", "P",
              "the tasks of a host listen at P, P+1 and so on. By default P is drawn\n"
              "from 20000 to 31000",
              options.remote.port, 1);
  line.seconds("--host-timeout", "SECONDS",
               "how long a host may take to be reached, and how long one that hears\n"
               "nothing from here continues before it ends its tasks (default 20)",
               host_timeout);
  line.flag("--chief", "the first of them is a chief", options.chief);
  line.number("--ps", "K", "K parameter servers, too", options.ps, 0);
  line.flag("--evaluator", "an evaluator, too (not in the cluster's spec; no task waits for it)",
            options.evaluator);
  line.option("--env", "NAME[=VALUE]",
              "for all tasks; may be given more than once. NAME alone has this\n"
              "process's value: its variables do not reach other hosts by themselves, but\n"
              "for those that begin with STRATA_",
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
  const bool remote_option = !ssh.empty() || !options.remote.directory.empty() ||
                             options.remote.port != 0 ||
                             rounded(host_timeout) != options.supervisor.host_timeout;
  options.supervisor.host_timeout = rounded(host_timeout);
  if (!ssh.empty()) options.remote.ssh = ssh;
  check_hosts(options, remote_option);
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
