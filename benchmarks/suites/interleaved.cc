#include "suites/interleaved.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/core_distance.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kSampleSeconds = 0.5;

bool chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// Another system than strata and other builds of it.
bool is_peer(const std::string& name) {
  return name.rfind("strata", 0) != 0 && name.rfind("other", 0) != 0 && name != "independent-2";
}

class CaseRun {
 public:
  CaseRun(const BenchOptions& options, const BenchCase& bench_case, const fs::path& logs)
      : options_(options), case_(bench_case), logs_(logs) {}

  void run() {
    for (const SystemSpec& spec : case_.systems) {
      if (chosen(options_.systems, spec.name)) start(spec);
    }
    report_idle_cpu();
    measure();
    report_disturbance();
    report_core_distance();
    report();
    if (!counts_calls()) report_memory();
  }

 private:
  struct System {
    SystemSpec spec;
    std::string variant;
    std::unique_ptr<RunningSystem> running;
    std::vector<double> samples;  // items/s, or calls/s
    std::string failed;           // variants that did not run, with the reasons
    BenchProcess::Memory memory = {};
  };

  bool counts_calls() const { return case_.items.empty(); }
  std::string metric() const { return counts_calls() ? "us" : case_.items + "_per_s"; }
  std::string unit() const { return counts_calls() ? "us" : case_.items + "/s"; }

  JsonLine line(const std::string& system, const std::string& metric) const {
    JsonLine json;
    json.add("suite", case_.suite).add("case", case_.name).add("system", system);
    json.add("metric", metric);
    return json;
  }

  void say(const std::string& text) const {
    std::cerr << "bench " << case_.name << ": " << text << std::endl;
  }

  void missing(const std::string& name, const std::string& reason) {
    missing_[name] = reason;
    say(str_cat(name, " is missing: ", reason));
    line(name, metric()).add("missing", reason).print();
  }

  double rate_of(const RunningSystem::Sample& sample) const {
    return options_.cpu_clock ? sample.steps_per_cpu_second : sample.steps_per_second;
  }

  /// One-core systems compute all the time: less than a core each means that another program was
  /// busy.
  void report_disturbance() const {
    if (cores_got_.empty()) return;
    const double got = estimate(cores_got_).median;
    if (got < 0.97) {
      say(str_cat("WARNING: the machine was busy: systems of one core got ", 100 * got,
                  " % of it"));
    }
  }

  void report_core_distance() const {
    if (round_trips_.empty()) return;
    const Estimate result = estimate(round_trips_);
    JsonLine json = line("cores", "round_trip");
    json.add("value", result.median).add("low", result.low).add("high", result.high);
    json.add("unit", std::string("ns"))
        .add("samples", static_cast<double>(round_trips_.size()))
        .print();
    const auto [near, far] = std::ranges::minmax(round_trips_);
    if (far > 2 * near) {
      say(str_cat("WARNING: the host moved the cores: a message between them took ", near, " to ",
                  far, " ns there and back"));
    }
  }

