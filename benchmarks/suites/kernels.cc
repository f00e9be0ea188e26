// Measures this library's kernels beside libtorch's, class by class, for the table of the source.
#include "suites/kernels.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include "core/cpu_model.h"
#include "kernels/kernel_table.h"
#include "strata/core/error.h"
#include "strata/kernels/cpu_kernels.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/stats.h"
#include "tensor/random_streams.h"

namespace strata::bench {
namespace {

using kernels::KernelClassInfo;
using kernels::KernelRow;

constexpr int kPairs = 15;
constexpr double kSampleSeconds = 0.02;

/// Of this thread, on which all of it runs: what else the machine does counts less.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const std::function<void()>& run, int calls) {
  const double begin = cpu_seconds();
  for (int i = 0; i < calls; ++i) run();
  return cpu_seconds() - begin;
}

/// With what a replica function has, or without.
double sample(const KernelCase& measured, bool own, int calls) {
  static tensor::RandomStream stream(7, 0);
  std::optional<tensor::RandomStreamGuard> replica;
  if (own) replica.emplace(stream);
  return seconds_of(measured.run, calls);
}

struct Measured {
  double rate;       ///< the median of pairs that ran right after one another
  double libtorchs;  ///< milliseconds
};

Measured measure(const KernelCase& measured) {
  sample(measured, true, 2);
  const double once = sample(measured, false, 3) / 3;
  const int calls = std::max(1, static_cast<int>(kSampleSeconds / once));
  std::vector<double> rates, times;
  for (int i = 0; i < kPairs; ++i) {
    times.push_back(sample(measured, false, calls));
    rates.push_back(times.back() / sample(measured, true, calls));
  }
  return {.rate = estimate(rates).median, .libtorchs = estimate(times).median / calls * 1e3};
}

/// The rows' form in src/kernels/kernel_table.inc. @param rates  By class; 0: not measured.
std::string row_text(const std::vector<double>& rates) {
  constexpr const char* kIsas[] = {"kBaseline", "kAvx2", "kAvx512"};
  constexpr const char* kSuffixes[] = {"baseline", "avx2", "avx512"};
  const CpuIsa isa = best_cpu_isa();
  const CpuModel& model = cpu_model();
  const KernelRow& known = kernels::nearest_row(isa, model.family, model.model);
  const bool exact = kernels::is_exact(known, isa, model.family, model.model);
  std::ostringstream text;
  const auto index = static_cast<size_t>(isa);
  text << "{\"";
  if (exact) {
    text << known.name;
  } else {
    text << "family" << model.family << "-model" << model.model << '-' << kSuffixes[index];
  }
  text << "\",\n CpuIsa::" << kIsas[index] << ",\n 0x" << std::hex << std::uppercase
       << std::setfill('0') << std::setw(2) << model.family << ",\n 0x" << std::setw(2)
       << model.model << ",\n 0x" << std::setw(2) << model.model << ",\n"
       << std::dec << " \"" << (exact ? std::string(known.measured_on) : model.name) << "\",\n {\n";
  for (const KernelClassInfo& info : kernels::kKernelClasses) {
    const double rate = rates[kernels::index_of(info.id)];
    if (rate == 0) continue;
    text << "     {\"" << info.name << "\", " << std::fixed << std::setprecision(2) << rate
         << "},\n";
  }
  text << " }},\n";
  return text.str();
}

}  // namespace

int run_measure_kernels(const std::vector<std::string>& arguments) {
  ::setenv("STRATA_KERNELS", "strata", 1);  // NOLINT(concurrency-mt-unsafe): before any thread
  kernels::use_cpu_kernels();
  STRATA_CHECK(kernels::kernel_table_name() != "libtorch", kUnimplemented,
               "[strata kernels] --measure: this strata has no kernels for this processor, or was "
               "built with STRATA_CPU_KERNELS=OFF; nothing is to be measured");
  tensor::install_cpu_allocator();  // as strategies do: else new memory is what is measured
  at::set_num_threads(1);
  std::vector<double> logarithms(kernels::kNumKernelClasses), counts(kernels::kNumKernelClasses);
  for (const KernelCase& each : kernel_cases()) {
    const auto [rate, libtorchs] = measure(each);
    const KernelClassInfo& info = kernels::kKernelClasses[kernels::index_of(each.of)];
    std::cerr << std::left << std::setw(28) << info.name << std::fixed << std::setprecision(2)
              << std::setw(7) << rate << std::setw(10) << libtorchs << " ms  " << each.shape
              << "\n";
    logarithms[kernels::index_of(each.of)] += std::log(rate);
    counts[kernels::index_of(each.of)] += 1;
  }
  std::vector<double> rates;
  for (size_t i = 0; i < counts.size(); ++i) {
    rates.push_back(counts[i] == 0 ? 0 : std::exp(logarithms[i] / counts[i]));
  }
  const std::string text = row_text(rates);
  std::cout << text << std::flush;
  if (arguments.empty()) return 0;
  std::ofstream file(arguments[0], std::ios::trunc);
  file << text << std::flush;
  STRATA_CHECK(file.good(), kUnavailable, "[strata kernels] --write: cannot write ", arguments[0]);
  return 0;
}

}  // namespace strata::bench
