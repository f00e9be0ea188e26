#include "tools/render/render.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/tf_config.h"
#include "tools/render/template.h"

namespace strata::tools {
namespace {

using cluster::ClusterSpec;
using cluster::TaskId;
using Words = std::vector<std::string>;
using Scopes = std::vector<TemplateScope>;

constexpr const char* kTensorBoardImage = "tensorflow/tensorflow";
constexpr int kHighestPort = 65'535;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "[strata render] got " + what);
}

int number(const std::string& name, const std::string& text) {
  int value = 0;
  const char* const last = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || stopped != last || value < 0) {
    refuse(str_cat(name, "=", text, "; expected a number from 0 up"));
  }
  return value;
}

bool yes(const std::string& name, const std::string& text) {
  for (const char* word : {"True", "true", "yes", "1"}) {
    if (text == word) return true;
  }
  for (const char* word : {"False", "false", "no", "0"}) {
    if (text == word) return false;
  }
  refuse(str_cat(name, "=", text, "; expected True or False"));
}

Words split_at_spaces(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// A label of DNS: an object of Kubernetes, a service of Compose.
void check_name(const std::string& name) {
  constexpr size_t kLongest = 40;  // "-tensorboard" and an index follow, and 63 are the most
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, fits) ||
      name.front() == '-' || name.back() == '-' || (name.front() >= '0' && name.front() <= '9')) {
    refuse(str_cat("--name ", name, "; expected small letters, digits and -, ", kLongest,
                   " at most, a letter first"));
  }
}

void check(const RenderOptions& options) {
  const bool slurm = options.target == RenderTarget::kSlurm;
  check_name(options.name);
  if (options.workers < 1) refuse("no number of workers; expected -n N");
  if (options.command.empty() && options.script.empty()) {
    refuse("no program; expected -- PROGRAM ARGUMENTS at the end, or --script PROGRAM");
  }
  if (!slurm && options.image.empty()) refuse("no image; expected --image NAME");
  if (options.port < 1 || options.port > kHighestPort - options.tasks_per_node) {
    refuse(str_cat("--port ", options.port, "; expected a number from 1 to ", kHighestPort));
  }
  if (!options.claim.empty() && !options.storage.empty()) {
    refuse("--claim and --storage; expected one of them");
  }
  const bool mounted = !options.claim.empty() || !options.storage.empty();
  if (mounted && !options.train_dir.starts_with('/')) {
    refuse("storage, but no folder to mount it at; expected --train-dir /PATH");
  }
  if (options.tensorboard && options.train_dir.empty()) {
    refuse("--tensorboard, but no folder for it; expected --train-dir DIR");
  }
  if (options.tensorboard && slurm) {
    refuse(
        "--tensorboard for slurm, where no task serves it; run tensorboard --logdir on the "
        "training folder");
  }
  if (options.grace_seconds < 1) refuse("--grace 0; expected seconds to save in, 1 or more");
  for (const auto& [name, value] : options.environment) {
    const bool own = name == "TF_CONFIG" || name == "TASK_INDEX" || name == "STRATA_JOB_SECRET";
    if (own) refuse(str_cat("--env ", name, "=..., which is each task's own"));
  }
}

// A '$' of the user's own, where the system replaces variables: doubled.
std::string with_dollars(const std::string& text, RenderTarget target) {
  if (target == RenderTarget::kSlurm) return text;
  std::string result;
  for (const char c : text) result += c == '$' ? std::string("$$") : std::string(1, c);
  return result;
}

Words with_dollars(Words words, RenderTarget target) {
  for (std::string& word : words) word = with_dollars(word, target);
  return words;
}

bool serves(const TaskId& task) { return task.job == cluster::kPs; }

ClusterSpec spec_of(const RenderOptions& options) {
  std::map<std::string, Words> jobs;
  for (const TaskId& task : options.tasks()) {
    if (task.job == cluster::kEvaluator) continue;  // no task waits for it
    const std::string host = str_cat(task.job, "-", task.index);
    jobs[task.job].push_back(
        options.target == RenderTarget::kKubernetes
            ? str_cat(options.name, "-", host, ".", options.name, ":", options.port)
            : str_cat(host, ":", options.port));
  }
  return ClusterSpec(jobs);
}

