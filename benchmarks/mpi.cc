// What an all_reduce of float takes between processes that mpirun has started:
// `mpirun -n 2 mpi [rounds] [largest KiB]`. A JSON line a result, as `strata bench` prints them:
// the `mpi` back end in fixed and in any order, MPI_Allreduce itself, the wire (TCP) and shared
// memory, in turn.
#include <ATen/ops/full.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "collective/mpi/mpi_communicator.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "suites/stats.h"

namespace {

using namespace strata;
using namespace strata::collective;
using Clock = std::chrono::steady_clock;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

struct System {
  std::string name;
  std::function<void(at::Tensor&)> all_reduce;
  std::vector<double> seconds = {};
};

void print(const System& system, int ranks, int64_t bytes) {
  std::vector<double> seconds = system.seconds;
  for (double& value : seconds) value *= 1e6;
  const bench::Estimate result = bench::estimate(seconds);
  bench::JsonLine json;
  json.add("suite", std::string("mpi"));
  json.add("case", str_cat(ranks, "/", bench::size_name(bytes)));
  json.add("system", system.name).add("metric", std::string("us"));
  json.add("value", result.median).add("low", result.low).add("high", result.high);
  json.add("unit", std::string("us")).add("pairs", static_cast<double>(seconds.size())).print();
}

void measure(std::vector<System>& systems, Communicator& wire, int rounds, int64_t bytes) {
  at::Tensor tensor = at::full({bytes / 4}, 1.0);
  const auto seconds_each = [&](const System& system, int repeats) {
    wire.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) system.all_reduce(tensor);
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  };
  std::vector<int> repeats;
  for (System& system : systems) {
    system.seconds.clear();
    seconds_each(system, 2);
    at::Tensor count = at::full({1}, std::clamp(0.01 / seconds_each(system, 3), 1.0, 5000.0));
    wire.broadcast_(count, 0);
    repeats.push_back(static_cast<int>(*count.const_data_ptr<float>()));
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < systems.size(); ++i) {
      systems[i].seconds.push_back(seconds_each(systems[i], repeats[i]));
    }
  }
}

int run_main(int rounds, int64_t largest) {
  const auto found = cluster::resolve_cluster();
  STRATA_CHECK(found.has_value(), kInvalidArgument, "start it with mpirun -n 2");
  cluster::Server server(found->spec, found->task);
  const auto limit = wire::Deadline::after(std::chrono::seconds(60));
  const int rank = server.task().index;
  const auto ranks = static_cast<int>(server.members().size());
  std::vector<std::shared_ptr<wire::Connection>> peers;
  peers.reserve(static_cast<size_t>(ranks));
  for (int other = 0; other < ranks; ++other) {
    peers.push_back(other == rank ? nullptr : server.connect({"worker", other}, "bench", limit));
  }
  const std::vector<int> each(static_cast<size_t>(ranks), 1);
  const auto wire = std::make_shared<WireCommunicator>(
      rank, std::move(peers),
      std::shared_ptr<wire::Transport>(std::shared_ptr<void>(), &server.transport()),
      std::make_shared<Planner>(Placement::blocks(each, ranks), LinkModel::typical(),
                                CommunicationOptions{}));
  const auto fixed = make_mpi_communicator(wire);
  const auto any = make_mpi_communicator(wire, {.order = Order::kAny});
  SharedMemoryCommunicator shared(wire);
  const auto with = [](Communicator& communicator) {
    return
        [&communicator](at::Tensor& tensor) { communicator.all_reduce_(tensor, ReduceOp::kSum); };
  };
  std::vector<System> systems = {{"strata-mpi", with(*fixed)},
                                 {"strata-mpi-any", with(*any)},
                                 {"mpi",
                                  [](at::Tensor& tensor) {
                                    MPI_Allreduce(MPI_IN_PLACE, tensor.data_ptr(),
                                                  static_cast<int>(tensor.numel()), MPI_FLOAT,
                                                  MPI_SUM, MPI_COMM_WORLD);
                                  }},
                                 {"strata-shared", with(shared)},
                                 {"strata-wire", with(*wire)}};
  for (const int64_t bytes :
       {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    if (bytes > largest) break;
    measure(systems, *wire, rounds, bytes);
    if (rank != 0) continue;
    for (const System& system : systems) print(system, ranks, bytes);
  }
  server.shutdown(limit);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_main(argc > 1 ? std::atoi(argv[1]) : 11,
                    (argc > 2 ? std::atoi(argv[2]) : 64 * kKiB) * kKiB);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
