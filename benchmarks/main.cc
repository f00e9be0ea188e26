// strata-bench, which `strata bench SUITE` runs: the suites, their options and their help. What is
// measured, and against which systems, is in suites/.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "suites/collective.h"
#include "suites/options.h"
#include "suites/ps.h"
#include "tools/arguments.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp = R"(usage: strata bench SUITE [options]

  step      images/s of training loops, strata beside its peers in one interleaved run
            cases: run mlp-loop cnn-loop wide-loop mlp-fit cnn-fit
            systems: strata-1 strata-2 independent-2 libtorch-1 libtorch-1-tuned
                     tf-1 jax-1 ddp-2 tf-mirrored-2 tf-mirrored-2-graph strata-mw-2 tf-mw-2
                     strata-central-2 strata-2-shared strata-2-copies
  models    images/s of training ResNet-50 through fit, 224 x 224, batch 16 a replica
            systems: strata-1 strata-2 independent-2 libtorch-1 libtorch-1-channels-last tf-1
  gpu       images/s of training loops and of ResNet-50 on the first GPU (a CUDA build)
            cases: mlp-loop cnn-loop wide-loop resnet50
            systems: strata-gpu-1 strata-gpu-2 strata-gpu-4 (logical GPUs) libtorch-gpu
                     libtorch-gpu-tuned libtorch-gpu-channels-last
  reduce    the in-process all-reduce of two CPU replicas
  data      batches of input pipelines, strata beside tf.data and torch's DataLoader; and how
            long a training step waits for its input
            cases: shuffle-batch jpeg tfrecord tfrecord-parse wait
            systems: strata-2 tfdata-2 dataloader-2
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
                   pull/1KiB mnist
            systems: strata strata-tcp rpc rpc-tcp tf-ps copy copy-tcp
  checkpoint
            what saving 100 MB costs the training, and the disk's speed
            cases: async files

  --case A,B               some cases only
  --systems A,B            some systems only (step, models, gpu, data, collective, network, ps)
  --pairs N                interleaved pairs, at least 15 (default 15)
  --seconds-per-sample S   default 0.5; collective 0.1, network and ps 0.2
  --quick yes              models, gpu: batch 2 of 64 x 64, to see that all systems run; not a result
  --against 'PROGRAM ...'  also systems other-1, other-2, other-mw-2 (step), other (collective, ps):
                           another build of strata's, as /old/build/release/strata-bench, with
                           ratios vs_other
  --clock wall|cpu         cpu: images per CPU second, for a look at systems of one core while the
                           machine is busy; not a result
  --peers-dir DIR          peers' Python environments (default ~/.cache/strata/peers,
                           filled by scripts/install_peers.sh)
  --scripts-dir DIR        peers' programs (default: benchmarks/peers of the sources)

A JSON line a result on standard output; progress on standard error. Stop whatever else computes on the
machine first. benchmarks/README.md explains every number.
)";

fs::path default_peers_dir() {
  if (const char* peers = std::getenv("STRATA_PEERS")) return peers;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return fs::path(cache) / "strata/peers";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/root") / ".cache/strata/peers";
}

BenchOptions read_options(const std::vector<std::string>& arguments) {
  BenchOptions options;
  options.peers_dir = default_peers_dir();
  options.scripts_dir = STRATA_BENCH_SCRIPTS;
  options.command = fs::read_symlink("/proc/self/exe");
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    STRATA_CHECK(i + 1 < arguments.size(), kInvalidArgument, "[strata bench] got ", name,
                 " without a value; see strata bench --help");
    const std::string& value = arguments[++i];
    try {
      if (name == "--case") {
        options.cases = split_list(value);
      } else if (name == "--systems") {
        options.systems = split_list(value);
      } else if (name == "--pairs") {
        options.pairs = std::stoi(value);
      } else if (name == "--seconds-per-sample") {
        options.seconds = std::stod(value);
      } else if (name == "--clock") {
        STRATA_CHECK(value == "wall" || value == "cpu", kInvalidArgument,
                     "[strata bench] got --clock ", value, "; expected wall or cpu");
        options.cpu_clock = value == "cpu";
      } else if (name == "--quick") {
        STRATA_CHECK(value == "yes" || value == "no", kInvalidArgument,
                     "[strata bench] got --quick ", value, "; expected yes or no");
        options.quick = value == "yes";
      } else if (name == "--against") {
        std::istringstream words(value);
        options.against.assign(std::istream_iterator<std::string>(words), {});
      } else if (name == "--peers-dir") {
        options.peers_dir = value;
      } else if (name == "--scripts-dir") {
        options.scripts_dir = value;
      } else {
        STRATA_CHECK(false, kInvalidArgument, "[strata bench] got ", name,
                     "; expected an option of strata bench --help");
      }
    } catch (const std::logic_error&) {
      STRATA_CHECK(false, kInvalidArgument, "[strata bench] got ", name, " ", value,
                   "; expected a number");
    }
  }
  STRATA_CHECK(options.pairs >= 1 && options.seconds >= 0, kInvalidArgument,
               "[strata bench] got --pairs ", options.pairs, " --seconds-per-sample ",
               options.seconds, "; expected positive numbers");
  if (options.pairs < 15) {
    std::cerr << "bench: " << options.pairs << " pairs are for a quick look; a result needs 15\n";
  }
  return options;
}

}  // namespace

int run_bench(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    (arguments.empty() ? std::cerr : std::cout) << kHelp;
    return arguments.empty() ? 2 : 0;
  }
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::cout << kHelp;
      return 0;
    }
  }
  if (arguments[0] == "worker") return run_worker({arguments.begin() + 1, arguments.end()});
  if (arguments[0] == "data-worker") {
    return run_data_worker({arguments.begin() + 1, arguments.end()});
  }
  if (arguments[0] == "collective-worker") {
    return run_collective_worker({arguments.begin() + 1, arguments.end()});
  }
  if (arguments[0] == "ps-worker") return run_ps_worker({arguments.begin() + 1, arguments.end()});
  if (arguments[0] == "step") return run_step_suite(read_options(arguments));
  if (arguments[0] == "reduce") return run_reduce_suite(read_options(arguments));
  if (arguments[0] == "checkpoint") return run_checkpoint_suite(read_options(arguments));
  if (arguments[0] == "data") return run_data_suite(read_options(arguments));
  if (arguments[0] == "models") return run_models_suite(read_options(arguments));
  if (arguments[0] == "network") return run_network_suite(read_options(arguments));
  if (arguments[0] == "collective") return run_collective_suite(read_options(arguments));
  if (arguments[0] == "gpu") return run_gpu_suite(read_options(arguments));
  if (arguments[0] == "ps") return run_ps_suite(read_options(arguments));
  STRATA_CHECK(false, kInvalidArgument, "[strata bench] got suite ", arguments[0],
               "; expected step, models, gpu, reduce, collective, network, ps, checkpoint or data");
  return 2;
}

}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata bench",
                                       [&] { return strata::tools::run_bench(argc, argv); });
}
