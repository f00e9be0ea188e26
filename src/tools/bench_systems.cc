#include "tools/bench_systems.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr auto kStartTimeout = std::chrono::minutes(5);
constexpr auto kSampleTimeout = std::chrono::minutes(5);

std::string find_mimalloc() {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib"}) {
    const fs::path file = fs::path(folder) / "libmimalloc.so.2";
    if (fs::exists(file)) return file;
  }
  return {};
}

class Catalogue {
 public:
  Catalogue(const BenchOptions& options, std::string case_name, std::string data,
            std::vector<int> cpus)
      : options_(options),
        case_(std::move(case_name)),
        data_(std::move(data)),
        both_(std::move(cpus)) {
    one_ = {both_.back()};
  }

  std::vector<SystemSpec> all() const {
    std::vector<SystemSpec> systems = {
        strata("strata-1", 1), strata("strata-2", 2), independent(), libtorch(), libtorch_tuned(),
        tensorflow("tf-1", 1, {{"loop", "1"}}), jax(), ddp(),
        // As TensorFlow's guides write it, a step a call; and with many steps in one call of a
        // graph.
        tensorflow("tf-mirrored-2", 2, {{"call", "1"}, {"fit", "1"}}),
        tensorflow("tf-mirrored-2-graph", 2, {{"loop", "1"}, {"fit", "32"}})};
    if (case_ == "run") systems.resize(2);
    return systems;
  }

 private:
  ProcessSpec strata_process(int replicas, std::vector<int> cpus) const {
    return {{options_.command, "bench", "worker", "--case", case_, "--data", data_, "--replicas",
             std::to_string(replicas)},
            {},
            std::move(cpus)};
  }
  SystemSpec strata(const std::string& name, int replicas) const {
    return {name, replicas, {{"", {strata_process(replicas, replicas == 1 ? one_ : both_)}}}, {}};
  }
  SystemSpec independent() const {
    Variant variant;
    for (const int cpu : both_) variant.processes.push_back(strata_process(1, {cpu}));
    return {"independent-2", 2, {variant}, {}};
  }

  fs::path libtorch_program() const {
    return options_.command.parent_path() / "strata-peer-libtorch";
  }
  ProcessSpec libtorch_process(const std::vector<std::string>& more,
                               const Environment& environment) const {
    ProcessSpec process{{libtorch_program(), "--case", case_, "--data", data_}, environment, one_};
    process.argv.insert(process.argv.end(), more.begin(), more.end());
    return process;
  }
  std::string libtorch_missing() const {
    return fs::exists(libtorch_program())
               ? ""
               : str_cat("no ", libtorch_program().string(), "; build target strata_peer_libtorch");
  }
  SystemSpec libtorch() const {
    return {"libtorch-1", 1, {{"", {libtorch_process({}, {})}}}, libtorch_missing()};
  }
  SystemSpec libtorch_tuned() const {
    const std::string mimalloc = find_mimalloc();
    SystemSpec system{"libtorch-1-tuned", 1, {}, libtorch_missing()};
    if (mimalloc.empty()) system.missing = "no libmimalloc.so.2; run scripts/install_peers.sh";
    // Without the second, mimalloc gives the CNN's large blocks back in each step: a fifth slower.
    const Environment environment = {{"LD_PRELOAD", mimalloc}, {"MIMALLOC_ALLOW_DECOMMIT", "0"}};
    system.variants.push_back({"contiguous", {libtorch_process({"--tuned"}, environment)}});
    if (case_ == "cnn-loop") {
      system.variants.push_back(
          {"channels-last", {libtorch_process({"--tuned", "--channels-last"}, environment)}});
    }
    return system;
  }

