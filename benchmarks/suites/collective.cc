// Suite `collective`: calls between processes of this machine, through its memory and through
// loopback TCP, beside Open MPI and Gloo.
#include "suites/collective.h"

#include <signal.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kTurnSeconds = 0.1;
constexpr int64_t kSmallest = 1024;
constexpr int64_t kFloorFrom = 16 << 20;  // below it caches and waiting count, not memory
struct Group {
  const char* backend;
  size_t ranks;
};
constexpr Group kGroups[] = {{"memory", 2}, {"tcp", 2}, {"memory", 4}, {"tcp", 4}};

std::string name_of(const Group& group) { return str_cat(group.backend, "/", group.ranks); }

/// The systems of a group, and what is measured with them.
class GroupRun {
 public:
  GroupRun(const BenchOptions& options, const Group& group, const fs::path& folder)
      : options_(options), group_(group), turns_{options.pairs, options.seconds_or(kTurnSeconds)} {
    const std::vector<int> cpus = two_cores();
    std::vector<RankHost> hosts(group.ranks);
    for (size_t r = 0; r < hosts.size(); ++r) hosts[r].cpus = {cpus[r % cpus.size()]};
    started_ = std::make_unique<CollectiveSystems>(options, hosts, /*shared=*/true, folder);
    const bool memory = std::string_view(group.backend) == "memory";
    const std::string backend = memory ? "memory" : "wire";
    if (wanted("strata")) systems_.push_back(started_->strata(backend));
    if (!options.against.empty() && wanted("other")) systems_.push_back(started_->other(backend));
    if (wanted("mpi")) systems_.push_back(memory ? started_->mpi_memory() : started_->mpi_tcp());
    if (wanted("gloo")) systems_.push_back(started_->gloo());
    if (memory && wanted("floor")) systems_.push_back(started_->floor());
    report_idle("collective", name_of(group), systems_);
  }

  void run() {
    for (int64_t bytes = kSmallest; bytes <= kMostCallBytes; bytes *= 4) all_reduce(bytes);
    summarise();
    for (const char* operation : {"broadcast", "all_gather"}) {
      for (const int64_t bytes : {int64_t{1024}, int64_t{64} << 10, int64_t{4} << 20}) {
        other(operation, bytes);
      }
    }
    other("barrier", 4);
  }

 private:
  bool wanted(const std::string& name) const {
    const auto& names = options_.systems;
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
  const CallSystem* find(const std::string& name) const {
    const auto found = std::find_if(systems_.begin(), systems_.end(),
                                    [&](const CallSystem& system) { return system.name == name; });
    return found == systems_.end() ? nullptr : &*found;
  }

  void all_reduce(int64_t bytes) {
    CallCase call_case{
        "collective", str_cat(name_of(group_), "/", size_name(bytes)), bytes, {}, {}};
    for (const CallSystem& system : systems_) {
      if (system.name == "floor" && bytes < kFloorFrom) continue;
      call_case.systems.push_back(system);
      if (system.name != "strata") {
        call_case.ratios.push_back({"vs_" + system.name, "strata", system.name});
      }
    }
    const CallSystem* strata = find("strata");
    if (strata != nullptr && strata->servers != nullptr &&
        std::string_view(group_.backend) == "tcp") {
      for (const std::string& algorithm : started_->algorithms()) {
        CallSystem forced = *strata;
        forced.name = "strata:" + algorithm;
        forced.operations = {"all_reduce:" + algorithm};
        call_case.systems.push_back(forced);
        call_case.ratios.push_back({"vs_algorithm", "strata", forced.name});
      }
    }
    double best = 0;
    std::string best_name;
    for (const CallRatioResult& result : run_call_case(turns_, call_case).ratios) {
      if (!result.value) continue;
      if (result.metric != "vs_algorithm") {
        all_sizes_[result.metric].push_back(*result.value);
      } else if (best_name.empty() || *result.value < best) {
        best = *result.value;
        best_name = result.baseline;
      }
    }
    if (best_name.empty()) return;
    JsonLine json;
    json.add("suite", std::string("collective")).add("case", call_case.name);
    json.add("system", std::string("strata")).add("metric", std::string("vs_best_algorithm"));
    json.add("against", best_name).add("value", best).add("unit", std::string("ratio")).print();
  }

  /// The median over the sizes.
  void summarise() const {
    for (const auto& [metric, values] : all_sizes_) {
      if (metric == "vs_floor") continue;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      JsonLine json;
      json.add("suite", std::string("collective")).add("case", name_of(group_) + "/median");
      json.add("system", std::string("strata")).add("metric", metric);
      json.add("value", estimate(values).median).add("low", *low).add("high", *high);
      json.add("unit", std::string("ratio")).add("sizes", static_cast<double>(values.size()));
      json.print();
    }
  }

  void other(const std::string& operation, int64_t bytes) {
    std::string name = str_cat(name_of(group_), "/", operation);
    if (operation != "barrier") name += "/" + size_name(bytes);
    CallCase call_case{"collective", name, bytes, {}, {}};
    for (const CallSystem& system : systems_) {
      if (system.name == "floor") continue;
      call_case.systems.push_back(system);
      call_case.systems.back().operations = {operation};
      if (system.name != "strata") {
        call_case.ratios.push_back({"vs_" + system.name, "strata", system.name});
      }
    }
    run_call_case(turns_, call_case);
  }

  const BenchOptions& options_;
  const Group group_;
  const CallTurns turns_;
  std::unique_ptr<CollectiveSystems> started_;
  std::vector<CallSystem> systems_;
  std::map<std::string, std::vector<double>> all_sizes_;
};

}  // namespace

int run_collective_suite(const BenchOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of its own, not ours
  std::vector<std::string> known;
  for (const Group& group : kGroups) known.push_back(name_of(group));
  const std::vector<std::string> names = chosen_cases(options, "collective", known);
  for (const Group& group : kGroups) {
    if (std::find(names.begin(), names.end(), name_of(group)) == names.end()) continue;
    const BenchWorkspace workspace;
    std::cerr << "bench collective: " << name_of(group) << std::endl;
    GroupRun(options, group, workspace.path()).run();
  }
  return 0;
}

}  // namespace strata::bench
