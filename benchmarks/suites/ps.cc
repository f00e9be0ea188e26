// Suite `ps`: parameter servers on this machine, through loopback TCP, beside torch.distributed.rpc
// and TensorFlow's ParameterServerStrategy.
#include "suites/ps.h"

#include <signal.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/stats.h"
#include "suites/step_data.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kTurnSeconds = 0.2;
constexpr int kServers[] = {1, 2, 4};
constexpr int64_t kDenseBytes[] = {1 << 20, 25000000, 64 << 20};
constexpr int64_t kPullBytes = 1024;
/// And the option `--cluster` of their workers.
constexpr std::pair<const char*, const char*> kMnistCases[] = {
    {"mnist", "servers"}, {"mnist-ahead", "servers-ahead"}, {"mnist-sync", "servers-in-step"}};
/// Name, what is measured, what it is compared with.
const CallRatio kRatios[] = {{"vs_rpc", "strata", "rpc"},
                             {"vs_rpc_tcp", "strata-tcp", "rpc-tcp"},
                             {"vs_tf_ps", "strata", "tf-ps"},
                             {"vs_limit", "strata", "copy"},
                             {"vs_limit_tcp", "strata-tcp", "copy-tcp"},
                             {"vs_other", "strata", "other"},
                             {"vs_other", "strata-tcp", "other-tcp"}};

/// One case of calls, and which of the systems take part.
struct Measured {
  std::string name;
  std::string operation;
  int64_t bytes = 0;
  bool has_copy = false;
};

std::vector<Measured> cases_of(int servers) {
  std::vector<Measured> cases;
  for (const int64_t bytes : kDenseBytes) {
    cases.push_back({str_cat("dense/", servers, "/", size_name(bytes)), "push_pull", bytes, true});
  }
  if (servers == 1) cases.push_back({"pull/1KiB", "pull", kPullBytes});
  cases.push_back({str_cat("rows/", servers), "rows",
                   kPsRowsACall * kPsWidth * static_cast<int64_t>(sizeof(float))});
  return cases;
}

/// The systems with so many servers, and what is measured with them.
class ServersRun {
 public:
  ServersRun(const BenchOptions& options, int servers, const std::vector<Measured>& cases,
             const fs::path& folder)
      : options_(options),
        turns_{options.pairs, options.seconds_or(kTurnSeconds)},
        cases_(cases),
        started_(options, servers, folder) {
    const bool copies =
        std::any_of(cases.begin(), cases.end(), [](const Measured& each) { return each.has_copy; });
    if (wanted("strata")) systems_.push_back(started_.strata());
    if (wanted("strata-tcp")) systems_.push_back(started_.strata_by_wire());
    const bool other = !options.against.empty();
    if (other && wanted("other")) systems_.push_back(started_.other());
    if (other && wanted("other-tcp")) systems_.push_back(started_.other_by_wire());
    if (wanted("rpc")) systems_.push_back(started_.rpc("rpc", "any"));
    if (wanted("rpc-tcp")) systems_.push_back(started_.rpc("rpc-tcp", "tcp"));
    if (wanted("tf-ps")) systems_.push_back(started_.tensorflow());
    if (copies && wanted("copy")) systems_.push_back(started_.copy());
    if (copies && wanted("copy-tcp")) systems_.push_back(started_.copy_by_wire());
    report_idle("ps", str_cat("servers/", servers), systems_);
  }

  void run() {
    for (const Measured& each : cases_) measure(each);
  }

 private:
  bool wanted(const std::string& name) const {
    const auto& names = options_.systems;
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }

  static bool takes_part(const CallCase& call_case, const std::string& name) {
    return std::ranges::any_of(call_case.systems,
                               [&](const CallSystem& system) { return system.name == name; });
  }

  void measure(const Measured& measured) {
    CallCase call_case{"ps", measured.name, measured.bytes, {}, {}};
    for (const CallSystem& system : systems_) {
      if (system.name.starts_with("copy") && !measured.has_copy) continue;
      call_case.systems.push_back(system);
      std::vector<std::string>& operations = call_case.systems.back().operations;
      for (std::string& operation : operations) operation = measured.operation + operation;
    }
    for (const CallRatio& ratio : kRatios) {
      if (takes_part(call_case, ratio.tested) && takes_part(call_case, ratio.baseline)) {
        call_case.ratios.push_back(ratio);
      }
    }
    const CallResults results = run_call_case(turns_, call_case);
    if (measured.operation != "rows") return;
    for (const auto& [name, us] : results.us) {
      JsonLine json;
      json.add("suite", std::string("ps")).add("case", measured.name).add("system", name);
      json.add("metric", std::string("rows_per_s"));
      json.add("value", 1e6 * static_cast<double>(kPsRowsACall) / us);
      json.add("unit", std::string("rows/s")).print();
    }
  }

  const BenchOptions& options_;
  const CallTurns turns_;
  const std::vector<Measured> cases_;
  PsSystems started_;
  std::vector<CallSystem> systems_;  // `operations`: what follows the operation's name
};

void run_mnist(const BenchOptions& options, const std::string& name, const std::string& cluster) {
  const BenchWorkspace workspace;
  const tools::PortReservation ports(kPsMnistPorts);
  const fs::path data = workspace.path() / "data";
  write_step_data(data, {});
  std::vector<Ratio> ratios = {{"vs_limit", "strata", "independent-2"}};
  if (cluster != "servers-in-step") ratios.push_back({"vs_tf_ps", "strata", "tf-ps"});
  if (!options.against.empty()) ratios.push_back({"vs_other", "strata", "other"});
  run_interleaved(options,
                  {.suite = "ps",
                   .name = name,
                   .items = "images",
                   .systems = ps_mnist_systems(options, cluster, data, ports),
                   .ratios = std::move(ratios)},
                  workspace.path());
}

}  // namespace

int run_ps_suite(const BenchOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of its own, not ours
  std::vector<std::string> known;
  for (const int servers : kServers) {
    for (const Measured& each : cases_of(servers)) known.push_back(each.name);
  }
  for (const auto& [name, cluster] : kMnistCases) known.emplace_back(name);
  const std::vector<std::string> names = chosen_cases(options, "ps", known);
  const auto chosen = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const int servers : kServers) {
    std::vector<Measured> cases = cases_of(servers);
    std::erase_if(cases, [&](const Measured& each) { return !chosen(each.name); });
    if (cases.empty()) continue;
    const BenchWorkspace workspace;
    std::cerr << "bench ps: servers: " << servers << std::endl;
    ServersRun(options, servers, cases, workspace.path()).run();
  }
  for (const auto& [name, cluster] : kMnistCases) {
    if (chosen(name)) run_mnist(options, name, cluster);
  }
  return 0;
}

}  // namespace strata::bench
