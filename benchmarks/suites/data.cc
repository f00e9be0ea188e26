// Suite `data`: batches per second of input pipelines, strata beside tf.data and torch's
// DataLoader; and how long a training step waits for its input.
#include "suites/data.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/data/image_codec.h"
#include "strata/data/mnist.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/interleaved.h"
#include "suites/stats.h"
#include "tensor/thread_setup.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const std::vector<std::string> kCases = {"shuffle-batch", "jpeg",           "distorted-jpeg",
                                         "tfrecord",      "tfrecord-parse", "wait"};

bool reads_jpegs(const std::string& name) { return name == "jpeg" || name == "distorted-jpeg"; }
constexpr int kJpegs = 256;

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.flush();
  STRATA_CHECK(out.good(), kUnavailable, "[strata bench] data: cannot write ", path.string());
}

std::string_view bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void write_mnist(const fs::path& folder) {
  const data::Example train = data::load_mnist().train;
  write_bytes(folder / "images", bytes_of_tensor(train.x()));
  write_bytes(folder / "labels", bytes_of_tensor(train.y()));
  data::TfRecordWriter writer((folder / "records").string());
  for (int64_t i = 0; i < train.num_rows(); ++i) {
    writer.write(data::serialize_example(
        {{"image", data::TfFeature::bytes({std::string(bytes_of_tensor(train.x()[i]))})},
         {"label", data::TfFeature::int64s({train.y()[i].item<int64_t>()})}}));
  }
  writer.close();
}

/// 500 x 375, like a photograph to a decoder: smooth areas, waves, and noise.
void write_jpegs(const fs::path& folder) {
  fs::create_directories(folder);
  const at::Tensor rows = at::linspace(0, 1, 375).view({375, 1, 1});
  const at::Tensor columns = at::linspace(0, 1, 500).view({1, 500, 1});
  for (int i = 0; i < kJpegs; ++i) {
    const at::Tensor waves = at::sin(rows * (3 + i % 7) + columns * (20 + i % 11) +
                                     at::linspace(0, 2, 3).view({1, 1, 3}));
    const at::Tensor noise = at::randn({375, 500, 3});
    const at::Tensor image =
        (waves * 80 + rows * 60 + 90 + noise * (4 + i % 9)).clamp(0, 255).to(at::kByte);
    char name[32];
    std::snprintf(name, sizeof(name), "%04d.jpg", i);
    write_bytes(folder / name, data::encode_jpeg(image, {.quality = 90}));
  }
}

/// Work of a fixed size on the calling thread, as a training step is.
class Step {
 public:
  Step() : a_(at::rand({256, 256})), b_(at::rand({256, 256})) {}

  void run(int repeats) const {
    for (int i = 0; i < repeats; ++i) at::mm(a_, b_);
  }

  /// How many repeats take `seconds`, nothing else running.
  int repeats_for(double seconds) const {
    run(100);
    const auto start = Clock::now();
    run(400);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    return std::max(1, static_cast<int>(400 * seconds / elapsed.count()));
  }

