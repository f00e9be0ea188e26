#include "strata/cluster/roles.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/edit_distance.h"
#include "strata/core/error.h"
#include "wire/address.h"

namespace strata::cluster {
namespace {

constexpr std::array kRoles = {kChief, kWorker, kPs, kEvaluator};

int count(const ClusterSpec& spec, std::string_view job) {
  return spec.has_job(job) ? spec.num_tasks(job) : 0;
}

std::string hint_for_job(std::string_view job) {
  if (job == "master") return "; \"master\" is the chief's old name: write \"chief\"";
  for (const std::string_view role : kRoles) {
    if (strata::detail::edit_distance(job, role) <= 2)
      return str_cat("; did you mean \"", role, "\"?");
  }
  return "; rename the job";
}

void check_jobs(const ClusterSpec& spec, std::string_view source) {
  for (const std::string& job : spec.jobs()) {
    STRATA_CHECK(std::ranges::count(kRoles, job) != 0, kInvalidArgument, "[cluster] ", source,
                 ": got a job \"", job,
                 "\" in the cluster; expected chief, worker, ps or evaluator", hint_for_job(job));
  }
  for (const std::string_view job : {kChief, kEvaluator}) {
    STRATA_CHECK(count(spec, job) <= 1, kInvalidArgument, "[cluster] ", source, ": got ",
                 count(spec, job), " tasks of job \"", job, "\" (", spec.to_json().at(job).dump(),
                 "); expected one at most; ",
                 job == kChief ? "move the others to \"worker\"" : "leave one");
  }
  STRATA_CHECK(count(spec, kChief) + count(spec, kWorker) > 0, kInvalidArgument, "[cluster] ",
               source, ": got ", spec.to_string(),
               ", where no task trains; expected a chief or a worker; add one");
}

void check_address(const std::string& address, const std::string& where) {
  constexpr std::string_view kPrefix = "[wire] address: ";
  try {
    (void)wire::Address::parse(address);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    throw Error(error.code(), str_cat("[cluster] ", where, ": ",
                                      text.substr(text.starts_with(kPrefix) ? kPrefix.size() : 0)));
  }
}

void check_addresses(const ClusterSpec& spec, std::string_view source) {
  std::map<std::string, TaskId> taken;
  for (const std::string& job : spec.jobs()) {
    int expected = 0;
    for (const int index : spec.task_indices(job)) {
      STRATA_CHECK(index == expected++, kInvalidArgument, "[cluster] ", source, ": got task ",
                   index, " of \"", job, "\", but no task ", expected - 1,
                   "; expected indices from 0 without gaps");
      const TaskId task = {job, index};
      const std::string& address = spec.task_address(task);
      if (address != ":0") check_address(address, str_cat(source, ", ", task.to_string()));
      if (address.ends_with(":0")) continue;
      const auto [found, fresh] = taken.emplace(address, task);
      STRATA_CHECK(fresh, kInvalidArgument, "[cluster] ", source, ": got \"", address,
                   "\" for both ", found->second.to_string(), " and ", task.to_string(),
                   "; give each its own port");
    }
  }
}

void check_task(const ClusterSpec& spec, const TaskId& task, std::string_view source) {
  STRATA_CHECK(std::ranges::count(kRoles, task.job) != 0, kInvalidArgument, "[cluster] ", source,
               ": got task type \"", task.job, "\"; expected chief, worker, ps or evaluator",
               hint_for_job(task.job));
  if (task.job == kEvaluator) {
    STRATA_CHECK(task.index == 0, kInvalidArgument, "[cluster] ", source, ": got evaluator ",
                 task.index, "; there is one evaluator at most: set its index to 0");
    return;
  }
  STRATA_CHECK(spec.has_job(task.job), kInvalidArgument, "[cluster] ", source, ": got task type \"",
               task.job, "\", which is no job of ", spec.to_string(), "; add its address there");
  const int tasks = spec.num_tasks(task.job);
  STRATA_CHECK(spec.has_task(task), kInvalidArgument, "[cluster] ", source, ": got task index ",
               task.index, ", but \"", task.job, "\" has ", tasks, tasks == 1 ? " task" : " tasks",
               ", ", spec.to_json().at(task.job).dump(), "; expected 0",
               tasks > 1 ? str_cat(" to ", tasks - 1) : "");
}

void check_trains(const TaskId& task, std::string_view call) {
  STRATA_CHECK(task.job == kChief || task.job == kWorker || task.job == kEvaluator,
               kInvalidArgument, "[cluster] ", call, ": got ", task.to_string(),
               ", which does not train; expected a chief, worker or evaluator");
}

void append_tasks(const ClusterSpec& spec, std::string_view job, std::vector<TaskId>& tasks) {
  if (!spec.has_job(job)) return;
  for (const int index : spec.task_indices(job)) tasks.push_back({std::string(job), index});
}

}  // namespace

void check_cluster(const ClusterSpec& spec, const TaskId& task, std::string_view source) {
  check_jobs(spec, source);
  check_addresses(spec, source);
  check_task(spec, task, source);
}

bool is_chief(const ClusterSpec& spec, const TaskId& task) {
  if (task.job == kChief || task.job == kEvaluator) return true;
  return task.job == kWorker && task.index == 0 && count(spec, kChief) == 0;
}

TaskId leader(const ClusterSpec& spec) {
  if (count(spec, kChief) > 0) return {std::string(kChief), 0};
  STRATA_CHECK(count(spec, kWorker) > 0, kInvalidArgument, "[cluster] leader: got ",
               spec.to_string(), "; expected a chief or a worker");
  return {std::string(kWorker), 0};
}

int worker_count(const ClusterSpec& spec, const TaskId& task) {
  check_trains(task, "worker_count");
  return task.job == kEvaluator ? 1 : count(spec, kChief) + count(spec, kWorker);
}

int id_in_cluster(const ClusterSpec& spec, const TaskId& task) {
  check_trains(task, "id_in_cluster");
  return task.job == kWorker ? task.index + count(spec, kChief) : task.index;
}

std::vector<TaskId> training_tasks(const ClusterSpec& spec) {
  std::vector<TaskId> tasks;
  append_tasks(spec, kChief, tasks);
  append_tasks(spec, kWorker, tasks);
  return tasks;
}

std::vector<TaskId> members(const ClusterSpec& spec) {
  std::vector<TaskId> tasks = training_tasks(spec);
  append_tasks(spec, kPs, tasks);
  return tasks;
}

}  // namespace strata::cluster