std::string task_list(const std::vector<TaskId>& tasks) {
  std::string list;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (i + 1 < tasks.size() && tasks[i + 1].job == tasks[i].job) continue;
    list += str_cat(list.empty() ? "" : ",", tasks[i].job, "=", tasks[i].index + 1);
  }
  return list;
}

// An indexed Job for each job of the cluster. Kubernetes puts the pod's index into its TF_CONFIG.
Scopes kubernetes_jobs(const RenderOptions& options) {
  const ClusterSpec spec = spec_of(options);
  const std::vector<TaskId> tasks = options.tasks();
  Scopes jobs;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (i + 1 < tasks.size() && tasks[i + 1].job == tasks[i].job) continue;  // its last one
    const int count = tasks[i].index + 1;
    std::string config = tf_config(spec, {.job = tasks[i].job, .index = 0});
    constexpr std::string_view kIndex = "\"index\":0";
    config.replace(config.find(kIndex), kIndex.size(), "\"index\":$(TASK_INDEX)");
    const int gpus = serves(tasks[i]) ? 0 : options.gpus_per_task;
    const bool limits = gpus > 0 || options.cpus_per_task > 0 || !options.memory.empty();
    jobs.push_back({{{"job", tasks[i].job},
                     {"object", str_cat(options.name, "-", tasks[i].job)},
                     {"count", std::to_string(count)},
                     {"backoff_limit", std::to_string(options.restarts * count)},
                     {"tf_config", config},
                     {"gpus", std::to_string(gpus)},
                     {"resources", limits ? "yes" : ""}}});
  }
  return jobs;
}

Scopes compose_tasks(const RenderOptions& options) {
  const ClusterSpec spec = spec_of(options);
  Scopes tasks;
  int next_gpu = 0;
  for (const TaskId& task : options.tasks()) {
    Words gpus;
    const int count = serves(task) ? 0 : options.gpus_per_task;
    for (int i = 0; i < count; ++i) gpus.push_back(std::to_string(next_gpu++));
    tasks.push_back({{{"job", task.job},
                      {"task", str_cat(task.job, "-", task.index)},
                      {"tf_config", with_dollars(tf_config(spec, task), options.target)},
                      {"gpus", gpus}}});
  }
  return tasks;
}

void add_slurm(const RenderOptions& options, std::map<std::string, TemplateValue>& values) {
  const std::vector<TaskId> tasks = options.tasks();
  const int each = options.tasks_per_node;
  const int total = static_cast<int>(tasks.size());
  Words jobs, indices;
  std::string gpus;
  int on_node = 0, most = 0;
  for (int rank = 0; rank < total; ++rank) {
    const TaskId& task = tasks[static_cast<size_t>(rank)];
    if (rank % each == 0) on_node = 0;
    jobs.push_back(task.job);
    indices.push_back(std::to_string(task.index));
    const bool has = !serves(task) && options.gpus_per_task > 0;
    // Plain text: the words are taken apart again in the script.
    gpus += str_cat(rank > 0 ? "," : "", has ? std::to_string(on_node) : "none");
    if (has) on_node += options.gpus_per_task;
    most = std::max(most, on_node);
  }
  values["tasks"] = std::to_string(total);
  values["tasks_per_node"] = std::to_string(std::min(each, total));
  values["nodes"] = std::to_string((total + each - 1) / each);
  values["jobs_of_ranks"] = jobs;
  values["indices_of_ranks"] = indices;
  values["gpus_of_ranks"] = gpus;
  values["gpus_per_node"] = std::to_string(most);
  values["time"] = options.time;
  values["partition"] = options.partition;
}

}  // namespace

std::optional<RenderTarget> render_target(std::string_view name) {
  if (name == "slurm") return RenderTarget::kSlurm;
  if (name == "kubernetes") return RenderTarget::kKubernetes;
  if (name == "compose") return RenderTarget::kCompose;
  return std::nullopt;
}

std::vector<TaskId> RenderOptions::tasks() const {
  LaunchOptions job;
  job.workers = workers;
  job.chief = chief;
  job.ps = ps;
  job.evaluator = evaluator;
  return job.tasks();
}

