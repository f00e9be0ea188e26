// Suite `estimator`: training through Estimator, beside fit and TensorFlow's Estimator.
#include "suites/estimator.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/step_data.h"
#include "suites/systems.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kTableBatches = 200;

/// Adults, as the Census has them, with a name each that no table of words holds.
void write_table(const fs::path& path) {
  std::mt19937_64 random(1);
  std::ofstream file(path);
  file << "age,hours,education,occupation,user,label\n";
  for (int i = 0; i < kTableBatch * kTableBatches; ++i) {
    const uint64_t age = 17 + random() % 70, education = random() % 16, occupation = random() % 15;
    file << age << ',' << random() % 99 << ",education-" << education << ",occupation-"
         << occupation << ",user-" << random() << ',' << ((age + education + occupation) % 3 == 0)
         << '\n';
  }
  file.flush();
  STRATA_CHECK(file.good(), kUnavailable, "[strata bench] cannot write ", path.string());
}

struct EstimatorCase {
  std::string name;
  int batch;
  bool has_fit;
};

void run_case(const BenchOptions& options, const EstimatorCase& chosen, const std::string& data,
              const fs::path& logs) {
  const std::vector<int> core = {two_cores().back()};
  const auto strata = [&](const std::string& name, const std::string& through) {
    const ProcessSpec process{
        options.worker(BenchOptions::Build::kThis, {"estimator-worker", "--case", chosen.name,
                                                    "--data", data, "--through", through}),
        {},
        core};
    return SystemSpec{name, static_cast<double>(chosen.batch), {{"", {process}}}, {}};
  };
  const PythonPeers python(options, {"--case", chosen.name, "--data", data});
  const SystemSpec tf{"tf-1",
                      static_cast<double>(chosen.batch),
                      {{"", {python.process("tf_estimator", "tf_estimator.py", {}, core)}}},
                      python.missing("tf_estimator", "tf_estimator.py")};
  BenchCase bench_case{.suite = "estimator",
                       .name = chosen.name,
                       .items = "examples",
                       .systems = {strata("strata-1", "estimator"), tf},
                       .ratios = {{"vs_tf_estimator", "strata-1", "tf-1"}}};
  if (chosen.has_fit) {
    bench_case.systems.push_back(strata("fit-1", "fit"));
    bench_case.ratios.push_back({"vs_fit", "strata-1", "fit-1"});
  }
  run_interleaved(options, bench_case, logs);
}

}  // namespace

int run_estimator_suite(const BenchOptions& options) {
  const BenchWorkspace workspace;
  for (const std::string& name : chosen_cases(options, "estimator", {"mnist", "wide-deep"})) {
    const fs::path data = workspace.path() / name;
    if (name == "mnist") {
      write_step_data(data, {});
      run_case(options, {name, kStepBatch, /*has_fit=*/true}, data.string(), workspace.path());
    } else {
      write_table(data);
      run_case(options, {name, kTableBatch, /*has_fit=*/false}, data.string(), workspace.path());
    }
  }
  return 0;
}

}  // namespace strata::bench
