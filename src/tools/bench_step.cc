// Suite `step`: training steps per second. All systems of a case are started first and stay warm;
// then, in each round, each ratio's two systems run a sample right after one another while all
// others wait on a pipe. A ratio is the median over the rounds of such neighbours, so drifts of the
// machine cancel out.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "tools/bench_options.h"
#include "tools/bench_stats.h"
#include "tools/bench_systems.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kBatch = 64;
constexpr const char* kSuite = "step";

struct Case {
  const char* name;
  int64_t features;
  int64_t classes;
};
constexpr Case kCases[] = {
    {"run", 0, 0}, {"mlp-loop", 784, 10}, {"cnn-loop", 784, 10}, {"wide-loop", 1024, 1000}};

struct Ratio {
  const char* metric;
  const char* ours;
  const char* theirs;
};
constexpr Ratio kRatios[] = {
    {"vs_ddp", "strata-2", "ddp-2"},
    {"vs_tf_mirrored", "strata-2", "tf-mirrored-2"},
    {"vs_tf_mirrored_graph", "strata-2", "tf-mirrored-2-graph"},
    {"vs_limit", "strata-2", "independent-2"},
    {"vs_libtorch", "strata-1", "libtorch-1"},
    {"vs_libtorch_tuned", "strata-1", "libtorch-1-tuned"},
    {"vs_tf", "strata-1", "tf-1"},
    {"vs_jax", "strata-1", "jax-1"},
};

/// A folder for the data file and the peers' logs, removed at the end.
class Workspace {
 public:
  Workspace() {
    std::string name = (fs::temp_directory_path() / "strata-bench-XXXXXX").string();
    STRATA_CHECK(mkdtemp(name.data()) != nullptr, kUnavailable, "[strata bench] got no folder ",
                 name);
    path_ = name;
  }
  ~Workspace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// 32 batches like MNIST's: a fifth of the pixels lit, each class a pattern of its own with noise.
/// Layout: int64 batches, batch, features, classes; float32 x; int64 y.
void write_data(const fs::path& path, const Case& bench_case) {
  constexpr int64_t kBatches = 32, kPatterns = 100;
  std::mt19937_64 bits(1);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::normal_distribution<float> noise(0.0F, 0.1F);
  const int64_t patterns = std::min(bench_case.classes, kPatterns);
  std::vector<float> pattern(static_cast<size_t>(patterns * bench_case.features));
  for (float& value : pattern) value = uniform(bits) < 0.2F ? uniform(bits) : 0.0F;

  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kBatches * kBatch; ++i) {
    y.push_back(static_cast<int64_t>(bits() % static_cast<uint64_t>(bench_case.classes)));
    const float* from = pattern.data() + (y.back() % patterns) * bench_case.features;
    for (int64_t j = 0; j < bench_case.features; ++j) {
      x.push_back(from[j] > 0 ? std::max(0.0F, from[j] + noise(bits)) : 0.0F);
    }
  }
  const int64_t head[] = {kBatches, kBatch, bench_case.features, bench_case.classes};
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(head), sizeof(head));
  out.write(reinterpret_cast<const char*>(x.data()),
            static_cast<std::streamsize>(x.size() * sizeof(float)));
  out.write(reinterpret_cast<const char*>(y.data()),
            static_cast<std::streamsize>(y.size() * sizeof(int64_t)));
  out.flush();
  STRATA_CHECK(out.good(), kUnavailable, "[strata bench] cannot write ", path.string());
}

std::vector<int> two_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  STRATA_CHECK(cpus.size() == 2, kFailedPrecondition, "[strata bench] step: got ", cpus.size(),
               " core; expected two");
  return cpus;
}

bool chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

class CaseRun {
 public:
  CaseRun(const BenchOptions& options, const Case& bench_case)
      : options_(options), case_(bench_case) {}

