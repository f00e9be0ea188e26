// Suite `checkpoint`. Case `async`: two replicas train an MLP whose state (weights and two slots of
// Adam) is 100 MB; in each round some steps without and some with an asynchronous save at their
// beginning, in changing order. How much longer the step with the save takes, the call of `save`
// included, and the steps behind it, for as long as the writer works and at least as many as
// without. Case `files`: saving and restoring the same state while nothing else runs, beside plain
// writes with fsync, and plain reads, of as many bytes.
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "suites/options.h"
#include "suites/stats.h"

namespace strata::bench {
namespace {

constexpr int kReplicas = 2;
constexpr int64_t kBatch = 512;  // a replica: steps of some 0.2 s
constexpr int64_t kFeatures = 1024, kHidden = 2048, kClasses = 1000;
constexpr int kSteps = 8;  // of a window

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Net : torch::nn::Module {
  Net()
      : fc1(register_module("fc1", torch::nn::Linear(kFeatures, kHidden))),
        fc2(register_module("fc2", torch::nn::Linear(kHidden, kHidden))),
        fc3(register_module("fc3", torch::nn::Linear(kHidden, kClasses))) {}
  at::Tensor forward(const at::Tensor& x) { return fc3(at::relu(fc2(at::relu(fc1(x))))); }
  torch::nn::Linear fc1, fc2, fc3;
};

MirroredStrategy make_strategy() {
  set_logical_devices("cpu", kReplicas);
  return MirroredStrategy(
      {.devices = {"cpu:0", "cpu:1"}, .seed = 1, .replicas = {.threads_per_replica = 1}});
}

/// A training run and its checkpoint, in a folder that goes with it.
class Run {
 public:
  explicit Run(bool asynchronous)
      : checkpoint_({{"model", net_}, {"optimizer", adam_}}, {.asynchronous = asynchronous}) {
    const auto temporary = std::filesystem::temp_directory_path() / "strata-bench-XXXXXX";
    folder_ = temporary.string();
    STRATA_CHECK(::mkdtemp(folder_.data()) != nullptr, kUnavailable,
                 "[strata bench] got no folder ", folder_);
    for (int r = 0; r < kReplicas; ++r) {
      x_.push_back(at::randn({kBatch, kFeatures}));
      y_.push_back(at::randint(kClasses, {kBatch}, at::kLong));
    }
    for (int i = 0; i < 3; ++i) (void)step();
  }
  ~Run() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Seconds of one step.
  double step() {
    const double start = now();
    strategy_.run([&] {
      const auto id = static_cast<size_t>(get_replica_context()->local_replica());
      adam_.minimize(compute_average_loss(losses::sparse_categorical_crossentropy(
                                              y_[id], net_->forward(x_[id]), {.from_logits = true}),
                                          kBatch * kReplicas));
    });
    return now() - start;
  }

  /// Replaces the one before; @return seconds of the call.
  double save() {
    const double start = now();
    (void)checkpoint_.write(path());
    return now() - start;
  }
  std::string path() const { return folder_ + "/ckpt-1"; }
  const std::string& folder() const { return folder_; }
  Checkpoint& checkpoint() { return checkpoint_; }
  double state_bytes() const {
    double bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      bytes += static_cast<double>(entry.file_size());
    }
    return bytes;
  }

