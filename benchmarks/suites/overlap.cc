#include "suites/overlap.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/collective.h"
#include "suites/interleaved.h"
#include "suites/netns_testbed.h"
#include "suites/stats.h"
#include "suites/step_data.h"
#include "suites/systems.h"

namespace strata::bench {
namespace {

constexpr auto kCase = "overlap";
/// Gradients of `cnn-loop`.
constexpr int64_t kBytes = 4 * (320 + 18496 + 1179776 + 1290);
/// Large, so that the cores that compute have little to do for the line.
constexpr int64_t kBatch = 512;
/// Of a step's time without communication; backward takes about as much.
constexpr double kShareOfStep = 2.0 / 3;
/// That say how long such a step takes.
constexpr int kFirstSamples = 7;

JsonLine result(const std::string& system, const std::string& metric) {
  JsonLine json;
  json.add("suite", std::string("network")).add("case", std::string(kCase));
  return std::move(json.add("system", system).add("metric", metric));
}

void print(JsonLine json, const std::vector<double>& values, const std::string& unit) {
  const Estimate all = estimate(values);
  json.add("value", all.median).add("low", all.low).add("high", all.high).add("unit", unit).print();
}

class OverlapRun {
 public:
  explicit OverlapRun(const BenchOptions& options)
      : options_(options), data_(workspace_.path() / "data"), cpus_(two_cores()), testbed_(2) {
    write_step_data(data_, {.batch = kBatch, .batches = 4});
  }

  void run() {
    const double seconds = options_.seconds_or(0.5);
    RunningSystem alone({"alone", 1, {}, {}}, {"", {worker(0), worker(1)}}, workspace_.path());
    alone.calibrate(seconds);
    std::vector<double> steps;
    for (int i = 0; i < kFirstSamples; ++i) steps.push_back(1 / alone.sample().steps_per_second);
    const double step = estimate(steps).median;
    const double rate = 8 * static_cast<double>(kBytes) / (kShareOfStep * step);
    for (int host = 0; host < testbed_.num_hosts(); ++host)
      testbed_.shape(host, {.bits_per_second = rate});
    std::cerr << "bench overlap: a step takes " << 1e3 * step << " ms; lines of " << rate * 1e-6
              << " Mbit/s" << std::endl;

    std::vector<RankHost> hosts;
    for (size_t host = 0; host < cpus_.size(); ++host) {
      const int at = static_cast<int>(host);
      hosts.push_back(
          {.address = testbed_.address(at), .enter = testbed_.enter(at), .cpus = {cpus_[host]}});
    }
    CollectiveSystems collectives(options_, hosts, /*shared=*/false, workspace_.path());
    const CallSystem calls = collectives.strata("wire");
    STRATA_CHECK(calls.servers != nullptr, kUnavailable, calls.missing);
    RunningSystem overlapped({"strata", 1, {}, {}}, {"", workers(true, 7400)}, workspace_.path());
    RunningSystem behind({"strata-behind", 1, {}, {}}, {"", workers(false, 7410)},
                         workspace_.path());
    overlapped.calibrate(seconds);
    behind.calibrate(seconds);

    std::map<std::string, std::vector<double>> us, ratios;
    const auto of = [](RunningSystem& system) { return 1e6 / system.sample().steps_per_second; };
    for (int round = 0; round < options_.pairs; ++round) {
      const double computes = of(alone);
      const double with = of(overlapped);
      const double communicates =
          calls.servers->run({.operation = "all_reduce", .bytes = kBytes, .repeats = 3});
      const double without = of(behind);
      us["alone"].push_back(computes);
      us["all-reduce"].push_back(communicates);
      us["strata"].push_back(with);
      us["strata-behind"].push_back(without);
      ratios["vs_longer"].push_back(std::max(computes, communicates) / with);
      ratios["vs_behind"].push_back(without / with);
    }
    for (const auto& [system, values] : us) print(result(system, "us"), values, "us");
    for (const auto& [metric, values] : ratios) {
      JsonLine json = result("strata", metric);
      json.add("pairs", static_cast<double>(values.size()));
      print(std::move(json), values, "ratio");
    }
  }

 private:
  ProcessSpec worker(size_t i) const {
    return {{options_.command, "worker", "--case", "cnn-loop", "--data", data_}, {}, {cpus_[i]}};
  }

  /// A host each.
  std::vector<ProcessSpec> workers(bool overlap, int port) const {
    std::vector<std::string> addresses;
    for (int host = 0; host < testbed_.num_hosts(); ++host) {
      addresses.push_back(str_cat(testbed_.address(host), ":", port));
    }
    std::vector<ProcessSpec> processes;
    for (int host = 0; host < testbed_.num_hosts(); ++host) {
      ProcessSpec process = worker(static_cast<size_t>(host));
      const std::vector<std::string> enter = testbed_.enter(host);
      process.argv.insert(process.argv.begin(), enter.begin(), enter.end());
      process.argv.insert(process.argv.end(),
                          {"--cluster", "yes", "--overlap", overlap ? "yes" : "no"});
      process.environment = {worker_role(addresses, static_cast<size_t>(host))};
      processes.push_back(std::move(process));
    }
    return processes;
  }

  const BenchOptions& options_;
  const BenchWorkspace workspace_;
  const std::filesystem::path data_;
  const std::vector<int> cpus_;
  NetworkTestbed testbed_;
};

}  // namespace

void run_overlap_case(const BenchOptions& options) {
  const std::string missing = NetworkTestbed::missing();
  if (!missing.empty()) {
    result("strata", "vs_longer").add("missing", missing).print();
    return;
  }
  try {
    OverlapRun(options).run();
  } catch (const Error& error) {
    result("strata", "vs_longer").add("missing", std::string(error.what())).print();
  }
}

}  // namespace strata::bench
