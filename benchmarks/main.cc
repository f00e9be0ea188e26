// strata-bench, which `strata bench SUITE` runs: the suites, their options and their help. What is
// measured, and against which systems, is in suites/.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "suites/collective.h"
#include "suites/estimator.h"
#include "suites/kernels.h"
#include "suites/options.h"
#include "suites/processor.h"
#include "suites/ps.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

tools::CommandHelp bench_help() {
  return {
      .usage = "strata bench SUITE [options]",
      .description =
          R"(A JSON line a result on standard output; progress on standard error. Stop whatever else computes on the
machine first. benchmarks/README.md explains every number. Suites:

  step      images/s of training loops, strata beside its peers in one interleaved run
            cases: run mlp-loop cnn-loop wide-loop small-loop tiny-loop mlp-fit cnn-fit
            systems: strata-1 strata-2 independent-2 libtorch-1 libtorch-1-tuned
                     tf-1 jax-1 ddp-2 tf-mirrored-2 tf-mirrored-2-graph strata-mw-2 tf-mw-2
                     strata-central-2 strata-2-shared strata-2-copies strata-portable-1
            models, examples/s: dense dense-bf16 transformer transformer-512 transformer-bf16 lstm
                     resnet20
            systems: strata-1 strata-2 independent-2 strata-nn-1 strata-nn-2 strata-encoder-1
                     strata-1-float32 strata-portable-1 torch-1 torch-1-best torch-1-eager-attention tf-1 jax-1
                     ddp-2 tf-mirrored-2 peak-1 peak-2
  models    images/s of training ResNet-50 through fit, 224 x 224, batch 16 a replica
            systems: strata-1 strata-2 independent-2 libtorch-1 libtorch-1-channels-last tf-1
  gpu       images/s of training loops and of ResNet-50 on the first GPU (a CUDA build)
            cases: mlp-loop cnn-loop wide-loop resnet50
            systems: strata-gpu-1 strata-gpu-2 strata-gpu-4 (logical GPUs) libtorch-gpu
                     libtorch-gpu-tuned libtorch-gpu-channels-last
  estimator examples/s of Estimator::train on one core, beside fit and TensorFlow 2.15's Estimator
            cases: mnist wide-deep; systems: strata-1 fit-1 tf-1
  attention scaled dot products, forward and backward on one core, beside libtorch's
            cases: 64 64-causal 512 512-causal
  reduce    the in-process all-reduce of two CPU replicas
  data      batches of input pipelines, strata beside tf.data and torch's DataLoader; and how
            long a training step waits for its input
            cases: shuffle-batch jpeg distorted-jpeg tfrecord
                   tfrecord-parse wait
            systems: strata-2 tfdata-2 dataloader-2, of distorted-jpeg also strata-1 tfdata-1
                     torchvision-1
  collective
            all-reduce and others between processes, beside Open MPI and Gloo
            cases: memory/2 tcp/2 memory/4 tcp/4; systems: strata mpi gloo floor
  network   all-reduce between hosts on shaped lines, which are network namespaces (needs root), and
            on modelled lines of 5 ms
            cases: 1gbit/2 1gbit/4 1gbit/8 100mbit/2 100mbit/4 100mbit/8
                   modelled-5ms/2 modelled-5ms/4 modelled-5ms/8 overlap
                   parameter servers: ps/100mbit/8MB ps/300mbit/25MB ps/one-worker/8MB
                   ps/fast-workers/8MB ps/slow-worker/asynchronous ps/slow-worker/backups
                   ps/slow-worker/synchronous ps/slow-line/asynchronous
            systems: strata strata-ring gloo mpi
  ps        parameter servers beside torch.distributed.rpc and TensorFlow's, and beside a plain copy
            cases: dense/P/1MiB dense/P/25MB dense/P/64MiB rows/P (P: 1, 2 or 4 servers)
                   pull/1KiB mnist mnist-ahead mnist-sync
            systems: strata strata-tcp rpc rpc-tcp tf-ps copy copy-tcp independent-2
  checkpoint
            what saving 100 MB costs the training, and the disk's speed
            cases: async files
)"};
}

fs::path default_peers_dir() {
  if (const char* peers = std::getenv("STRATA_PEERS")) return peers;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return fs::path(cache) / "strata/peers";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/root") / ".cache/strata/peers";
}

struct Suite {
  const char* name;
  int (*run)(const BenchOptions& options);
};

constexpr Suite kSuites[] = {{"step", run_step_suite},
                             {"models", run_models_suite},
                             {"gpu", run_gpu_suite},
                             {"estimator", run_estimator_suite},
                             {"attention", run_attention_suite},
                             {"reduce", run_reduce_suite},
                             {"collective", run_collective_suite},
                             {"network", run_network_suite},
                             {"ps", run_ps_suite},
                             {"checkpoint", run_checkpoint_suite},
                             {"data", run_data_suite}};

