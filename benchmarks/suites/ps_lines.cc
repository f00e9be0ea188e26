// Cases `ps/...` of suite network: parameter servers on shaped lines, beside what the lines carry,
// and what a slow worker means to the others.
#include <algorithm>
#include <iostream>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/ps.h"
#include "suites/ps_link_model.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

/// A step takes a second or so and hardly varies.
constexpr int kMostRounds = 5;
constexpr double kStepsARound = 10;

/// Step times.
struct StepCase {
  const char* name;
  PsLinkModel::Hosts hosts;
  int64_t bytes;
};
constexpr StepCase kStepCases[] = {
    {"ps/100mbit/8MB", {4, 4, 1e8, 1e8}, 8'000'000},
    {"ps/300mbit/25MB", {4, 4, 3e8, 3e8}, 25'000'000},
    // One worker alone, whose line is as fast as all servers' together.
    {"ps/one-worker/8MB", {1, 4, 4e8, 1e8}, 8'000'000},
    // Only the servers' are slow, which several workers share at a time.
    {"ps/fast-workers/8MB", {4, 4, 4e8, 1e8}, 8'000'000},
};

/// One worker is slow: in each step it computes for five times as long, or its line is.
struct SlowCase {
  const char* name;
  const char* consistency;
  double compute;  ///< seconds
  bool line;
};
constexpr double kSlow = 5;
constexpr PsLinkModel::Hosts kSlowHosts = {4, 4, 1e8, 1e8};
constexpr int64_t kSlowBytes = 2'000'000;
constexpr double kSlowSeconds = 8;  // of a round, each of the two
constexpr SlowCase kSlowCases[] = {
    {"ps/slow-worker/asynchronous", "asynchronous", 0.3, false},
    {"ps/slow-worker/backups", "backups", 0.3, false},
    {"ps/slow-worker/synchronous", "synchronous", 0.3, false},
    {"ps/slow-line/asynchronous", "asynchronous", 0, true},
};

JsonLine result(const std::string& name, const std::string& system, const std::string& metric) {
  JsonLine json;
  json.add("suite", std::string("network")).add("case", name).add("system", system);
  return std::move(json.add("metric", metric));
}

void print_estimate(JsonLine json, const std::vector<double>& values, const std::string& unit) {
  const Estimate all = estimate(values);
  json.add("value", all.median).add("low", all.low).add("high", all.high).add("unit", unit);
  json.add("pairs", static_cast<double>(values.size())).print();
}

void measure(const BenchOptions& options, const StepCase& measured) {
  const BenchWorkspace workspace;
  PsLinkModel lines(options.command, measured.hosts, workspace.path());
  const double law = lines.law(measured.bytes);
  const PsTraining training = {.bytes = measured.bytes,
                               .seconds = options.seconds_or(kStepsARound * law)};
  lines.run({.bytes = measured.bytes, .seconds = 3 * law});  // makes the table
  std::vector<double> us, vs_law, vs_shortest;
  for (int round = 0; round < std::min(options.pairs, kMostRounds); ++round) {
    const double step = step_of(lines.run(training), measured.hosts.workers);
    us.push_back(1e6 * step);
    vs_law.push_back(law / step);
    vs_shortest.push_back(lines.shortest(measured.bytes) / step);
  }
  print_estimate(result(measured.name, "strata", "us"), us, "us");
  print_estimate(result(measured.name, "strata", "vs_law"), vs_law, "ratio");
  print_estimate(result(measured.name, "strata", "vs_shortest"), vs_shortest, "ratio");
}

void measure(const BenchOptions& options, const SlowCase& measured) {
  const BenchWorkspace workspace;
  PsLinkModel lines(options.command, kSlowHosts, workspace.path());
  const PsTraining even = {.consistency = measured.consistency,
                           .bytes = kSlowBytes,
                           .compute = measured.compute,
                           .seconds = options.seconds_or(kSlowSeconds)};
  PsTraining one_slow = even;
  const int last = kSlowHosts.workers - 1;
  if (!measured.line) one_slow.slow = kSlow;
  lines.run(even);  // makes the table
  std::vector<double> all, others, ratio;
  for (int round = 0; round < std::min(options.pairs, kMostRounds); ++round) {
    const double without = step_of(lines.run(even), last);
    if (measured.line) lines.shape(last, kSlowHosts.worker_bits_per_second / kSlow);
    const double with = step_of(lines.run(one_slow), last);
    if (measured.line) lines.shape(last, kSlowHosts.worker_bits_per_second);
    all.push_back(1e6 * without);
    others.push_back(1e6 * with);
    ratio.push_back(without / with);
  }
  print_estimate(result(measured.name, "all-alike", "us"), all, "us");
  print_estimate(result(measured.name, "others", "us"), others, "us");
  print_estimate(result(measured.name, "others", "vs_alike"), ratio, "ratio");
}

template <typename Case>
void run(const BenchOptions& options, const Case& measured) {
  std::cerr << "bench network: " << measured.name << std::endl;
  std::string missing = NetworkTestbed::missing();
  try {
    if (missing.empty()) return measure(options, measured);
  } catch (const Error& error) {
    missing = error.what();
  }
  result(measured.name, "strata", "us").add("missing", missing).print();
}

}  // namespace

std::vector<std::string> ps_lines_cases() {
  std::vector<std::string> names;
  for (const StepCase& each : kStepCases) names.emplace_back(each.name);
  for (const SlowCase& each : kSlowCases) names.emplace_back(each.name);
  return names;
}

void run_ps_lines_cases(const BenchOptions& options, const std::vector<std::string>& names) {
  const auto wanted = [&](const char* name) { return std::ranges::count(names, name) > 0; };
  for (const StepCase& each : kStepCases) {
    if (wanted(each.name)) run(options, each);
  }
  for (const SlowCase& each : kSlowCases) {
    if (wanted(each.name)) run(options, each);
  }
}

}  // namespace strata::bench
