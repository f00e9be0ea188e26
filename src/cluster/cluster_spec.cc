#include "strata/cluster/cluster_spec.h"

#include <algorithm>
#include <charconv>

#include "core/sha256.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

void check_job_name(std::string_view job) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  STRATA_CHECK(!job.empty() && std::ranges::all_of(job, fits) && !(job[0] >= '0' && job[0] <= '9'),
               kInvalidArgument, "[cluster] ClusterSpec: got a job called \"", job,
               "\"; expected small letters, digits and _, a letter first");
}

std::string address_from_json(std::string_view job, std::string_view where, const Json& json) {
  STRATA_CHECK(json.is_string(), kInvalidArgument, "[cluster] ClusterSpec: got ", job, where, " = ",
               json.dump(), "; expected an address as text, \"host:port\"");
  return json.as_string();
}

int index_from_json(std::string_view job, std::string_view key) {
  int index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  STRATA_CHECK(error == std::errc() && end == key.data() + key.size() && index >= 0,
               kInvalidArgument, "[cluster] ClusterSpec: got index \"", key, "\" in ", job,
               "; expected a number from 0 up");
  return index;
}

ClusterSpec::Tasks tasks_from_json(const std::string& job, const Json& json) {
  ClusterSpec::Tasks tasks;
  if (json.is_array()) {
    for (const Json& address : json.as_array()) {
      const int index = static_cast<int>(tasks.size());
      tasks[index] = address_from_json(job, str_cat("[", index, "]"), address);
    }
    return tasks;
  }
  STRATA_CHECK(json.is_object(), kInvalidArgument, "[cluster] ClusterSpec: got ", job, " = ",
               json.dump(), "; expected a list of addresses, [\"host1:2222\", \"host2:2222\"]");
  for (const auto& [key, address] : json.as_object()) {
    tasks[index_from_json(job, key)] = address_from_json(job, str_cat("[", key, "]"), address);
  }
  return tasks;
}

bool dense(const ClusterSpec::Tasks& tasks) {
  return !tasks.empty() && tasks.rbegin()->first + 1 == static_cast<int>(tasks.size());
}

std::string in_quotes(std::string_view text) { return str_cat("'", text, "'"); }

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

}  // namespace

ClusterSpec::ClusterSpec(const std::map<std::string, std::vector<std::string>>& jobs) {
  for (const auto& [job, addresses] : jobs) {
    check_job_name(job);
    Tasks& tasks = jobs_[job];
    for (size_t i = 0; i < addresses.size(); ++i) tasks[static_cast<int>(i)] = addresses[i];
  }
}

ClusterSpec::ClusterSpec(
    std::initializer_list<std::pair<const std::string, std::vector<std::string>>> jobs)
    : ClusterSpec(std::map<std::string, std::vector<std::string>>(jobs)) {}

ClusterSpec ClusterSpec::sparse(std::map<std::string, Tasks> jobs) {
  ClusterSpec spec;
  for (auto& [job, tasks] : jobs) {
    check_job_name(job);
    STRATA_CHECK(tasks.empty() || tasks.begin()->first >= 0, kInvalidArgument,
                 "[cluster] ClusterSpec: got index ", tasks.begin()->first, " in ", job,
                 "; expected a number from 0 up");
    spec.jobs_[job] = std::move(tasks);
  }
  return spec;
}

ClusterSpec ClusterSpec::from_json(const Json& json) {
  STRATA_CHECK(json.is_object(), kInvalidArgument, "[cluster] ClusterSpec: got ", json.dump(),
               "; expected an object from jobs to addresses, {\"worker\": [\"host:2222\"]}");
  ClusterSpec spec;
  for (const auto& [job, tasks] : json.as_object()) {
    check_job_name(job);
    spec.jobs_[job] = tasks_from_json(job, tasks);
  }
  return spec;
}

