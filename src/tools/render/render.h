#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"

namespace strata::tools {

enum class RenderTarget { kSlurm, kKubernetes, kCompose };

/// "slurm" and so on; nullopt: none of them.
std::optional<RenderTarget> render_target(std::string_view name);

/// A job for another system to run.
struct RenderOptions {
  RenderTarget target = RenderTarget::kSlurm;
  std::vector<std::string> command = {};  ///< the program and its arguments
  std::string script = {};                ///< the program, where `command` is empty
  std::string train_dir = {};  ///< the script's one argument then; where storage is mounted
  std::string name = "train";
  std::string image = {};
  int workers = 0;  ///< the chief among them
  int ps = 0;
  bool chief = false;
  bool evaluator = false;
  bool tensorboard = false;
  int port = 8888;
  int gpus_per_task = 0;    ///< of chief, workers and evaluator
  int cpus_per_task = 0;    ///< 0: the system's own default
  std::string memory = {};  ///< of a task, in the system's words: "16G", "16Gi"
  std::map<std::string, std::string> environment = {};
  int restarts = 3;
  int grace_seconds = 120;  ///< from the signal to the end, to save in
  std::string tls = {};     ///< a folder of certificates (slurm, compose), a Secret (kubernetes)
  std::string secret = {};  ///< kubernetes: a Secret with `job-secret`; empty: makes one
  std::string job_secret = {};                   ///< its value then
  std::string claim = {};                        ///< kubernetes: a claim to mount at train_dir
  std::string storage = {};                      ///< kubernetes: the size of a claim to make for it
  int tasks_per_node = 1;                        ///< slurm
  std::string time = {};                         ///< slurm: "4:00:00"
  std::string partition = {};                    ///< slurm
  std::map<std::string, std::string> more = {};  ///< values of the user's template's own

  /// Chief, workers, ps, evaluator.
  std::vector<cluster::TaskId> tasks() const;
};

/// Sets a parameter by its name in the templates of TensorFlow's ecosystem repository
/// (`worker_replicas`, `ps_replicas`, `num_gpus_per_worker`, `has_eval`, `has_tensorboard`,
/// `cmdline_args`, `script`, `train_dir`, `image`, `name`, `port`); another is one of the user's own
/// template.
/// @throws Error  kInvalidArgument: a value that the parameter cannot have.
void set_parameter(RenderOptions& options, const std::string& name, const std::string& value);

/// The file for the system.
/// @param text  A template: the target's own, or one that the user keeps.
/// @throws Error  kInvalidArgument: what is missing, wrong, or cannot be written in such a file.
std::string render(const RenderOptions& options, std::string_view text);

/// What follows `strata render`, read.
struct RenderCommand {
  RenderOptions options = {};
  std::string template_file = {};  ///< empty: the target's own
  std::string output = {};         ///< empty: standard output
  bool print_template = false;
  std::string help = {};  ///< its text, where that is asked for, and nothing else
};

/// @throws Error  kInvalidArgument: quotes the word that is wrong.
RenderCommand read_render_options(std::vector<std::string> words);

}  // namespace strata::tools
