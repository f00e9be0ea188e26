#include "suites/serve.h"

#include <torch/version.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "suites/multiplications.h"

namespace strata::bench {
namespace {

bool peak_of_steps = false;

void serve_steps(const std::function<double(long)>& steps,
                 const std::function<void()>& before_clock) {
  steps(StepRequests::kWarmUp);
  StepRequests requests;
  while (const long count = requests.next(before_clock)) requests.answer(steps(count));
}

}  // namespace

StepRequests::StepRequests() {
  std::cout << "ready strata " << STRATA_VERSION << " torch " << TORCH_VERSION << std::endl;
}

long StepRequests::next(const std::function<void()>& before_clock) {
  std::string line;
  long count = 0;
  if (!std::getline(std::cin, line)) return 0;
  if (std::sscanf(line.c_str(), "run %ld", &count) != 1 || count < 1) return 0;
  before_clock();
  start_ = std::chrono::steady_clock::now();
  return count;
}

void StepRequests::answer(double value) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  std::printf("ok %.9f %.6f\n", elapsed.count(), value);
  std::fflush(stdout);
}

void serve_peak_of_steps() { peak_of_steps = true; }

void serve(const std::function<double(long)>& steps, const std::function<void()>& before_clock) {
  if (!peak_of_steps) return serve_steps(steps, before_clock);
  steps(1);  // what only the first one does
  const int64_t multiplications = count_multiplications([&] { steps(1); });
  std::cerr << "multiplications of a step: " << multiplications << std::endl;
  serve_steps([=](long count) { return multiply_at_peak(count * multiplications); }, [] {});
}

}  // namespace strata::bench
