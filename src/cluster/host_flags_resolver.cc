#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "cluster/command_line_words.h"
#include "cluster/most_tasks.h"
#include "cluster/split.h"
#include "strata/cluster/launcher_resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

constexpr const char* kJob = "job_name";
constexpr const char* kIndex = "task_index";
constexpr const char* kPsHosts = "ps_hosts";
constexpr const char* kWorkerHosts = "worker_hosts";

// The last value of --name=value or --name value, with one '-' or two; nullopt: not among the words.
std::optional<std::string> flag(const std::vector<std::string>& words, std::string_view name) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "--") break;
    if (!word.starts_with('-')) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    if (!word.starts_with(name)) continue;
    word.remove_prefix(name.size());
    if (word.starts_with('=')) {
      value = word.substr(1);
    } else if (word.empty()) {
      STRATA_CHECK(i + 1 < words.size(), kInvalidArgument, "[cluster] flags: got --", name,
                   " without a value");
      value = words[++i];
    }
  }
  return value;
}

std::vector<std::string> hosts_of(const std::vector<std::string>& words, const char* name) {
  std::vector<std::string> hosts = split(flag(words, name).value_or(""), ',');
  STRATA_CHECK(hosts.size() <= static_cast<size_t>(kMostTasks), kInvalidArgument,
               "[cluster] flags: got --", name, " with ", hosts.size(),
               " addresses; expected at most ", kMostTasks);
  return hosts;
}

}  // namespace

std::vector<std::string> command_line_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (!words.empty()) words.erase(words.begin());
  return words;
}

bool has_host_flags(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](std::string_view word) {
    if (!word.starts_with('-')) return false;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    const std::string_view name = word.substr(0, word.find('='));
    return name == kWorkerHosts || name == kPsHosts;
  });
}

HostFlagsResolver::HostFlagsResolver(HostFlagsOptions options) : options_(std::move(options)) {}

Resolution HostFlagsResolver::do_resolve() const {
  const std::vector<std::string> words =
      options_.arguments ? *options_.arguments : command_line_words();
  const std::string job = flag(words, kJob).value_or("");
  const auto index = flag(words, kIndex);
  const std::vector<std::string> workers = hosts_of(words, kWorkerHosts);
  const std::vector<std::string> servers = hosts_of(words, kPsHosts);
  Resolution resolution;
  resolution.source = "flags";
  if (job.empty() && workers.empty() && servers.empty()) return resolution;
  STRATA_CHECK(!job.empty(), kInvalidArgument, "[cluster] flags: got --", kWorkerHosts, " or --",
               kPsHosts, ", but no --", kJob, "; expected worker or ps");
  STRATA_CHECK(job == kWorker || job == kPs, kInvalidArgument, "[cluster] flags: got --", kJob, "=",
               job, "; expected worker or ps");
  STRATA_CHECK(!workers.empty(), kInvalidArgument, "[cluster] flags: got --", kJob, "=", job,
               ", but no --", kWorkerHosts,
               "; expected all workers' addresses, host1:2220,host2:2220");
  int number = 0;
  if (index) {
    const char* const last = index->data() + index->size();
    const auto [stopped, error] = std::from_chars(index->data(), last, number);
    STRATA_CHECK(error == std::errc() && stopped == last && number >= 0, kInvalidArgument,
                 "[cluster] flags: got --", kIndex, "=", *index, "; expected a number from 0 up");
  }
  const size_t tasks = job == kWorker ? workers.size() : servers.size();
  STRATA_CHECK(index || tasks == 1, kInvalidArgument, "[cluster] flags: got --", kJob, "=", job,
               " without --", kIndex, "; expected this task's index among the ", tasks, " of --",
               job, "_hosts");
  std::map<std::string, std::vector<std::string>> jobs = {{std::string(kWorker), workers}};
  if (!servers.empty()) jobs[std::string(kPs)] = servers;
  resolution.spec = ClusterSpec(jobs);
  resolution.task_type = job;
  resolution.task_id = number;
  return resolution;
}

}  // namespace strata::cluster
