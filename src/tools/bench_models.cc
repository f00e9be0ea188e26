// Suite `models`: ResNet-50, images per second of training.
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "tools/bench_interleaved.h"
#include "tools/bench_step_data.h"
#include "tools/bench_systems.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kClasses = 1000;

struct Size {
  int64_t batch;  ///< Of each replica.
  int64_t side;   ///< Of an image, in pixels.
};
constexpr Size kFull = {16, 224};
constexpr Size kQuick = {2, 64};

const std::vector<Ratio> kRatios = {
    {"vs_libtorch", "strata-1", "libtorch-1"},
    {"vs_libtorch_channels_last", "strata-1", "libtorch-1-channels-last"},
    {"vs_tf", "strata-1", "tf-1"},
    {"vs_limit", "strata-2", "independent-2"},
};

/// Four batches of noise, channels last: how long a step takes does not depend on what is in them.
void write_data(const fs::path& path, const Size& size) {
  const std::array<int64_t, 4> head = {4, size.batch, size.side * size.side * 3, kClasses};
  std::mt19937_64 bits(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> x(static_cast<size_t>(head[0] * head[1] * head[2]));
  for (float& value : x) value = uniform(bits);
  std::vector<int64_t> y(static_cast<size_t>(head[0] * head[1]));
  for (int64_t& value : y) value = static_cast<int64_t>(bits() % kClasses);
  write_batches(path, head, x, y);
}

std::vector<SystemSpec> systems(const BenchOptions& options, const Size& size,
                                const std::string& data) {
  const std::vector<int> both = two_cores();
  const std::vector<int> one = {both.back()};
  const auto images = [&](int replicas) { return static_cast<double>(replicas * size.batch); };
  const auto strata = [&](int replicas, const std::vector<int>& cpus) {
    return ProcessSpec{{options.command, "bench", "worker", "--case", "resnet50", "--data", data,
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
  const Size& size = options.quick ? kQuick : kFull;
  const BenchWorkspace workspace;
  const fs::path data = workspace.path() / "data";
  write_data(data, size);
  run_interleaved(options,
                  {.suite = "models",
                   .name = "resnet50",
                   .items = "images",
                   .systems = systems(options, size, data.string()),
                   .ratios = kRatios},
                  workspace.path());
  return 0;
}

}  // namespace strata::tools
