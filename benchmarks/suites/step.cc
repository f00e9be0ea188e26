// Suite `step`: training steps per second.
#include <algorithm>

#include "suites/interleaved.h"
#include "suites/step_data.h"
#include "suites/step_systems.h"

namespace strata::bench {
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
    {"vs_limit", "strata-mw-2", "independent-2"},
    {"vs_ddp", "strata-mw-2", "ddp-2"},
    {"vs_tf_mw", "strata-mw-2", "tf-mw-2"},
    {"vs_mirrored", "strata-central-2", "strata-2"},
    {"vs_shared", "strata-2-copies", "strata-2-shared"},
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

/// Of this build, against another one.
const std::vector<Ratio> kOtherRatios = {
    {"vs_other", "strata-1", "other-1"},
    {"vs_other", "strata-2", "other-2"},
    {"vs_other", "strata-mw-2", "other-mw-2"},
};

std::vector<Ratio> ratios_of(const BenchOptions& options, std::string_view name) {
  std::vector<Ratio> ratios;
  if (name != "run") ratios = name.ends_with("-fit") ? kFitRatios : kRatios;
  if (!options.against.empty()) {
    ratios.insert(ratios.end(), kOtherRatios.begin(), kOtherRatios.end());
    if (name == "run" || name.ends_with("-fit")) ratios.pop_back();
  }
  return ratios;
}

}  // namespace

int run_step_suite(const BenchOptions& options) {
  std::vector<std::string> known;
  for (const Case& each : kCases) known.emplace_back(each.name);
  const std::vector<std::string> names = chosen_cases(options, "step", known);
  const std::vector<int> cores = two_cores();
  for (const Case& each : kCases) {
    if (std::find(names.begin(), names.end(), each.name) == names.end()) continue;
    const BenchWorkspace workspace;
    const fs::path data = workspace.path() / "data";
    const tools::PortReservation ports(kStepPorts);
    const bool is_run = each.features == 0;
    if (!is_run) write_step_data(data, {.features = each.features, .classes = each.classes});
    run_interleaved(options,
                    {.suite = "step",
                     .name = each.name,
                     .items = is_run ? "" : "images",
                     .systems = step_systems(options, each.name, data, cores, ports),
                     .ratios = ratios_of(options, each.name),
                     .cores = cores},
                    workspace.path());
  }
  return 0;
}

}  // namespace strata::bench
