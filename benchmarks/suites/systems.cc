#include "suites/systems.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/str_cat.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kSystemStartTimeout = std::chrono::minutes(5);
constexpr auto kSampleTimeout = std::chrono::minutes(5);

}  // namespace

std::vector<int> two_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  STRATA_CHECK(cpus.size() == 2, kFailedPrecondition, "[strata bench] got ", cpus.size(),
               " core; expected two");
  return cpus;
}

std::pair<std::string, std::string> worker_role(const std::vector<std::string>& addresses,
                                                size_t index) {
  Json workers = Json::array();
  for (const std::string& address : addresses) workers.push_back(address);
  Json task = Json::object();
  task.set("type", "worker").set("index", static_cast<int>(index));
  Json config = Json::object();
  config.set("cluster", Json::object().set("worker", std::move(workers))).set("task", task);
  return {"TF_CONFIG", config.dump()};
}

ProcessSpec PythonPeers::process(const std::string& environment, const std::string& script,
                                 const std::vector<std::string>& more,
                                 const std::vector<int>& cpus) const {
  std::string list;
  for (const int cpu : cpus) list += (list.empty() ? "" : ",") + std::to_string(cpu);
  ProcessSpec process{
      {options_.peers_dir / environment / "bin/python", options_.scripts_dir / script},
      {{"PYTHONDONTWRITEBYTECODE", "1"}},
      cpus};
  process.argv.insert(process.argv.end(), common_.begin(), common_.end());
  process.argv.insert(process.argv.end(), {"--cpus", list});
  process.argv.insert(process.argv.end(), more.begin(), more.end());
  return process;
}

std::string PythonPeers::missing(const std::string& environment, const std::string& script) const {
  // What the installer writes last, so that a half-made environment counts as missing.
  if (!fs::exists(options_.peers_dir / environment / ".strata-peer")) {
    return str_cat("not installed in ", (options_.peers_dir / environment).string(),
                   "; run scripts/install_peers.sh ", environment);
  }
  if (!fs::exists(options_.scripts_dir / script)) {
    return str_cat("no ", (options_.scripts_dir / script).string(), "; give --scripts-dir");
  }
  return {};
}

RunningSystem::RunningSystem(const SystemSpec& spec, const Variant& variant, const fs::path& logs) {
  for (const ProcessSpec& process : variant.processes) {
    cores_ += process.cpus.size();
    const std::string log = str_cat(spec.name, "-", variant.name, "-", processes_.size(), ".log");
    processes_.push_back(std::make_unique<BenchProcess>(process, logs / log));
  }
  const auto deadline = Clock::now() + kSystemStartTimeout;
  for (const auto& process : processes_) {
    const std::string line = process->receive(deadline);
    STRATA_CHECK(line.rfind("ready", 0) == 0, kUnavailable, "it printed: ", line);
  }
}

RunningSystem::~RunningSystem() {
  for (const auto& process : processes_) process->end_input();  // workers end together
}

double RunningSystem::run(long steps) {
  for (const auto& process : processes_) process->send(str_cat("run ", steps));
  const auto deadline = Clock::now() + kSampleTimeout;
  double slowest = 0;
  for (const auto& process : processes_) {
    const std::string line = process->receive(deadline);
    STRATA_CHECK(line.rfind("ok ", 0) == 0, kUnavailable, "it printed: ", line);
    slowest = std::max(slowest, std::strtod(line.c_str() + 3, nullptr));
  }
  STRATA_CHECK(slowest > 0, kUnavailable, "it reports no time");
  return slowest;
}

void RunningSystem::calibrate(double seconds) {
  long steps = 1;
  double elapsed = run(steps);
  while (elapsed < 0.4 * seconds) {
    const double wanted = 0.6 * seconds / std::max(elapsed, 1e-7);
    steps =
        static_cast<long>(std::ceil(static_cast<double>(steps) * std::clamp(wanted, 1.5, 20.0)));
    elapsed = run(steps);
  }
  steps_ = std::max(1L, std::lround(static_cast<double>(steps) * seconds / elapsed));
}

RunningSystem::Sample RunningSystem::sample() {
  const double before = cpu_seconds();
  const double elapsed = run(steps_);
  const double used = (cpu_seconds() - before) / static_cast<double>(processes_.size());
  const auto steps = static_cast<double>(steps_);
  return {steps / elapsed, steps / std::max(used, 1e-9)};
}

double RunningSystem::cpu_seconds() const {
  double sum = 0;
  for (const auto& process : processes_) sum += process->cpu_seconds();
  return sum;
}

BenchProcess::Memory RunningSystem::memory() const {
  BenchProcess::Memory sum;
  for (const auto& process : processes_) {
    const BenchProcess::Memory memory = process->memory();
    sum.peak += memory.peak;
    sum.files += memory.files;
  }
  return sum;
}

void RunningSystem::reset_peak_memory() const {
  for (const auto& process : processes_) process->reset_peak_memory();
}

}  // namespace strata::bench
