// How the words behind `strata render` become options, by CLI11.
#include <algorithm>
#include <utility>

#include "strata/core/error.h"
#include "tools/command_line.h"
#include "tools/render/render.h"

namespace strata::tools {
namespace {

CommandHelp render_help() {
  return {
      .usage = "strata render slurm|kubernetes|compose -n N [options] [--] PROGRAM [ARGUMENTS...]",
      .description =
          R"(Writes what starts PROGRAM as a cluster elsewhere: a script for sbatch, manifests for kubectl, a file
for docker compose. Each task gets its TF_CONFIG. Options have other systems' names, too: --worker_replicas.
)",
      .examples = R"(Examples:
  strata render slurm -n 4 --gpus-per-task 1 --time 4:00:00 -- ./train --epochs 10 | sbatch
  strata render kubernetes -n 4 --ps 2 --image registry.example/train --train-dir /data --storage 100Gi -- /train /data
  strata render slurm --print-template > job.sh; strata render slurm -n 4 --template job.sh -- ./train)"};
}

void add_pair(const std::string& option, const std::string& pair,
              const std::function<void(const std::string&, const std::string&)>& take) {
  const size_t equals = pair.find('=');
  STRATA_CHECK(equals != 0 && equals != std::string::npos, kInvalidArgument, "[strata render] got ",
               option, " ", pair, "; expected NAME=VALUE");
  take(pair.substr(0, equals), pair.substr(equals + 1));
}

void check_variable(const std::string& name) {
  constexpr std::string_view kLetters =
      "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  STRATA_CHECK((name.front() < '0' || name.front() > '9') &&
                   name.find_first_not_of(kLetters) == std::string::npos,
               kInvalidArgument, "[strata render] got --env ", name,
               "=...; expected a name of letters, digits and _");
}

}  // namespace

RenderCommand read_render_options(std::vector<std::string> words) {
  RenderCommand command;
  RenderOptions& options = command.options;
  CommandLine line("strata render", render_help(), Operands::kProgram);
  line.number("-n,--workers,--worker_replicas", "N", "how many workers, 1 at least",
              options.workers, 1);
  line.flag("--chief", "the first of them is a chief", options.chief);
  line.number("--ps,--ps_replicas", "K", "K parameter servers, too", options.ps, 0);
  line.flag("--evaluator,--has_eval", "an evaluator, too", options.evaluator);
  line.text("--name", "NAME", "the job's name (default train)", options.name);
  line.text("--image", "IMAGE", "the container's image (kubernetes, compose)", options.image);
  line.text("--script", "PROGRAM",
            "the program, if none is at the end; its argument is --train-dir then", options.script);
  line.text("--train-dir,--train_dir", "DIR",
            "the folder of checkpoints and logs; storage is mounted there", options.train_dir);
  line.number("--port", "P", "where tasks listen (default 8888; slurm: and above it)", options.port,
              1);
  line.number("--gpus-per-task,--num_gpus_per_worker", "N",
              "GPUs of each worker, chief and evaluator (default 0)", options.gpus_per_task, 0);
  line.number("--cpus-per-task", "N", "cores of each task", options.cpus_per_task, 1);
  line.text("--memory", "SIZE",
            "memory of each task (slurm: of each node), in the system's words: 16Gi, 16G",
            options.memory);
  line.option("--env", "NAME=VALUE", "for all tasks; may be given more than once",
              [&](const std::string& pair) {
                add_pair("--env", pair, [&](const std::string& name, const std::string& value) {
                  check_variable(name);
                  options.environment[name] = value;
                });
              });
  line.number("--restarts", "N",
              "how often a failure is followed by another start (default 3). Exit code\n"
              "42 (preempted after saving) is not counted, but by compose",
              options.restarts, 0);
  line.number("--grace", "SECONDS", "from the signal to the end, to save in (default 120)",
              options.grace_seconds, 1);
  line.text("--tls", "NAME",
            "certificates of `strata certs`: their folder (slurm, compose), or a\n"
            "Secret of them (kubernetes)",
            options.tls);
  line.text("--secret", "NAME",
            "kubernetes: a Secret whose key job-secret is the job's secret. By default\n"
            "one with a fresh secret is in the file",
            options.secret);
  line.text("--claim", "NAME", "kubernetes: a volume claim to mount at --train-dir", options.claim);
  line.text("--storage", "SIZE", "kubernetes: makes such a claim, of 100Gi or so", options.storage);
  line.flag("--tensorboard,--has_tensorboard", "a TensorBoard of --train-dir (not slurm)",
            options.tensorboard);
  line.number("--tasks-per-node", "N", "slurm: tasks of each node (default 1)",
              options.tasks_per_node, 1);
  line.text("--time", "TIME", "slurm: the job's limit, 4:00:00", options.time);
  line.text("--partition", "NAME", "slurm: where it is queued", options.partition);
  line.option("--set", "NAME=VALUE",
              "a parameter by its name in TensorFlow's templates (worker_replicas=4,\n"
              "has_tensorboard=True), or a placeholder of the template's own",
              [&](const std::string& pair) {
                add_pair("--set", pair, [&](const std::string& name, const std::string& value) {
                  set_parameter(options, name, value);
                });
              });
  line.text("--template", "FILE", "fills this template instead of the command's own",
            command.template_file);
  line.flag("--print-template", "prints the command's own template, to keep and edit",
            command.print_template);
  line.text("-o,--output", "FILE", "writes to FILE, for the owner alone to read", command.output);
  const bool has_target = !words.empty() && !words.front().starts_with('-');
  const std::string target = has_target ? words.front() : "";
  if (has_target) words.erase(words.begin());
  if (!line.read(std::move(words))) {
    command.help = line.help();
    return command;
  }
  const auto known = render_target(target);
  STRATA_CHECK(known.has_value(), kInvalidArgument, "[strata render] got ",
               target.empty() ? std::string("no system") : target,
               "; expected slurm, kubernetes or compose first");
  options.target = *known;
  options.command = line.operands();
  return command;
}

}  // namespace strata::tools
