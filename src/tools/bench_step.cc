// Suite `step`: training steps per second.
#include <algorithm>
#include <fstream>
#include <random>

#include "strata/core/error.h"
#include "tools/bench_interleaved.h"
#include "tools/bench_step_systems.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  int64_t features;
  int64_t classes;
};
constexpr Case kCases[] = {{"run", 0, 0},         {"mlp-loop", 784, 10},
                           {"cnn-loop", 784, 10}, {"wide-loop", 1024, 1000},
                           {"mlp-fit", 784, 10},  {"cnn-fit", 784, 10}};

const std::vector<Ratio> kRatios = {
    {"vs_ddp", "strata-2", "ddp-2"},
    {"vs_tf_mirrored", "strata-2", "tf-mirrored-2"},
    {"vs_tf_mirrored_graph", "strata-2", "tf-mirrored-2-graph"},
    {"vs_limit", "strata-2", "independent-2"},
    {"vs_libtorch", "strata-1", "libtorch-1"},
    {"vs_libtorch_tuned", "strata-1", "libtorch-1-tuned"},
    {"vs_tf", "strata-1", "tf-1"},
    {"vs_jax", "strata-1", "jax-1"},
};

/// Of Model::fit, against our own loop and the others' best.
const std::vector<Ratio> kFitRatios = {
    {"vs_loop", "strata-2", "strata-2-loop"},
    {"vs_ddp", "strata-2", "ddp-2"},
    {"vs_tf_mirrored", "strata-2", "tf-mirrored-2"},
    {"vs_keras", "strata-2", "keras-2"},
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
  for (int64_t i = 0; i < kBatches * kStepBatch; ++i) {
    y.push_back(static_cast<int64_t>(bits() % static_cast<uint64_t>(bench_case.classes)));
    const float* from = pattern.data() + (y.back() % patterns) * bench_case.features;
    for (int64_t j = 0; j < bench_case.features; ++j) {
      x.push_back(from[j] > 0 ? std::max(0.0F, from[j] + noise(bits)) : 0.0F);
    }
  }
  const int64_t head[] = {kBatches, kStepBatch, bench_case.features, bench_case.classes};
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(head), sizeof(head));
  out.write(reinterpret_cast<const char*>(x.data()),
            static_cast<std::streamsize>(x.size() * sizeof(float)));
  out.write(reinterpret_cast<const char*>(y.data()),
            static_cast<std::streamsize>(y.size() * sizeof(int64_t)));
  out.flush();
  STRATA_CHECK(out.good(), kUnavailable, "[strata bench] cannot write ", path.string());
}

}  // namespace

int run_step_suite(const BenchOptions& options) {
  std::vector<std::string> known;
  for (const Case& each : kCases) known.emplace_back(each.name);
  const std::vector<std::string> names = chosen_cases(options, "step", known);
  for (const Case& each : kCases) {
    if (std::find(names.begin(), names.end(), each.name) == names.end()) continue;
    const BenchWorkspace workspace;
    const fs::path data = workspace.path() / "data";
    const bool is_run = each.features == 0;
    if (!is_run) write_data(data, each);
    run_interleaved(options,
                    {.suite = "step",
                     .name = each.name,
                     .items = is_run ? "" : "images",
                     .systems = step_systems(options, each.name, data, two_cores()),
                     .ratios = is_run ? std::vector<Ratio>()
                               : std::string_view(each.name).ends_with("-fit") ? kFitRatios
                                                                               : kRatios},
                    workspace.path());
  }
  return 0;
}

}  // namespace strata::tools
