// Suite `reduce`: the in-process all-reduce of two CPU replicas (collective's `shared` back end),
// beside a plain memory copy. All-reducing n bytes on two replicas reads and writes n bytes on
// each; so does a memcpy of n bytes on each, both at once, and that is what `vs_memcpy` compares
// with.
#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <vector>

#include "collective/in_process/in_process.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "suites/options.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

constexpr int kReplicas = 2;
constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Times {
  std::vector<double> all_reduce;  // seconds of one call, a value a round
  std::vector<double> copy;
};

/// Rounds of `repeats` all-reduces and then `repeats` copies, by both replicas together.
Times measure(MirroredStrategy& strategy, int64_t bytes, int rounds, int repeats) {
  Times times;
  std::vector<at::Tensor> values, copies;
  for (int r = 0; r < kReplicas; ++r) {
    values.push_back(at::full({bytes / 4}, 0.0, at::kFloat));
    copies.push_back(at::full({bytes / 4}, 0.0, at::kFloat));
  }
  strategy.run([&] {
    const int id = get_replica_context()->local_replica();
    auto& rendezvous = strategy.group().rendezvous();
    at::Tensor& value = values[static_cast<size_t>(id)];
    void* const copy = copies[static_cast<size_t>(id)].data_ptr();
    auto together = [&] { rendezvous.arrive(id, {.name = "bench"}); };
    for (int round = -1; round < rounds; ++round) {  // round -1 warms up
      together();
      double start = now();
      for (int i = 0; i < repeats; ++i)
        collective::all_reduce_(rendezvous, id, value, ReduceOp::kSum);
      together();
      if (id == 0 && round >= 0) times.all_reduce.push_back((now() - start) / repeats);
      together();
      start = now();
      for (int i = 0; i < repeats; ++i) {
        std::memcpy(copy, value.data_ptr(), static_cast<size_t>(bytes));
        // Keeps the compiler from dropping copies of what was copied before.
        asm volatile("" : : "r"(copy) : "memory");
      }
      together();
      if (id == 0 && round >= 0) times.copy.push_back((now() - start) / repeats);
    }
  });
  return times;
}

void print(const std::string& size, const std::string& metric, const std::vector<double>& values,
           const std::string& unit) {
  const Estimate result = estimate(values);
  JsonLine json;
  json.add("suite", std::string("reduce")).add("case", size).add("system", std::string("strata-2"));
  json.add("metric", metric)
      .add("value", result.median)
      .add("low", result.low)
      .add("high", result.high);
  json.add("unit", unit).add("pairs", static_cast<double>(values.size())).print();
}

}  // namespace

int run_reduce_suite(const BenchOptions& options) {
  set_logical_devices("cpu", kReplicas);
  MirroredOptions strategy_options;
  strategy_options.devices = {"cpu:0", "cpu:1"};
  strategy_options.replicas.threads_per_replica = 1;
  MirroredStrategy strategy(strategy_options);
  for (int64_t bytes = kKiB; bytes <= 64 * kMiB; bytes *= 4) {
    const std::string size = size_name(bytes);
    if (!options.cases.empty() &&
        std::find(options.cases.begin(), options.cases.end(), size) == options.cases.end()) {
      continue;
    }
    // A first look says how often to repeat it for the wanted time of a sample.
    const double once = measure(strategy, bytes, 1, 3).all_reduce[0];
    const int repeats =
        static_cast<int>(std::clamp(options.seconds_or(0.5) / 2 / once, 1.0, 20000.0));
    const Times times = measure(strategy, bytes, options.pairs, repeats);
    std::vector<double> us, rate, ratio;
    for (size_t i = 0; i < times.all_reduce.size(); ++i) {
      us.push_back(times.all_reduce[i] * 1e6);
      rate.push_back(static_cast<double>(bytes) / times.all_reduce[i] * 1e-9);
      ratio.push_back(times.copy[i] / times.all_reduce[i]);
    }
    print(size, "us", us, "us");
    print(size, "bandwidth", rate, "GB/s");
    if (bytes >= kMiB)
      print(size, "vs_memcpy", ratio, "ratio");  // below, barriers decide, not memory
    std::cerr << "bench reduce: " << size << " done" << std::endl;
  }
  return 0;
}

}  // namespace strata::bench