void set_parameter(RenderOptions& options, const std::string& name, const std::string& value) {
  if (name == "worker_replicas") {
    options.workers = number(name, value);
  } else if (name == "ps_replicas") {
    options.ps = number(name, value);
  } else if (name == "num_gpus_per_worker") {
    options.gpus_per_task = number(name, value);
  } else if (name == "has_eval") {
    options.evaluator = yes(name, value);
  } else if (name == "has_tensorboard") {
    options.tensorboard = yes(name, value);
  } else if (name == "port") {
    options.port = number(name, value);
  } else if (name == "name") {
    options.name = value;
  } else if (name == "image") {
    options.image = value;
  } else if (name == "script") {
    options.script = value;
  } else if (name == "train_dir") {
    options.train_dir = value;
  } else {  // cmdline_args among them, which is read where the script is
    options.more[name] = value;
  }
}

std::string render(const RenderOptions& options, std::string_view text) {
  check(options);
  const bool slurm = options.target == RenderTarget::kSlurm;
  const bool kubernetes = options.target == RenderTarget::kKubernetes;
  Words command = options.command;
  std::map<std::string, std::string> more = options.more;
  if (command.empty()) {
    command = {options.script};
    const auto arguments = more.extract("cmdline_args");
    const Words words = arguments.empty() ? Words{} : split_at_spaces(arguments.mapped());
    command.insert(command.end(), words.begin(), words.end());
    if (arguments.empty() && !options.train_dir.empty()) command.push_back(options.train_dir);
  }
  const RenderTarget target = options.target;
  Scopes environment;
  for (const auto& [name, value] : options.environment) {
    environment.push_back({{{"variable", name}, {"value", with_dollars(value, target)}}});
  }
  const bool compose = target == RenderTarget::kCompose;
  const auto plain = [&](const std::string& value) {
    return compose ? with_dollars(value, target) : value;
  };
  const std::string claim = !options.claim.empty()     ? options.claim
                            : !options.storage.empty() ? options.name + "-storage"
                                                       : "";
  const auto optional_number = [](int value) { return value > 0 ? std::to_string(value) : ""; };
  TemplateScope scope;
  auto& values = scope.values;
  values["name"] = options.name;
  values["image"] = plain(options.image);
  values["command"] = with_dollars(command, target);
  values["train_dir"] = plain(options.train_dir);
  values["port"] = std::to_string(options.port);
  values["workers"] = std::to_string(options.workers);
  values["ps"] = std::to_string(options.ps);
  values["environment"] = environment;
  values["gpus_per_task"] = std::to_string(options.gpus_per_task);
  values["cpus_per_task"] = optional_number(options.cpus_per_task);
  values["memory"] = plain(options.memory);
  values["restarts"] = std::to_string(options.restarts);
  values["grace"] = std::to_string(options.grace_seconds);
  values["tls"] = plain(options.tls);
  values["task_list"] = task_list(options.tasks());
  values["tensorboard"] = options.tensorboard ? "yes" : "";
  values["tensorboard_image"] = kTensorBoardImage;
  values["tensorboard_command"] = with_dollars(
      Words{"tensorboard", "--logdir", options.train_dir, "--host", "0.0.0.0", "--port", "6006"},
      target);
  if (slurm) {
    add_slurm(options, values);
  } else if (kubernetes) {
    values["jobs"] = kubernetes_jobs(options);
    values["claim"] = claim;
    values["storage"] = options.storage;
    values["makes_secret"] = options.secret.empty() ? "yes" : "";
    values["secret"] = options.secret.empty() ? options.name + "-secret" : options.secret;
    values["job_secret"] = options.job_secret;
    values["mounts"] = claim.empty() && options.tls.empty() ? "" : "yes";
  } else {
    values["tasks"] = compose_tasks(options);
    // "on-failure:0" is without end to Docker.
    values["restart_policy"] =
        options.restarts > 0 ? str_cat("on-failure:", options.restarts) : "no";
    values["mounts"] = options.train_dir.empty() && options.tls.empty() ? "" : "yes";
  }
  for (const auto& [name, value] : more) values[name] = with_dollars(value, target);
  Words used;
  std::string result = fill_template(text, scope, slurm ? Quoting::kShell : Quoting::kYaml, &used);
  for (const auto& [name, value] : more) {
    if (std::ranges::find(used, name) == used.end()) {
      refuse(str_cat("--set ", name,
                     "=..., which the template does not have; expected a parameter or "
                     "a placeholder {{",
                     name, "}}"));
    }
  }
  return result;
}

}  // namespace strata::tools