 private:
  MirroredStrategy strategy_ = make_strategy();
  Replicated<Net> net_ = strategy_.replicate([] { return Net(); });
  optimizers::Adam adam_{net_.variables(), {.learning_rate = 1e-3}};
  std::vector<at::Tensor> x_, y_;
  std::string folder_;
  Checkpoint checkpoint_;
};

void print(const std::string& name, const std::string& metric, const std::vector<double>& values,
           const std::string& unit) {
  const Estimate result = estimate(values);
  JsonLine json;
  json.add("suite", std::string("checkpoint")).add("case", name);
  json.add("system", std::string("strata-2")).add("metric", metric);
  json.add("value", result.median).add("low", result.low).add("high", result.high);
  json.add("unit", unit).add("pairs", static_cast<double>(values.size())).print();
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct SaveWindow {
  double call = 0;   // of save
  double first = 0;  // the step with the save, without the call
  std::vector<double> later;
};

SaveWindow window_with_save(Run& run) {
  SaveWindow window;
  window.call = run.save();
  window.first = run.step();
  while (run.checkpoint().saving() || static_cast<int>(window.later.size()) < kSteps) {
    window.later.push_back(run.step());
  }
  run.checkpoint().wait();
  return window;
}

void bench_async(const BenchOptions& options) {
  Run run(/*asynchronous=*/true);
  run.checkpoint().prepare();
  (void)window_with_save(run);
  std::vector<double> step_ms, call_ms, in_step, later, writing;
  for (int round = 0; round < options.pairs; ++round) {
    std::vector<double> plain;
    const auto without = [&] {
      for (int i = 0; i < kSteps; ++i) plain.push_back(run.step());
    };
    if (round % 2 == 0) without();
    const SaveWindow with = window_with_save(run);
    if (round % 2 == 1) without();
    const double base = mean(plain);
    step_ms.push_back(base * 1e3);
    call_ms.push_back(with.call * 1e3);
    in_step.push_back(100 * ((with.call + with.first) / base - 1));
    later.push_back(100 * (mean(with.later) / base - 1));
    writing.push_back(static_cast<double>(with.later.size()));
  }
  print("async", "state", {run.state_bytes() * 1e-6}, "MB");
  print("async", "step", step_ms, "ms");
  print("async", "save_call", call_ms, "ms");
  print("async", "step_with_save_slower", in_step, "percent");
  print("async", "later_steps_slower", later, "percent");
  print("async", "steps_until_written", writing, "steps");
}

/// Seconds to write and fsync `bytes` zeros.
double plain_write(const std::string& path, const std::vector<std::byte>& bytes) {
  const double start = now();
  const auto file = local_file_system().create(path);
  file->append(bytes);
  file->sync();
  file->close();
  return now() - start;
}

double plain_read(const std::string& path, std::vector<std::byte>& bytes) {
  const double start = now();
  const auto file = local_file_system().open(path);
  (void)file->read(0, bytes);
  return now() - start;
}

void bench_files(const BenchOptions& options) {
  Run run(/*asynchronous=*/false);
  (void)run.save();
  const double megabytes = run.state_bytes() * 1e-6;
  std::vector<std::byte> bytes(static_cast<size_t>(run.state_bytes()), std::byte{1});
  std::vector<double> save, write, restore, read, vs_write, vs_read;
  const std::string file = run.folder() + "/plain";
  for (int round = 0; round < options.pairs; ++round) {
    double tested = 0;
    if (round % 2 == 0) tested = run.save();
    const double baseline = plain_write(file, bytes);
    if (round % 2 == 1) tested = run.save();
    save.push_back(megabytes / tested);
    write.push_back(megabytes / baseline);
    vs_write.push_back(baseline / tested);
    const double start = now();
    run.checkpoint().read(run.path()).assert_consumed();
    const double restoring = now() - start;
    const double reading = plain_read(file, bytes);
    restore.push_back(megabytes / restoring);
    read.push_back(megabytes / reading);
    vs_read.push_back(reading / restoring);
  }
  print("files", "save", save, "MB/s");
  print("files", "write_fsync", write, "MB/s");
  print("files", "vs_write_fsync", vs_write, "ratio");
  print("files", "restore", restore, "MB/s");
  print("files", "read", read, "MB/s");
  print("files", "vs_read", vs_read, "ratio");
}

}  // namespace

int run_checkpoint_suite(const BenchOptions& options) {
  for (const std::string& name : options.cases) {
    STRATA_CHECK(name == "async" || name == "files", kInvalidArgument,
                 "[strata bench] checkpoint: got case ", name, "; expected async or files");
  }
  const auto chosen = [&](const char* name) {
    return options.cases.empty() ||
           std::find(options.cases.begin(), options.cases.end(), name) != options.cases.end();
  };
  if (chosen("async")) bench_async(options);
  if (chosen("files")) bench_files(options);
  return 0;
}

}  // namespace strata::bench
