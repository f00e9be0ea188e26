#include "suites/calls.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStartTimeout = std::chrono::minutes(2);
constexpr auto kTurnTimeout = std::chrono::minutes(1);
constexpr double kMostRepeats = 20000;
constexpr double kQuickCall = 0.5e6;  // us

double own_cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

std::string Calls::line() const { return str_cat(operation, " ", bytes, " ", repeats); }

Calls Calls::from_line(const std::string& line) {
  char operation[64];
  long bytes = 0, repeats = 0;
  const int words = std::sscanf(line.c_str(), "%63s %ld %ld", operation, &bytes, &repeats);
  STRATA_CHECK(words == 3 && bytes > 0 && bytes % 4 == 0 && repeats > 0, kInvalidArgument,
               "[strata bench] got line \"", line, "\"; expected OPERATION BYTES REPEATS");
  return {operation, bytes, repeats};
}

void serve_calls(const std::string& name,
                 const std::function<std::function<void()>(const Calls&)>& prepare) {
  std::cout << "ready " << name << std::endl;
  std::string line;
  std::vector<double> times;
  while (std::getline(std::cin, line)) {
    double answer = 0;
    if (line == "cpu") {
      answer = own_cpu_seconds();
    } else {
      const Calls calls = Calls::from_line(line);
      const std::function<void()> call = prepare(calls);
      times.resize(static_cast<size_t>(calls.repeats));
      call();  // the ranks synchronize; caches are warm
      auto before = Clock::now();
      for (double& time : times) {
        call();
        const auto after = Clock::now();
        time = microseconds(after - before);
        before = after;
      }
      answer = estimate(times).median;
    }
    std::printf("ok %.9g\n", answer);
    std::fflush(stdout);
  }
}

void serve_others(const std::string& name) {
  std::cout << "ready " << name << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("ok %.9g\n", line == "cpu" ? own_cpu_seconds() : 0.0);
    std::fflush(stdout);
  }
}

CallServers::CallServers(const std::string& name, const std::vector<ProcessSpec>& processes,
                         const std::filesystem::path& logs, BetweenCalls between)
    : between_(between) {
  for (const ProcessSpec& process : processes) {
    const std::string log = str_cat(name, "-", processes_.size(), ".log");
    processes_.push_back(std::make_unique<BenchProcess>(process, logs / log));
  }
  const auto deadline = Clock::now() + kStartTimeout;
  for (const auto& process : processes_) {
    const std::string line = process->receive(deadline);
    STRATA_CHECK(line.rfind("ready", 0) == 0, kUnavailable, "it printed: ", line);
  }
  freeze();
}

CallServers::~CallServers() { thaw(); }

void CallServers::freeze() {
  if (between_ == BetweenCalls::kSleep) return;
  for (const auto& process : processes_) process->freeze();
}

void CallServers::thaw() {
  if (between_ == BetweenCalls::kSleep) return;
  for (const auto& process : processes_) process->thaw();
}

double CallServers::ask(const std::string& line, bool sum) {
  STRATA_CHECK(failure_.empty(), kUnavailable, failure_);
  try {
    return ask_all(line, sum);
  } catch (const Error& error) {
    failure_ = str_cat(error.what(), " (", line, ")");
    processes_.clear();
    throw Error(ErrorCode::kUnavailable, failure_);
  }
}

double CallServers::ask_all(const std::string& line, bool sum) {
  thaw();
  for (const auto& process : processes_) process->send(line);
  const auto deadline = Clock::now() + kTurnTimeout;
  double result = 0;
  for (const auto& process : processes_) {
    const std::string answer = process->receive(deadline);
    STRATA_CHECK(answer.rfind("ok ", 0) == 0, kUnavailable, "it printed: ", answer);
    const double value = std::strtod(answer.c_str() + 3, nullptr);
    result = sum ? result + value : std::max(result, value);
  }
  freeze();
  return result;
}

double CallServers::run(const Calls& calls) { return ask(calls.line(), false); }
double CallServers::cpu_seconds() { return ask("cpu", true); }

namespace {

class CallCaseRun {
 public:
  CallCaseRun(const CallTurns& turns, const CallCase& call_case)
      : turns_(turns), case_(call_case) {}

  CallResults run() {
    for (const CallSystem& system : case_.systems) start(system);
    measure();
    return report();
  }

 private:
  struct System {
    const CallSystem* spec;
    Calls calls;
    std::vector<double> us;
  };

  JsonLine line(const std::string& system, const std::string& metric) const {
    JsonLine json;
    json.add("suite", case_.suite).add("case", case_.name).add("system", system);
    json.add("metric", metric);
    return json;
  }

  void missing(const std::string& name, const std::string& reason) {
    missing_[name] = reason;
    std::cerr << "bench " << case_.name << ": " << name << " is missing: " << reason << std::endl;
    line(name, "us").add("missing", reason).print();
  }

  /// As many calls as a turn has time for.
  int64_t repeats(double us) const {
    return static_cast<int64_t>(std::clamp(1e6 * turns_.seconds / std::max(us, 0.1),
                                           static_cast<double>(turns_.least_repeats),
                                           kMostRepeats));
  }