  void run() {
    const fs::path data = workspace_.path() / "data";
    if (case_.features > 0) write_data(data, case_);
    for (const SystemSpec& spec : step_systems(options_, case_.name, data, two_cores())) {
      if (chosen(options_.systems, spec.name)) start(spec);
    }
    report_idle_cpu();
    measure();
    report_disturbance();
    report();
  }

 private:
  struct System {
    SystemSpec spec;
    std::string variant;
    std::unique_ptr<RunningSystem> running;
    std::vector<double> samples;  // images/s, or calls/s of case run
  };

  bool counts_calls() const { return case_.features == 0; }
  double scale(const SystemSpec& spec) const { return counts_calls() ? 1 : spec.replicas * kBatch; }

  JsonLine line(const std::string& system, const std::string& metric) const {
    JsonLine json;
    json.add("suite", std::string(kSuite))
        .add("case", std::string(case_.name))
        .add("system", system);
    json.add("metric", metric);
    return json;
  }

  void say(const std::string& text) const {
    std::cerr << "bench " << case_.name << ": " << text << std::endl;
  }

  void missing(const std::string& name, const std::string& reason) {
    missing_[name] = reason;
    say(str_cat(name, " is missing: ", reason));
    line(name, counts_calls() ? "us" : "images_per_s").add("missing", reason).print();
  }

  double rate_of(const RunningSystem::Sample& sample) const {
    return options_.cpu_clock ? sample.steps_per_cpu_second : sample.steps_per_second;
  }

  /// One-core systems compute all the time: less than a core each means that somebody else was
  /// busy.
  void report_disturbance() const {
    if (cores_got_.empty()) return;
    const double got = estimate(cores_got_).median;
    if (got < 0.97) {
      say(str_cat("WARNING: the machine was busy: systems of one core got ", 100 * got,
                  " % of it"));
    }
  }

  /// Starts every variant, and keeps the fastest.
  void start(const SystemSpec& spec) {
    if (!spec.missing.empty()) return missing(spec.name, spec.missing);
    System best{spec, {}, nullptr, {}};
    double best_rate = 0;
    std::string reason;
    for (const Variant& variant : spec.variants) {
      try {
        auto running = std::make_unique<RunningSystem>(spec, variant, workspace_.path());
        running->calibrate(options_.seconds);
        std::vector<double> rates;
        for (int i = 0; i < (spec.variants.size() > 1 ? 3 : 1); ++i)
          rates.push_back(rate_of(running->sample()));
        const double rate = estimate(rates).median;
        say(str_cat(spec.name, variant.name.empty() ? "" : " ", variant.name, ": ",
                    rate * scale(spec), counts_calls() ? " calls/s" : " images/s"));
        if (rate > best_rate) {
          best_rate = rate;
          best.variant = variant.name;
          best.running = std::move(running);
        }
      } catch (const Error& error) {
        reason = str_cat("variant ", variant.name, ": ", error.what());
        say(str_cat(spec.name, ": ", reason));
      }
    }
    if (best.running == nullptr) return missing(spec.name, reason);
    systems_.emplace(spec.name, std::move(best));
  }

  /// A peer that spins while it waits would slow down everybody else: say so.
  void report_idle_cpu() {
    std::map<std::string, double> before;
    for (const auto& [name, system] : systems_) before[name] = system.running->cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (const auto& [name, system] : systems_) {
      const double percent = 100 * (system.running->cpu_seconds() - before[name]);
      line(name, "idle_cpu").add("value", percent).add("unit", std::string("percent")).print();
      if (percent > 2)
        say(str_cat("WARNING: ", name, " uses ", percent, " % of a core while it waits"));
    }
  }

  double sample(const std::string& name) {
    System& system = systems_.at(name);
    try {
      const RunningSystem::Sample sample = system.running->sample();
      if (system.spec.replicas == 1) {
        cores_got_.push_back(sample.steps_per_second / sample.steps_per_cpu_second);
      }
      system.samples.push_back(rate_of(sample) * scale(system.spec));
      return system.samples.back();
    } catch (const Error& error) {
      systems_.erase(name);
      missing(name, str_cat("failed in the run: ", error.what()));
      return 0;
    }
  }

