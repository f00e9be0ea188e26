#include "strata/estimator/run_config.h"

#include <chrono>
#include <utility>

#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::estimator {
namespace {

constexpr double kDefaultCheckpointSecs = 600;

void check_options(const RunConfigOptions& options) {
  const auto at_least_0 = [](const char* name, double value) {
    STRATA_CHECK(value >= 0, kInvalidArgument, "[estimator] RunConfig: got ", name, " ", value,
                 "; it should be >= 0");
  };
  STRATA_CHECK(!options.save_checkpoints_steps || !options.save_checkpoints_secs, kInvalidArgument,
               "[estimator] RunConfig: save_checkpoints_steps and save_checkpoints_secs cannot be ",
               "both set");
  at_least_0("save_summary_steps", static_cast<double>(options.save_summary_steps));
  at_least_0("save_checkpoints_steps",
             static_cast<double>(options.save_checkpoints_steps.value_or(0)));
  at_least_0("save_checkpoints_secs", options.save_checkpoints_secs.value_or(0));
  at_least_0("keep_checkpoint_max", static_cast<double>(options.keep_checkpoint_max));
  STRATA_CHECK(options.keep_checkpoint_every_n_hours > 0, kInvalidArgument,
               "[estimator] RunConfig: got keep_checkpoint_every_n_hours ",
               options.keep_checkpoint_every_n_hours, "; it should be > 0");
  STRATA_CHECK(options.log_step_count_steps.value_or(1) > 0, kInvalidArgument,
               "[estimator] RunConfig: got log_step_count_steps ", *options.log_step_count_steps,
               "; it should be > 0, or unset for no such lines");
}

/// The model_dir that TF_CONFIG names; empty: none.
std::string model_dir_of(const Json& config) {
  const Json* found = config.find("model_dir");
  if (found == nullptr || found->is_null()) return {};
  STRATA_CHECK(found->is_string() && !found->as_string().empty(), kInvalidArgument,
               "[estimator] RunConfig: got TF_CONFIG with model_dir = ", found->dump(),
               "; it should be text that is not empty");
  return found->as_string();
}

}  // namespace

RunConfig::RunConfig(RunConfigOptions options) : options_(std::move(options)) {
  check_options(options_);
  if (!options_.environment) options_.environment = cluster::Environment::of_process();
  const cluster::Resolution resolution =
      cluster::TfConfigResolver({.environment = options_.environment}).resolve();
  const std::string text = options_.environment->get("TF_CONFIG").value_or("{}");
  const std::string model_dir = model_dir_of(Json::parse(text));
  STRATA_CHECK(model_dir.empty() || options_.model_dir.empty() || model_dir == options_.model_dir,
               kInvalidArgument, "[estimator] RunConfig: got model_dir '", options_.model_dir,
               "' and in TF_CONFIG '", model_dir, "'; give it once, or the same");
  if (options_.model_dir.empty()) options_.model_dir = model_dir;

  if (resolution.spec.empty()) {
    STRATA_CHECK(resolution.task_type.value_or("worker") == "worker", kInvalidArgument,
                 "[estimator] RunConfig: got TF_CONFIG without a cluster and with task type '",
                 *resolution.task_type, "'; without a cluster it must be worker");
    STRATA_CHECK(resolution.task_id.value_or(0) == 0, kInvalidArgument,
                 "[estimator] RunConfig: got TF_CONFIG without a cluster and with task index ",
                 *resolution.task_id, "; without a cluster it must be 0");
    return;
  }
  STRATA_CHECK(resolution.task_type && resolution.task_id, kInvalidArgument,
               "[estimator] RunConfig: got TF_CONFIG with a cluster and without a task ",
               resolution.task_type ? "index" : "type",
               R"(; expected "task": {"type": "worker", "index": 0})");
  task_ = {.job = *resolution.task_type, .index = *resolution.task_id};
  cluster::check_cluster(resolution.spec, task_, "TF_CONFIG");
  if (task_.job != cluster::kEvaluator) cluster_ = resolution.spec;
}

int64_t RunConfig::save_checkpoints_steps() const {
  return options_.save_checkpoints_steps.value_or(0);
}

double RunConfig::save_checkpoints_secs() const {
  if (options_.save_checkpoints_steps) return 0;
  return options_.save_checkpoints_secs.value_or(kDefaultCheckpointSecs);
}

double RunConfig::now() const {
  if (options_.now) return options_.now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<int> RunConfig::global_id_in_cluster() const {
  if (task_.job == cluster::kEvaluator) return std::nullopt;
  if (cluster_.empty()) return 0;
  std::vector<std::string> jobs;
  if (cluster_.has_job(cluster::kChief)) jobs.emplace_back(cluster::kChief);
  for (const std::string& job : cluster_.jobs()) {
    if (job != cluster::kChief && job != cluster::kPs) jobs.push_back(job);
  }
  jobs.emplace_back(cluster::kPs);
  int id = 0;
  for (const std::string& job : jobs) {
    if (job == task_.job) break;
    if (cluster_.has_job(job)) id += cluster_.num_tasks(job);
  }
  return id + task_.index;
}

bool RunConfig::is_chief() const {
  if (cluster_.empty()) return task_.job != cluster::kEvaluator;
  return cluster::is_chief(cluster_, task_);
}

int RunConfig::num_ps_replicas() const {
  return cluster_.has_job(cluster::kPs) ? cluster_.num_tasks(cluster::kPs) : 0;
}

int RunConfig::num_worker_replicas() const {
  if (task_.job == cluster::kEvaluator) return 0;
  if (cluster_.empty()) return 1;
  int count = 0;
  for (const std::string_view job : {cluster::kChief, cluster::kWorker}) {
    if (cluster_.has_job(job)) count += cluster_.num_tasks(job);
  }
  return count;
}

}  // namespace strata::estimator