 private:
  at::Tensor a_, b_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A step of one core that takes 1.25 times as long as the other core needs to decode its batch:
/// which part of the loop is waiting for input?
void measure_wait(const fs::path& jpegs, int pairs) {
  tensor::install_cpu_allocator();  // as every strategy does
  tensor::apply_thread_setup({.intra_op_threads = 1});
  const auto decode_seconds = [&] {
    data::Iterator batches = decoded_jpegs(jpegs.string(), 0).iterator();
    (void)batches.next();
    const auto start = Clock::now();
    for (int i = 0; i < 4; ++i) (void)batches.next();
    return seconds_since(start) / 4;
  }();
  const Step step;
  const int repeats = step.repeats_for(1.25 * decode_seconds);
  data::Iterator batches =
      decoded_jpegs(jpegs.string(), data::kAutotune).prefetch(data::kAutotune).iterator();
  for (int i = 0; i < 4; ++i) {
    (void)batches.next();
    step.run(repeats);
  }
  std::vector<double> shares;
  for (int i = 0; i < pairs; ++i) {
    const auto before = batches.stats().wait_time;
    const auto start = Clock::now();
    for (int k = 0; k < 10; ++k) {
      (void)batches.next();
      step.run(repeats);
    }
    const std::chrono::duration<double> waited = batches.stats().wait_time - before;
    shares.push_back(waited.count() / seconds_since(start));
  }
  const Estimate result = estimate(shares);
  JsonLine()
      .add("suite", std::string("data"))
      .add("case", std::string("wait"))
      .add("system", std::string("strata-2"))
      .add("metric", std::string("wait_share"))
      .add("value", result.median)
      .add("low", result.low)
      .add("high", result.high)
      .add("unit", std::string("of the loop's time"))
      .add("samples", static_cast<double>(shares.size()))
      .print();
}

std::vector<SystemSpec> systems_of(const BenchOptions& options, const std::string& name,
                                   const fs::path& folder) {
  const std::vector<int> cpus = two_cores();
  const double rows = reads_jpegs(name) ? kJpegBatch : 128;
  const PythonPeers peers(options, {"--case", name, "--data", folder.string()});
  const auto worker = [&](const std::vector<int>& on) {
    return ProcessSpec{
        {options.command, "data-worker", "--case", name, "--data", folder.string()}, {}, on};
  };
  std::vector<SystemSpec> systems = {{"strata-2", rows, {{"", {worker(cpus)}}}, {}},
                                     {"tfdata-2",
                                      rows,
                                      {{"", {peers.process("tf", "tfdata_loop.py", {}, cpus)}}},
                                      peers.missing("tf", "tfdata_loop.py")}};
  if (name == "shuffle-batch" || reads_jpegs(name)) {
    SystemSpec loader{"dataloader-2", rows, {}, peers.missing("torch", "dataloader_loop.py")};
    for (const char* workers : {"0", "2"}) {
      loader.variants.push_back(
          {str_cat("workers-", workers),
           {peers.process("torch", "dataloader_loop.py", {"--workers", workers}, cpus)}});
    }
    systems.push_back(std::move(loader));
  }
  if (name == "distorted-jpeg") {
    const std::vector<int> cpu = {cpus[0]};
    systems.push_back({"strata-1", rows, {{"", {worker(cpu)}}}, {}});
    systems.push_back({"tfdata-1",
                       rows,
                       {{"", {peers.process("tf", "tfdata_loop.py", {}, cpu)}}},
                       peers.missing("tf", "tfdata_loop.py")});
    SystemSpec torchvision{"torchvision-1", rows, {}, peers.missing("torch", "dataloader_loop.py")};
    for (const char* transforms : {"tensors", "pillow"}) {
      torchvision.variants.push_back(
          {transforms,
           {peers.process("torch", "dataloader_loop.py", {"--torchvision", transforms}, cpu)}});
    }
    systems.push_back(std::move(torchvision));
  }
  return systems;
}

}  // namespace

int run_data_suite(const BenchOptions& options) {
  const std::vector<std::string> names = chosen_cases(options, "data", kCases);
  const BenchWorkspace workspace;
  std::cerr << "bench data: writing the files" << std::endl;
  write_mnist(workspace.path());
  write_jpegs(workspace.path() / "jpeg");
  for (const std::string& name : names) {
    if (name == "wait") {
      measure_wait(workspace.path() / "jpeg", options.pairs);
      continue;
    }
    std::vector<Ratio> ratios = {{"vs_tfdata", "strata-2", "tfdata-2"}};
    if (name == "shuffle-batch" || reads_jpegs(name)) {
      ratios.push_back({"vs_dataloader", "strata-2", "dataloader-2"});
    }
    if (name == "distorted-jpeg") {
      ratios.push_back({"vs_tfdata_one_core", "strata-1", "tfdata-1"});
      ratios.push_back({"vs_torchvision_one_core", "strata-1", "torchvision-1"});
    }
    run_interleaved(options,
                    {.suite = "data",
                     .name = name,
                     .items = "rows",
                     .systems = systems_of(options, name, workspace.path()),
                     .ratios = ratios},
                    workspace.path());
  }
  return 0;
}

}  // namespace strata::bench