// Processes that suites, and `strata kernels`, start.
struct Worker {
  const char* name;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr Worker kWorkers[] = {{"worker", run_worker},
                               {"data-worker", run_data_worker},
                               {"estimator-worker", run_estimator_worker},
                               {"collective-worker", run_collective_worker},
                               {"ps-worker", run_ps_worker},
                               {"measure-kernels", run_measure_kernels}};

/// "1,16" as numbers.
std::vector<int> batches_of(const std::string& list) {
  std::vector<int> batches;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool digits = !part.empty() && part.size() < 6 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    STRATA_CHECK(digits && std::stoi(part) > 0, kInvalidArgument, "[strata bench] got --batch ",
                 list, "; expected numbers from 1 on, as 1,16,64,256");
    batches.push_back(std::stoi(part));
  }
  return batches;
}

void declare_options(tools::CommandLine& line, BenchOptions& options,
                     std::chrono::duration<double>& sample) {
  line.list("--case", "A,B", "some cases only", options.cases);
  line.list("--systems", "A,B",
            "some systems only (step, models, gpu, data, collective, network, ps)",
            options.systems);
  line.option("--batch", "1,16,...",
              "step: batches a replica of the models that it trains, each in turn",
              [&options](const std::string& value) { options.batches = batches_of(value); });
  line.yes_or_no("--zeros", "step: no: inputs without the zeros of MNIST's images (default yes)",
                 options.zeros);
  line.number("--pairs", "N", "interleaved pairs, at least 15 (default 15)", options.pairs, 1);
  line.seconds("--seconds-per-sample", "S", "default 0.5; collective 0.1, network and ps 0.2",
               sample);
  line.yes_or_no("--quick",
                 "models, gpu: batch 2 of 64 x 64, to see that all systems run; not a\nresult",
                 options.quick);
  line.option("--against", "'PROGRAM ...'",
              "also systems other-1, other-2, other-mw-2 (step), other (collective, ps):\n"
              "another build of strata's, as /old/build/release/strata-bench, with\n"
              "ratios vs_other",
              [&options](const std::string& value) {
                std::istringstream program(value);
                options.against.assign(std::istream_iterator<std::string>(program), {});
              });
  line.option("--clock", "wall|cpu",
              "cpu: images per CPU second, for a look at systems of one core while\n"
              "the machine is busy; not a result",
              [&options](const std::string& value) {
                STRATA_CHECK(value == "wall" || value == "cpu", kInvalidArgument,
                             "[strata bench] got --clock ", value, "; expected wall or cpu");
                options.cpu_clock = value == "cpu";
              });
  line.option("--peers-dir", "DIR",
              "peers' Python environments (default ~/.cache/strata/peers, filled by\n"
              "scripts/install_peers.sh)",
              [&options](const std::string& value) { options.peers_dir = value; });
  line.option("--scripts-dir", "DIR", "peers' programs (default: benchmarks/peers of the sources)",
              [&options](const std::string& value) { options.scripts_dir = value; });
}

}  // namespace

int run_bench(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const Worker& worker : kWorkers) {
    if (!words.empty() && words[0] == worker.name)
      return worker.run({words.begin() + 1, words.end()});
  }
  BenchOptions options;
  options.peers_dir = default_peers_dir();
  options.scripts_dir = STRATA_BENCH_SCRIPTS;
  options.command = fs::read_symlink("/proc/self/exe");
  std::chrono::duration<double> sample{options.seconds};
  tools::CommandLine line("strata bench", bench_help());
  declare_options(line, options, sample);
  if (!line.read(words)) {
    std::cout << line.help();
    return 0;
  }
  options.seconds = sample.count();
  if (line.operands().empty()) {
    std::cerr << line.help();
    return tools::kUsageError;
  }
  STRATA_CHECK(line.operands().size() == 1, kInvalidArgument, "[strata bench] got ",
               line.operands()[0], " and ", line.operands()[1], "; expected one suite");
  const std::string& name = line.operands()[0];
  const auto* const suite =
      std::ranges::find_if(kSuites, [&](const Suite& each) { return each.name == name; });
  STRATA_CHECK(suite != std::end(kSuites), kInvalidArgument, "[strata bench] got suite ", name,
               "; expected step, models, gpu, estimator, attention, reduce, collective, network, "
               "ps, checkpoint "
               "or data");
  if (options.pairs < 15) {
    std::cerr << "bench: " << options.pairs << " pairs are for a quick look; a result needs 15\n";
  }
  print_processor(name);
  return suite->run(options);
}

}  // namespace strata::bench

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata bench",
                                       [&] { return strata::bench::run_bench(argc, argv); });
}
