// Suite `gpu`: training on the first GPU, beside the loop that a libtorch user writes by hand.
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/why_no_gpu.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/runtime/devices.h"
#include "suites/interleaved.h"
#include "suites/step_data.h"
#include "suites/systems.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kCases = {"mlp-loop", "cnn-loop", "wide-loop", "resnet50"};

constexpr ImageData kGpuImages = {.batch = 64, .side = 224};
constexpr ImageData kQuickGpuImages = {.batch = 2, .side = 64};

std::vector<Ratio> ratios(bool models) {
  return {{"vs_libtorch", "strata-gpu-1", "libtorch-gpu"},
          models ? Ratio{"vs_libtorch_channels_last", "strata-gpu-1", "libtorch-gpu-channels-last"}
                 : Ratio{"vs_libtorch_tuned", "strata-gpu-1", "libtorch-gpu-tuned"},
          {"vs_one", "strata-gpu-2", "strata-gpu-1"},
          {"vs_one", "strata-gpu-4", "strata-gpu-1"}};
}

std::vector<SystemSpec> systems(const BenchOptions& options, const std::string& name,
                                const std::string& data, int64_t batch) {
  const auto images = [&](int replicas) { return static_cast<double>(replicas * batch); };
  const auto strata = [&](int replicas) {
    const ProcessSpec process{{options.command, "worker", "--case", name, "--data", data,
                               "--device", "gpu", "--replicas", std::to_string(replicas)},
                              {},
                              {}};
    return SystemSpec{str_cat("strata-gpu-", replicas), images(replicas), {{"", {process}}}, {}};
  };
  const bool models = name == "resnet50";
  const fs::path program = options.command.parent_path() /
                           (models ? "strata-peer-libtorch-models" : "strata-peer-libtorch");
  const std::string missing =
      fs::exists(program) ? "" : str_cat("no ", program.string(), "; build it with the benchmarks");
  const auto libtorch = [&](const std::string& system, const std::vector<std::string>& more) {
    ProcessSpec process{{program, "--data", data, "--device", "cuda"}, {}, {}};
    if (!models) process.argv.insert(process.argv.end(), {"--case", name});
    process.argv.insert(process.argv.end(), more.begin(), more.end());
    return SystemSpec{system, images(1), {{"", {process}}}, missing};
  };
  return {strata(1), strata(2), strata(4), libtorch("libtorch-gpu", {}),
          models ? libtorch("libtorch-gpu-channels-last", {"--channels-last"})
                 : libtorch("libtorch-gpu-tuned", {"--tuned"})};
}

}  // namespace

int run_gpu_suite(const BenchOptions& options) {
  const std::vector<std::string> names = chosen_cases(options, "gpu", kCases);
  STRATA_CHECK(!list_physical_devices("GPU").empty(), kUnavailable,
               "[strata bench] gpu: libtorch sees no GPU: ", detail::why_no_gpu());
  for (const std::string& name : names) {
    const BenchWorkspace workspace;
    const fs::path data = workspace.path() / "data";
    const ImageData& size = options.quick ? kQuickGpuImages : kGpuImages;
    const bool models = name == "resnet50";
    if (models) {
      write_image_data(data, size);
    } else if (name == "wide-loop") {
      write_step_data(data, {.features = 1024, .classes = 1000});
    } else {
      write_step_data(data, {});
    }
    run_interleaved(
        options,
        {.suite = "gpu",
         .name = name,
         .items = "images",
         .systems = systems(options, name, data.string(), models ? size.batch : kStepBatch),
         .ratios = ratios(models)},
        workspace.path());
  }
  return 0;
}

}  // namespace strata::bench
