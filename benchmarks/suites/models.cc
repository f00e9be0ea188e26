// Suite `models`: ResNet-50, images per second of training.
#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "suites/interleaved.h"
#include "suites/step_data.h"
#include "suites/systems.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr ImageData kFull = {.batch = 16, .side = 224};
constexpr ImageData kQuick = {.batch = 2, .side = 64};

const std::vector<Ratio> kRatios = {
    {"vs_libtorch", "strata-1", "libtorch-1"},
    {"vs_libtorch_channels_last", "strata-1", "libtorch-1-channels-last"},
    {"vs_tf", "strata-1", "tf-1"},
    {"vs_limit", "strata-2", "independent-2"},
};

std::vector<SystemSpec> systems(const BenchOptions& options, const ImageData& size,
                                const std::string& data) {
  const std::vector<int> both = two_cores();
  const std::vector<int> one = {both.back()};
  const auto images = [&](int replicas) { return static_cast<double>(replicas * size.batch); };
  const auto strata = [&](int replicas, const std::vector<int>& cpus) {
    return ProcessSpec{{options.command, "worker", "--case", "resnet50", "--data", data,
                        "--replicas", std::to_string(replicas)},
                       {},
                       cpus};
  };
  const fs::path program = options.command.parent_path() / "strata-peer-libtorch-models";
  const std::string no_program =
      fs::exists(program)
          ? ""
          : str_cat("no ", program.string(), "; build target strata_peer_libtorch_models");
  const auto libtorch = [&](const std::string& name, const std::vector<std::string>& more) {
    ProcessSpec process{{program, "--data", data}, {}, one};
    process.argv.insert(process.argv.end(), more.begin(), more.end());
    return SystemSpec{name, images(1), {{"", {process}}}, no_program};
  };
  const PythonPeers python(options, {"--case", "resnet50", "--data", data});
  SystemSpec tf{"tf-1", images(1), {}, python.missing("tf", "tf_models.py")};
  // XLA's convolutions are three times slower on a CPU (--mode jit): not worth a wait.
  for (const char* mode : {"loop", "fit"}) {
    tf.variants.push_back({mode, {python.process("tf", "tf_models.py", {"--mode", mode}, one)}});
  }
  return {{"strata-1", images(1), {{"", {strata(1, one)}}}, {}},
          {"strata-2", images(2), {{"", {strata(2, both)}}}, {}},
          {"independent-2", images(2), {{"", {strata(1, {both[0]}), strata(1, {both[1]})}}}, {}},
          libtorch("libtorch-1", {}),
          libtorch("libtorch-1-channels-last", {"--channels-last"}),
          tf};
}

}  // namespace

int run_models_suite(const BenchOptions& options) {
  chosen_cases(options, "models", {"resnet50"});
  const ImageData& size = options.quick ? kQuick : kFull;
  const BenchWorkspace workspace;
  const fs::path data = workspace.path() / "data";
  write_image_data(data, size);
  run_interleaved(options,
                  {.suite = "models",
                   .name = "resnet50",
                   .items = "images",
                   .systems = systems(options, size, data.string()),
                   .ratios = kRatios,
                   .cores = two_cores()},
                  workspace.path());
  return 0;
}

}  // namespace strata::bench