  /// Tries each operation, and keeps the fastest.
  void start(const CallSystem& spec) {
    if (spec.servers == nullptr) return missing(spec.name, spec.missing);
    System best{&spec, {}, {}};
    double best_us = INFINITY;
    try {
      for (const std::string& operation : spec.operations) {
        Calls calls{operation, case_.bytes, turns_.least_repeats};
        calls.repeats = repeats(spec.servers->run(calls));
        double us = spec.servers->run(calls);
        if (spec.operations.size() > 1 && us < kQuickCall) {
          us = std::min(us, spec.servers->run(calls));  // a choice between nearly equal ones
        }
        calls.repeats = repeats(us);
        if (us < best_us) {
          best_us = us;
          best.calls = calls;
        }
      }
      systems_.emplace(spec.name, std::move(best));
    } catch (const Error& error) {
      missing(spec.name, error.what());
    }
  }

  double turn(const std::string& name) {
    System& system = systems_.at(name);
    try {
      system.us.push_back(system.spec->servers->run(system.calls));
      return system.us.back();
    } catch (const Error& error) {
      systems_.erase(name);
      missing(name, str_cat("failed in the run: ", error.what()));
      return 0;
    }
  }

  void measure() {
    std::vector<const CallRatio*> pairs;
    std::set<std::string> paired;
    for (const CallRatio& ratio : case_.ratios) {
      if (!systems_.contains(ratio.tested) || !systems_.contains(ratio.baseline)) continue;
      pairs.push_back(&ratio);
      paired.insert({ratio.tested, ratio.baseline});
    }
    std::vector<std::string> alone;
    for (const auto& [name, system] : systems_) {
      if (!paired.contains(name)) alone.push_back(name);
    }
    std::mt19937 order(1);
    for (int round = 0; round < turns_.pairs; ++round) {
      std::shuffle(pairs.begin(), pairs.end(), order);
      for (const CallRatio* ratio : pairs) {
        if (!systems_.contains(ratio->tested) || !systems_.contains(ratio->baseline)) continue;
        double tested = 0;
        if (round % 2 == 0) tested = turn(ratio->tested);
        const double baseline = turn(ratio->baseline);
        if (round % 2 == 1) tested = turn(ratio->tested);
        if (tested > 0 && baseline > 0) {
          ratios_[{ratio->metric, ratio->baseline}].push_back(baseline / tested);
        }
      }
      for (const std::string& name : alone) {
        if (systems_.contains(name)) turn(name);
      }
    }
  }

  CallResults report() const {
    CallResults results;
    for (const auto& [name, system] : systems_) {
      const Estimate result = estimate(system.us);
      results.us[name] = result.median;
      JsonLine json = line(name, "us");
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", std::string("us"));
      json.add("samples", static_cast<double>(system.us.size()));
      if (system.spec->operations.size() > 1) json.add("variant", system.calls.operation);
      json.print();
    }
    for (const CallRatio& ratio : case_.ratios) {
      JsonLine json = line(ratio.tested, ratio.metric);
      json.add("against", ratio.baseline);
      const auto found = ratios_.find({ratio.metric, ratio.baseline});
      if (found == ratios_.end()) {
        const auto reason =
            missing_.find(missing_.contains(ratio.baseline) ? ratio.baseline : ratio.tested);
        json.add("missing", reason == missing_.end() ? "not run" : reason->second).print();
        results.ratios.push_back({ratio.metric, ratio.baseline, std::nullopt});
        continue;
      }
      const Estimate result = estimate(found->second);
      json.add("value", result.median).add("low", result.low).add("high", result.high);
      json.add("unit", std::string("ratio"));
      json.add("pairs", static_cast<double>(found->second.size())).print();
      results.ratios.push_back({ratio.metric, ratio.baseline, result.median});
    }
    return results;
  }

  const CallTurns& turns_;
  const CallCase& case_;
  std::map<std::string, System> systems_;
  std::map<std::string, std::string> missing_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> ratios_;
};

}  // namespace

CallResults run_call_case(const CallTurns& turns, const CallCase& call_case) {
  return CallCaseRun(turns, call_case).run();
}

void report_idle(const std::string& suite, const std::string& case_name,
                 const std::vector<CallSystem>& systems) {
  std::map<CallServers*, double> before;
  for (const CallSystem& system : systems) {
    if (system.servers && !before.contains(system.servers.get())) {
      before[system.servers.get()] = system.servers->cpu_seconds();
    }
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (const CallSystem& system : systems) {
    const auto found = before.find(system.servers.get());
    if (found == before.end()) continue;
    const double percent = 100 * (system.servers->cpu_seconds() - found->second);
    before.erase(found);
    JsonLine json;
    json.add("suite", suite).add("case", case_name).add("system", system.name);
    json.add("metric", std::string("idle_cpu")).add("value", percent);
    json.add("unit", std::string("percent")).print();
    if (percent > 2) {
      std::cerr << "bench " << case_name << ": WARNING: " << system.name << " uses " << percent
                << " % of a core while it sleeps" << std::endl;
    }
  }
}

}  // namespace strata::bench
