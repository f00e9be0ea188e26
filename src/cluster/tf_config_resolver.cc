#include "strata/cluster/resolvers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "cluster/master_url.h"
#include "core/escaped.h"
#include "core/join.h"
#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

constexpr std::string_view kForm =
    R"({"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}})";

std::string shortened(std::string_view text) {
  constexpr size_t kLongest = 200;
  return text.size() <= kLongest ? std::string(text) : str_cat(text.substr(0, kLongest), "...");
}

// "[core] JSON: got x" or "[cluster] ClusterSpec: got x" is "got x" to who wrote TF_CONFIG.
std::string_view without_prefix(std::string_view message) {
  const size_t colon = message.find(": ");
  return colon == std::string_view::npos ? message : message.substr(colon + 2);
}

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Error& error) {
    const bool single = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
    const std::string hint = text.empty() ? "unset it to run as one process"
                             : single     ? "JSON has double quotes"
                                          : str_cat("write it as ", kForm);
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[cluster] TF_CONFIG is not JSON: ", without_prefix(error.what()),
                        "; TF_CONFIG is \"", shortened(text), "\"; ", hint));
  }
}

ClusterSpec spec_of(const Json& cluster) {
  STRATA_CHECK(cluster.is_object(), kInvalidArgument,
               "[cluster] TF_CONFIG: got cluster = ", shortened(cluster.dump()),
               "; expected an object from jobs to addresses, as in ", kForm);
  try {
    return ClusterSpec::from_json(cluster);
  } catch (const Error& error) {
    throw Error(error.code(),
                str_cat("[cluster] TF_CONFIG, cluster: ", without_prefix(error.what())));
  }
}

int index_of(const Json& json) {
  if (json.is_int() && json.as_int() >= 0 && json.as_int() <= INT32_MAX) {
    return static_cast<int>(json.as_int());
  }
  if (json.is_string()) {
    const std::string& text = json.as_string();
    int index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error == std::errc() && end == text.data() + text.size() && index >= 0) return index;
  }
  throw Error(ErrorCode::kInvalidArgument, str_cat("[cluster] TF_CONFIG: got task.index = ",
                                                   json.dump(), "; expected a number from 0 up"));
}

std::string text_of(const Json& json, std::string_view what) {
  STRATA_CHECK(json.is_string(), kInvalidArgument, "[cluster] TF_CONFIG: got ", what, " = ",
               json.dump(), "; expected text in double quotes");
  return json.as_string();
}

/// A misspelt "cluster" is no error in TensorFlow either, but training alone should be no surprise.
/// Once for each text: programs resolve several times.
void warn_of_no_cluster(const std::string& text, const Json& config) {
  if (config.as_object().empty()) return;
  static Mutex mutex;
  static std::string warned STRATA_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (std::exchange(warned, text) == text) return;
  STRATA_LOG(kWarning) << "[cluster] TF_CONFIG has no \"cluster\" but "
                       << join(config.as_object(),
                               [](const auto& member) {
                                 return str_cat('"', detail::escaped(member.first), '"');
                               })
                       << ": this process works alone; write it as " << kForm;
}

/// A misspelt member is otherwise passed over, as TensorFlow does it: a task "taks" is worker 0
/// everywhere. Once for each text: programs resolve several times.
void warn_of_unknown_members(const std::string& text, const Json& config) {
  // "environment" is what TensorFlow 1 and its services wrote; nothing reads it. "model_dir" is read by
  // estimator::RunConfig.
  constexpr std::array<std::string_view, 6> kKnown = {"cluster",        "task",        "rpc_layer",
                                                      "session_master", "environment", "model_dir"};
  std::vector<std::string> unknown;
  for (const auto& [name, value] : config.as_object()) {
    if (std::ranges::find(kKnown, name) != kKnown.end()) continue;
    unknown.push_back(str_cat('"', detail::escaped(name), '"'));
  }
  if (unknown.empty()) return;
  static Mutex mutex;
  static std::string warned STRATA_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (std::exchange(warned, text) == text) return;
  STRATA_LOG(kWarning) << "[cluster] TF_CONFIG: got " << join(unknown)
                       << ", which nothing reads; expected \"cluster\", \"task\", \"rpc_layer\" "
                          "and \"session_master\": is a name misspelt?";
}

// Members that Python would write as None are as good as absent.
const Json* find(const Json& json, std::string_view name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

}  // namespace

TfConfigResolver::TfConfigResolver(TfConfigOptions options) : options_(std::move(options)) {}

Resolution TfConfigResolver::do_resolve() const {
  const Environment environment =
      options_.environment ? *options_.environment : Environment::of_process();
  Resolution resolution;
  resolution.source = "TF_CONFIG";
  if (const auto text = environment.get("TF_CONFIG")) {
    const Json config = parse(*text);
    STRATA_CHECK(config.is_object(), kInvalidArgument, "[cluster] TF_CONFIG: got ",
                 shortened(*text), "; expected an object, ", kForm);
    if (const Json* cluster = find(config, "cluster")) resolution.spec = spec_of(*cluster);
    if (resolution.spec.empty()) {
      warn_of_no_cluster(*text, config);
    } else {
      warn_of_unknown_members(*text, config);
    }
    if (const Json* task = find(config, "task")) {
      STRATA_CHECK(task->is_object(), kInvalidArgument,
                   "[cluster] TF_CONFIG: got task = ", task->dump(),
                   R"(; expected {"type": "worker", "index": 0})");
      if (const Json* type = find(*task, "type"))
        resolution.task_type = text_of(*type, "task.type");
      if (const Json* index = find(*task, "index")) resolution.task_id = index_of(*index);
    }
    if (const Json* layer = find(config, "rpc_layer")) {
      resolution.rpc_layer = text_of(*layer, "rpc_layer");
    }
    if (const Json* master = find(config, "session_master")) {
      resolution.session_master = text_of(*master, "session_master");
    }
  }
  if (options_.task_type) resolution.task_type = options_.task_type;
  if (options_.task_id) resolution.task_id = options_.task_id;
  if (options_.rpc_layer) resolution.rpc_layer = *options_.rpc_layer;
  return resolution;
}

std::string TfConfigResolver::do_master(const Resolution& resolution,
                                        const std::optional<std::string>& task_type,
                                        const std::optional<int>& task_id) const {
  if (resolution.session_master) return *resolution.session_master;
  const auto jobs = resolution.spec.jobs();
  if (jobs.empty() || (jobs.size() == 1 && resolution.spec.num_tasks(jobs[0]) == 1)) return "";
  const auto type = task_type ? task_type : resolution.task_type;
  const auto id = task_id ? task_id : resolution.task_id;
  STRATA_CHECK(type && id, kInvalidArgument,
               "[cluster] TF_CONFIG: got no task to take the master's address of; name one");
  return with_rpc_layer(resolution.rpc_layer, resolution.spec.task_address(*type, *id));
}

}  // namespace strata::cluster