Json ClusterSpec::to_json() const {
  Json json = Json::object();
  for (const auto& [job, tasks] : jobs_) {
    Json list = Json::array();
    Json object = Json::object();
    for (const auto& [index, address] : tasks) {
      list.push_back(address);
      object.set(std::to_string(index), address);
    }
    json.set(job, dense(tasks) ? list : object);
  }
  return json;
}

const ClusterSpec::Tasks* ClusterSpec::find(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

const ClusterSpec::Tasks& ClusterSpec::tasks_of(std::string_view job) const {
  const Tasks* tasks = find(job);
  STRATA_CHECK(tasks != nullptr, kInvalidArgument, "[cluster] ClusterSpec: got job \"", job,
               "\"; the cluster's jobs are: ", listed(jobs()));
  return *tasks;
}

bool ClusterSpec::has_task(const TaskId& task) const {
  const Tasks* tasks = find(task.job);
  return tasks != nullptr && tasks->contains(task.index);
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& job : jobs_) names.push_back(job.first);
  return names;
}

int ClusterSpec::num_tasks(std::string_view job) const {
  return static_cast<int>(tasks_of(job).size());
}

std::vector<int> ClusterSpec::task_indices(std::string_view job) const {
  std::vector<int> indices;
  for (const auto& task : tasks_of(job)) indices.push_back(task.first);
  return indices;
}

const std::string& ClusterSpec::task_address(std::string_view job, int index) const {
  const Tasks& tasks = tasks_of(job);
  const auto found = tasks.find(index);
  if (found == tasks.end()) {
    std::vector<std::string> indices;
    for (const auto& task : tasks) indices.push_back(std::to_string(task.first));
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[cluster] ClusterSpec: got task ", index, " of job \"", job,
                        "\"; its indices are: ", listed(indices)));
  }
  return found->second;
}

const std::string& ClusterSpec::task_address(const TaskId& task) const {
  return task_address(task.job, task.index);
}

std::vector<std::optional<std::string>> ClusterSpec::job_tasks(std::string_view job) const {
  const Tasks& tasks = tasks_of(job);
  std::vector<std::optional<std::string>> addresses(
      tasks.empty() ? 0 : static_cast<size_t>(tasks.rbegin()->first) + 1);
  for (const auto& [index, address] : tasks) addresses[static_cast<size_t>(index)] = address;
  return addresses;
}

std::string ClusterSpec::to_string() const {
  std::vector<std::string> entries;
  for (const auto& [job, tasks] : jobs_) {
    const bool list = dense(tasks);
    std::string text;
    for (const auto& [index, address] : tasks) {
      if (!text.empty()) text += ", ";
      if (!list) text += str_cat(index, ": ");
      text += in_quotes(address);
    }
    entries.push_back(str_cat(in_quotes(job), ": ", list ? "[" : "{", text, list ? "]" : "}"));
  }
  return str_cat("ClusterSpec({", entries.empty() ? "" : listed(entries), "})");
}

uint64_t ClusterSpec::fingerprint() const {
  const std::string text = to_json().dump();
  Sha256 hash;
  hash.update(text.data(), text.size());
  const std::string digest = hash.hex_digest();
  uint64_t value = 0;
  std::from_chars(digest.data(), digest.data() + 16, value, 16);
  return value;
}

std::optional<SpecDifference> first_difference(const ClusterSpec& left, const ClusterSpec& right) {
  const auto address = [](const ClusterSpec& spec, const TaskId& task) {
    return spec.has_task(task) ? std::optional(spec.task_address(task)) : std::nullopt;
  };
  std::vector<TaskId> tasks;
  for (const ClusterSpec* spec : {&left, &right}) {
    for (const std::string& job : spec->jobs()) {
      for (const int index : spec->task_indices(job)) tasks.push_back({job, index});
    }
  }
  std::ranges::sort(tasks);
  for (const TaskId& task : tasks) {
    SpecDifference difference = {task, address(left, task), address(right, task)};
    if (difference.left != difference.right) return difference;
  }
  return std::nullopt;  // but for jobs without tasks, which have no members
}

}  // namespace strata::cluster
