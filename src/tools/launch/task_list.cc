#include "tools/launch/task_list.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "strata/cluster/roles.h"
#include "strata/core/error.h"

namespace strata::tools {
namespace {

constexpr std::string_view kClient = "client";  // of `strata server`
constexpr std::array kJobs = {cluster::kChief, cluster::kWorker, cluster::kPs, cluster::kEvaluator,
                              kClient};
constexpr int kMost = 100'000;

}  // namespace

std::vector<cluster::TaskId> parse_task_list(std::string_view text, std::string_view where) {
  std::vector<cluster::TaskId> tasks;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t sign = part.find_first_of("=:");
    const std::string_view job = part.substr(0, sign);
    int count = 0;
    bool good = sign != std::string_view::npos && std::ranges::count(kJobs, job) == 1;
    if (good) {
      const char* const end = part.data() + part.size();
      const auto [stopped, error] = std::from_chars(part.data() + sign + 1, end, count);
      good = error == std::errc() && stopped == end && count > 0 && count <= kMost;
    }
    STRATA_CHECK(good, kInvalidArgument, where, ": got \"", part,
                 "\"; expected chief, worker, ps, evaluator or client with a number, as in "
                 "worker=4,ps=2");
    STRATA_CHECK(count == 1 || (job != cluster::kChief && job != cluster::kEvaluator),
                 kInvalidArgument, where, ": got \"", part, "\"; there is one ", job, " at most");
    STRATA_CHECK(std::ranges::none_of(tasks, [&](const auto& task) { return task.job == job; }),
                 kInvalidArgument, where, ": got ", job, " twice");
    for (int i = 0; i < count; ++i) tasks.push_back({.job = std::string(job), .index = i});
    if (comma == std::string_view::npos) return tasks;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace strata::tools
