#include "suites/serve.h"

#include <torch/version.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "suites/multiplications.h"

namespace strata::bench {
namespace {

bool peak_of_steps = false;

void serve_steps(const std::function<double(long)>& steps,
                 const std::function<void()>& before_clock) {
  steps(3);
  std::cout << "ready strata " << STRATA_VERSION << " torch " << TORCH_VERSION << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    long count = 0;
    if (std::sscanf(line.c_str(), "run %ld", &count) != 1 || count < 1) break;
    before_clock();
    const auto start = std::chrono::steady_clock::now();
    const double value = steps(count);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("ok %.9f %.6f\n", elapsed.count(), value);
    std::fflush(stdout);
  }
}

}  // namespace

void serve_peak_of_steps() { peak_of_steps = true; }

void serve(const std::function<double(long)>& steps, const std::function<void()>& before_clock) {
  if (!peak_of_steps) return serve_steps(steps, before_clock);
  steps(1);  // what only the first one does
  const int64_t multiplications = count_multiplications([&] { steps(1); });
  std::cerr << "multiplications of a step: " << multiplications << std::endl;
  serve_steps([=](long count) { return multiply_at_peak(count * multiplications); }, [] {});
}

}  // namespace strata::bench