  /// A Python peer; `missing` where its environment is not there.
  ProcessSpec python(const std::string& environment, const std::string& script,
                     const std::vector<std::string>& more, const std::vector<int>& cpus) const {
    std::string list;
    for (const int cpu : cpus) list += (list.empty() ? "" : ",") + std::to_string(cpu);
    ProcessSpec process{
        {options_.peers_dir / environment / "bin/python", options_.scripts_dir / script, "--case",
         case_, "--data", data_, "--cpus", list},
        {{"PYTHONDONTWRITEBYTECODE", "1"}},
        cpus};
    process.argv.insert(process.argv.end(), more.begin(), more.end());
    return process;
  }
  std::string python_missing(const std::string& environment, const std::string& script) const {
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
  SystemSpec jax() const {
    SystemSpec system{"jax-1", 1, {}, python_missing("jax", "jax_loop.py")};
    system.variants.push_back({"step", {python("jax", "jax_loop.py", {"--mode", "step"}, one_)}});
    // XLA's CPU convolutions lose their fast path inside a loop: 20 times slower, not worth a wait.
    if (case_ != "cnn-loop") {
      system.variants.push_back({"scan", {python("jax", "jax_loop.py", {"--mode", "scan"}, one_)}});
    }
    return system;
  }
  SystemSpec tensorflow(const std::string& name, int replicas,
                        const std::vector<std::pair<std::string, std::string>>& modes) const {
    SystemSpec system{name, replicas, {}, python_missing("tf", "tf_loop.py")};
    for (const auto& [mode, execution] : modes) {
      const ProcessSpec process =
          python("tf", "tf_loop.py",
                 {"--replicas", std::to_string(replicas), "--mode", mode, "--execution", execution},
                 replicas == 1 ? one_ : both_);
      system.variants.push_back({mode, {process}});
    }
    return system;
  }
  SystemSpec ddp() const {
    SystemSpec system{"ddp-2", 2, {}, python_missing("torch", "ddp_loop.py")};
    for (const char* channels_last : {"0", "1"}) {
      const bool last = channels_last[0] == '1';
      if (last && case_ != "cnn-loop") continue;
      Variant variant{last ? "channels-last" : "contiguous", {}};
      const std::string store = str_cat(data_, ".store-", variant.name);
      for (size_t rank = 0; rank < both_.size(); ++rank) {
        variant.processes.push_back(python("torch", "ddp_loop.py",
                                           {"--rank", std::to_string(rank), "--world", "2",
                                            "--store", store, "--channels-last", channels_last},
                                           {both_[rank]}));
      }
      system.variants.push_back(std::move(variant));
    }
    return system;
  }

  const BenchOptions& options_;
  const std::string case_;
  const std::string data_;
  const std::vector<int> both_;
  std::vector<int> one_;
};

}  // namespace

std::vector<SystemSpec> step_systems(const BenchOptions& options, const std::string& case_name,
                                     const fs::path& data, const std::vector<int>& cpus) {
  return Catalogue(options, case_name, data.string(), cpus).all();
}

RunningSystem::RunningSystem(const SystemSpec& spec, const Variant& variant, const fs::path& logs) {
  for (const ProcessSpec& process : variant.processes) {
    const std::string log = str_cat(spec.name, "-", variant.name, "-", processes_.size(), ".log");
    processes_.push_back(std::make_unique<BenchProcess>(process, logs / log));
  }
  const auto deadline = Clock::now() + kStartTimeout;
  for (const auto& process : processes_) {
    const std::string line = process->receive(deadline);
    STRATA_CHECK(line.rfind("ready", 0) == 0, kUnavailable, "it says: ", line);
  }
}

double RunningSystem::run(long steps) {
  for (const auto& process : processes_) process->send(str_cat("run ", steps));
  const auto deadline = Clock::now() + kSampleTimeout;
  double slowest = 0;
  for (const auto& process : processes_) {
    const std::string line = process->receive(deadline);
    STRATA_CHECK(line.rfind("ok ", 0) == 0, kUnavailable, "it says: ", line);
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

}  // namespace strata::tools
