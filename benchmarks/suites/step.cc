// Suite `step`: training steps per second.
#include <algorithm>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/step_cases.h"
#include "suites/step_model_systems.h"
#include "suites/step_systems.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

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
    {"vs_eager", "strata-function-1", "strata-1"},
    {"vs_eager", "strata-function-2", "strata-2"},
    {"vs_jax", "strata-function-1", "jax-1"},
    {"vs_native", "strata-portable-1", "strata-1"},
};

/// Of Model::fit, against our own loop and the others' best.
const std::vector<Ratio> kFitRatios = {
    {"vs_loop", "strata-2", "strata-2-loop"},        {"vs_ddp", "strata-2", "ddp-2"},
    {"vs_tf_mirrored", "strata-2", "tf-mirrored-2"}, {"vs_keras", "strata-2", "keras-2"},
    {"vs_native", "strata-portable-1", "strata-1"},
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

void write_rows(const fs::path& path, const StepCase& each) {
  using Rows = StepCase::Rows;
  const StepData data{.features = each.features,
                      .classes = each.classes,
                      .batch = each.batch,
                      .batches = each.rows == Rows::kPixels ? 32 : 8,
                      .zeros = each.zeros};
  if (each.rows == Rows::kPixels) write_step_data(path, data);
  if (each.rows == Rows::kWords) write_word_data(path, data);
  if (each.rows == Rows::kPhotos) {
    write_image_data(path,
                     {.batch = each.batch, .side = 32, .classes = each.classes, .batches = 8});
  }
}

/// The case with each of the options' batches, and with zeros or without.
std::vector<StepCase> variants_of(const BenchOptions& options, const StepCase& each) {
  std::vector<StepCase> variants;
  if (options.batches.empty()) variants.push_back(each);
  for (const int batch : options.batches) {
    STRATA_CHECK(each.trains_model, kInvalidArgument, "[strata bench] step: got --batch for case ",
                 each.name, "; expected dense, transformer, lstm or resnet20");
    variants.push_back(each);
    variants.back().batch = batch;
    if (batch != each.batch) variants.back().name += str_cat("/batch-", batch);
  }
  for (StepCase& variant : variants) {
    if (options.zeros || !variant.zeros || variant.rows != StepCase::Rows::kPixels) continue;
    variant.zeros = false;
    variant.name += "/no-zeros";
  }
  return variants;
}

void run_case(const BenchOptions& options, const StepCase& each) {
  const std::vector<int> cores = two_cores();
  const BenchWorkspace workspace;
  const fs::path data = workspace.path() / "data";
  const tools::PortReservation ports(kStepPorts);
  write_rows(data, each);
  const bool model = each.trains_model;
  std::vector<SystemSpec> systems = model ? step_model_systems(options, each, data, cores)
                                          : step_systems(options, each, data, cores, ports);
  // A core's bfloat16 products have another peak.
  if (each.rows != StepCase::Rows::kNone && !each.bf16) add_peaks(systems);
  run_interleaved(
      options,
      {.suite = "step",
       .name = each.name,
       .items = each.rows == StepCase::Rows::kNone ? "" : (model ? "examples" : "images"),
       .systems = std::move(systems),
       .ratios = model ? step_model_ratios(each, !options.against.empty())
                       : ratios_of(options, each.model),
       .cores = cores},
      workspace.path());
}

}  // namespace

int run_step_suite(const BenchOptions& options) {
  std::vector<std::string> known;
  for (const StepCase& each : step_cases()) known.push_back(each.name);
  const std::vector<std::string> names = chosen_cases(options, "step", known);
  std::vector<StepCase> chosen;
  for (const StepCase& each : step_cases()) {
    if (std::find(names.begin(), names.end(), each.name) == names.end()) continue;
    const std::vector<StepCase> variants = variants_of(options, each);
    chosen.insert(chosen.end(), variants.begin(), variants.end());
  }
  for (const StepCase& each : chosen) run_case(options, each);
  return 0;
}

}  // namespace strata::bench