  /// Starts every variant, and keeps the fastest.
  void start(const SystemSpec& spec) {
    if (!spec.missing.empty()) return missing(spec.name, spec.missing);
    System best{spec, {}, nullptr, {}, {}};
    double best_rate = 0;
    std::string reason;
    for (const Variant& variant : spec.variants) {
      try {
        auto running = std::make_unique<RunningSystem>(spec, variant, logs_);
        running->calibrate(options_.seconds_or(kSampleSeconds));
        std::vector<double> rates;
        for (int i = 0; i < (spec.variants.size() > 1 ? 3 : 1); ++i)
          rates.push_back(rate_of(running->sample()));
        const double rate = estimate(rates).median;
        say(str_cat(spec.name, variant.name.empty() ? "" : " ", variant.name, ": ",
                    rate * spec.items, " ", counts_calls() ? "calls/s" : unit()));
        if (rate > best_rate) {
          best_rate = rate;
          best.variant = variant.name;
          best.running = std::move(running);
        }
      } catch (const Error& error) {
        reason += str_cat(reason.empty() ? "" : "; ", "variant ", variant.name, ": ", error.what());
        say(str_cat(spec.name, ": ", reason));
      }
    }
    if (best.running == nullptr) return missing(spec.name, reason);
    best.running->reset_peak_memory();  // what compilers took, and other variants' start
    best.failed = std::move(reason);
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
      if (system.running->cores() == 1) {
        cores_got_.push_back(sample.steps_per_second / sample.steps_per_cpu_second);
      }
      system.samples.push_back(rate_of(sample) * system.spec.items);
      return system.samples.back();
    } catch (const Error& error) {
      systems_.erase(name);
      missing(name, str_cat("failed in the run: ", error.what()));
      return 0;
    }
  }

  void measure() {
    std::vector<const Ratio*> pairs;
    for (const Ratio& ratio : case_.ratios) {
      if (systems_.contains(ratio.tested) && systems_.contains(ratio.baseline))
        pairs.push_back(&ratio);
    }
    std::vector<std::string> alone;
    for (const auto& [name, system] : systems_) {
      const bool paired =
          std::any_of(pairs.begin(), pairs.end(), [&name = name](const Ratio* ratio) {
            return ratio->tested == name || ratio->baseline == name;
          });
      if (!paired) alone.push_back(name);
    }
    std::mt19937 order(1);
    for (int round = 0; round < options_.pairs; ++round) {
      std::shuffle(pairs.begin(), pairs.end(), order);
      for (const Ratio* ratio : pairs) {
        if (!systems_.contains(ratio->tested) || !systems_.contains(ratio->baseline)) continue;
        double tested = 0, baseline = 0;
        if (round % 2 == 0) tested = sample(ratio->tested);
        baseline = sample(ratio->baseline);
        if (round % 2 == 1) tested = sample(ratio->tested);
        if (tested > 0 && baseline > 0) ratios_[ratio].push_back(tested / baseline);
      }
      for (const std::string& name : alone) {
        if (systems_.contains(name)) sample(name);
      }
      if (!case_.cores.empty()) {
        round_trips_.push_back(core_round_trip(case_.cores[0], case_.cores[1]));
      }
      if (round % 5 == 4 || round + 1 == options_.pairs) {
        say(str_cat("round ", round + 1, " of ", options_.pairs));
      }
    }
  }

  void report_memory() {
    for (auto& [name, system] : systems_) {
      system.memory = system.running->memory();
      if (system.memory.peak == 0) continue;
      JsonLine json = line(name, "peak_memory");
      json.add("value", system.memory.peak / 1e6).add("files", system.memory.files / 1e6);
      json.add("unit", std::string("MB")).print();
    }
    std::set<std::pair<std::string, std::string>> seen;
    for (const Ratio& ratio : case_.ratios) {
      const auto tested = systems_.find(ratio.tested), baseline = systems_.find(ratio.baseline);
      if (!is_peer(ratio.baseline) || tested == systems_.end() || baseline == systems_.end() ||
          tested->second.memory.peak == 0 || !seen.emplace(ratio.tested, ratio.baseline).second) {
        continue;
      }
      JsonLine json = line(ratio.tested, "vs_memory");
      json.add("against", ratio.baseline);
      json.add("value", baseline->second.memory.peak / tested->second.memory.peak);
      json.add("unit", std::string("ratio")).print();
    }
  }

  double median_of(const System& system) const { return estimate(system.samples).median; }

  /// How much of its limit's rate a system has; 0: it is not known.
  double share_of_limit(const std::string& name) const {
    const auto system = systems_.find(name);
    if (system == systems_.end() || system->second.spec.limit.empty()) return 0;
    const auto limit = systems_.find(system->second.spec.limit);
    if (limit == systems_.end()) return 0;
    return median_of(system->second) / median_of(limit->second);
  }

  void report() const {
    for (const auto& [name, system] : systems_) {
      std::vector<double> values = system.samples;
      if (counts_calls()) {
        for (double& value : values) value = 1e6 / value;
      }
      const Estimate result = estimate(values);
      JsonLine json = line(name, metric());
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", unit()).add("samples", static_cast<double>(values.size()));
      if (!system.variant.empty()) json.add("variant", system.variant);
      if (!system.failed.empty()) json.add("failed", system.failed);
      if (const double share = share_of_limit(name); share > 0) json.add("of_peak", share);
      if (options_.cpu_clock) json.add("clock", std::string("cpu"));
      json.print();
    }
    if (counts_calls()) return;
    for (const Ratio& ratio : case_.ratios) {
      if (!chosen(options_.systems, ratio.tested) || !chosen(options_.systems, ratio.baseline))
        continue;
      JsonLine json = line(ratio.tested, ratio.metric);
      json.add("against", ratio.baseline);
      const auto found = ratios_.find(&ratio);
      if (found == ratios_.end()) {
        const auto reason =
            missing_.find(missing_.contains(ratio.baseline) ? ratio.baseline : ratio.tested);
        json.add("missing", reason == missing_.end() ? "not run" : reason->second).print();
        continue;
      }
      const Estimate result = estimate(found->second);
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", std::string("ratio"))
          .add("pairs", static_cast<double>(found->second.size()));
      if (const double share = share_of_limit(ratio.baseline); share > 0) {
        json.add("at_most", 1 / share);
      }
      if (options_.cpu_clock) json.add("clock", std::string("cpu"));
      json.print();
    }
  }

  const BenchOptions& options_;
  const BenchCase& case_;
  const fs::path logs_;
  std::map<std::string, System> systems_;
  std::map<std::string, std::string> missing_;
  std::map<const Ratio*, std::vector<double>> ratios_;  // of case_.ratios
  std::vector<double> cores_got_;
  std::vector<double> round_trips_;  // between case_.cores, a round each
};

}  // namespace

BenchWorkspace::BenchWorkspace() {
  std::string name = (fs::temp_directory_path() / "strata-bench-XXXXXX").string();
  STRATA_CHECK(mkdtemp(name.data()) != nullptr, kUnavailable, "[strata bench] got no folder ",
               name);
  path_ = name;
}

BenchWorkspace::~BenchWorkspace() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> chosen_cases(const BenchOptions& options, const std::string& suite,
                                      const std::vector<std::string>& known) {
  for (const std::string& name : options.cases) {
    if (chosen(known, name)) continue;
    std::string all;
    for (const std::string& each : known) all += (all.empty() ? "" : ", ") + each;
    STRATA_CHECK(false, kInvalidArgument, "[strata bench] ", suite, ": got case ", name,
                 "; expected one of ", all);
  }
  std::vector<std::string> names;
  for (const std::string& name : known) {
    if (chosen(options.cases, name)) names.push_back(name);
  }
  return names;
}

void run_interleaved(const BenchOptions& options, const BenchCase& bench_case,
                     const fs::path& logs) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of its own, not ours
  CaseRun(options, bench_case, logs).run();
}

}  // namespace strata::bench