  void measure() {
    std::vector<const Ratio*> pairs;
    for (const Ratio& ratio : kRatios) {
      if (systems_.contains(ratio.ours) && systems_.contains(ratio.theirs)) pairs.push_back(&ratio);
    }
    std::vector<std::string> alone;
    for (const auto& [name, system] : systems_) {
      const bool paired =
          std::any_of(pairs.begin(), pairs.end(), [&name = name](const Ratio* ratio) {
            return ratio->ours == name || ratio->theirs == name;
          });
      if (!paired) alone.push_back(name);
    }
    std::mt19937 order(1);
    for (int round = 0; round < options_.pairs; ++round) {
      std::shuffle(pairs.begin(), pairs.end(), order);
      for (const Ratio* ratio : pairs) {
        if (!systems_.contains(ratio->ours) || !systems_.contains(ratio->theirs)) continue;
        double ours = 0, theirs = 0;
        if (round % 2 == 0) ours = sample(ratio->ours);
        theirs = sample(ratio->theirs);
        if (round % 2 == 1) ours = sample(ratio->ours);
        if (ours > 0 && theirs > 0) ratios_[ratio->metric].push_back(ours / theirs);
      }
      for (const std::string& name : alone) {
        if (systems_.contains(name)) sample(name);
      }
      if (round % 5 == 4 || round + 1 == options_.pairs) {
        say(str_cat("round ", round + 1, " of ", options_.pairs));
      }
    }
  }

  void report() const {
    for (const auto& [name, system] : systems_) {
      std::vector<double> values = system.samples;
      if (counts_calls()) {
        for (double& value : values) value = 1e6 / value;
      }
      const Estimate result = estimate(values);
      JsonLine json = line(name, counts_calls() ? "us" : "images_per_s");
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", std::string(counts_calls() ? "us" : "images/s"));
      json.add("samples", static_cast<double>(values.size()));
      if (!system.variant.empty()) json.add("variant", system.variant);
      if (options_.cpu_clock) json.add("clock", std::string("cpu"));
      json.print();
    }
    if (counts_calls()) return;
    for (const Ratio& ratio : kRatios) {
      if (!chosen(options_.systems, ratio.ours) || !chosen(options_.systems, ratio.theirs))
        continue;
      JsonLine json = line(ratio.ours, ratio.metric);
      json.add("against", std::string(ratio.theirs));
      const auto found = ratios_.find(ratio.metric);
      if (found == ratios_.end()) {
        const auto reason =
            missing_.find(missing_.contains(ratio.theirs) ? ratio.theirs : ratio.ours);
        json.add("missing", reason == missing_.end() ? "not run" : reason->second).print();
        continue;
      }
      const Estimate result = estimate(found->second);
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", std::string("ratio"))
          .add("pairs", static_cast<double>(found->second.size()));
      if (options_.cpu_clock) json.add("clock", std::string("cpu"));
      json.print();
    }
  }

  const BenchOptions& options_;
  const Case& case_;
  Workspace workspace_;  // outlives the processes
  std::map<std::string, System> systems_;
  std::map<std::string, std::string> missing_;
  std::map<std::string, std::vector<double>> ratios_;
  std::vector<double> cores_got_;
};

}  // namespace

int run_step_suite(const BenchOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of its own, not ours
  for (const std::string& name : options.cases) {
    STRATA_CHECK(std::any_of(std::begin(kCases), std::end(kCases),
                             [&](const Case& known) { return name == known.name; }),
                 kInvalidArgument, "[strata bench] step: got case ", name,
                 "; expected run, mlp-loop, cnn-loop or wide-loop");
  }
  for (const Case& bench_case : kCases) {
    if (chosen(options.cases, bench_case.name)) CaseRun(options, bench_case).run();
  }
  return 0;
}

}  // namespace strata::tools
