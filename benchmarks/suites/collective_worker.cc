// One rank of strata in suites collective and network, and one process of the memory floor.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <iostream>
#include <map>
#include <memory>

#include "collective/planner/measure_links.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "strata/cluster/server.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/calls.h"
#include "suites/collective.h"
#include "suites/floor.h"
#include "tools/command_line.h"

namespace strata::bench {
namespace {

using collective::CommunicationOptions;
using collective::Communicator;
using collective::Order;
using collective::Planner;
using collective::WireCommunicator;

struct WorkerOptions {
  std::string backend = "wire";
  int rank = 0;
  int ranks = 2;
  int ranks_per_host = 1;
  std::vector<std::string> addresses;
  int memory_fd = -1;
};

wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }

/// What a rank has: connections of a real cluster, and a communicator for each algorithm.
class WireRank {
 public:
  explicit WireRank(const WorkerOptions& options)
      : rank_(options.rank),
        placement_(collective::Placement::blocks(
            std::vector<int>(static_cast<size_t>(options.ranks), 1), options.ranks_per_host)),
        server_(
            std::make_unique<cluster::Server>(cluster::ClusterSpec{{"worker", options.addresses}},
                                              cluster::TaskId{"worker", options.rank})) {
    for (int other = 0; other < options.ranks; ++other) {
      peers_.push_back(other == rank_ ? nullptr
                                      : server_->connect({"worker", other}, "bench", limit()));
    }
    links_ = collective::measure_links(rank_, placement_, peers_, server_->transport(), limit());
    if (rank_ == 0) std::cerr << "links " << links_.to_json() << std::endl;
  }
  ~WireRank() { server_->shutdown(wire::Deadline::after(std::chrono::seconds(1))); }

  /// @param algorithm  "" or as CommunicationOptions::implementation; every rank asks for the same
  /// in the same order. The ring adds in any order, all others in the fixed one.
  std::shared_ptr<Communicator> communicator(const std::string& algorithm) {
    std::shared_ptr<WireCommunicator>& found = communicators_[algorithm];
    if (found) return found;
    CommunicationOptions options;
    if (!algorithm.empty()) options.implementation = algorithm;
    if (algorithm == "RING") options.order = Order::kAny;
    auto planner = std::make_shared<Planner>(placement_, links_, options);
    if (rank_ == 0) {
      std::cerr << algorithm << planner->describe(collective::Collective::kAllReduce) << std::endl;
    }
    // The cluster's transport outlives its communicators.
    const std::shared_ptr<wire::Transport> transport(std::shared_ptr<void>(),
                                                     &server_->transport());
    found = std::make_shared<WireCommunicator>(
        rank_, peers_, transport, std::move(planner),
        collective::WireCommunicatorOptions{.channel =
                                                1 + static_cast<uint32_t>(communicators_.size())});
    return found;
  }

 private:
  int rank_;
  collective::Placement placement_;
  std::unique_ptr<cluster::Server> server_;
  std::vector<std::shared_ptr<wire::Connection>> peers_;
  collective::LinkModel links_;
  std::map<std::string, std::shared_ptr<WireCommunicator>> communicators_;
};

/// Calls on one long buffer. Timed ones add zeros.
class CommunicatorCalls {
 public:
  explicit CommunicatorCalls(Communicator& memory)
      : buffer_(memory.buffer(kMostCallBytes / 4, at::kFloat)) {
    buffer_.fill_(0);
  }

  std::function<void()> prepare(Communicator& communicator, const std::string& operation,
                                int64_t bytes) {
    if (operation == "all_reduce") {
      at::Tensor tensor = buffer_.narrow(0, 0, bytes / 4);
      check(communicator, tensor);
      return
          [&communicator, tensor]() mutable { communicator.all_reduce_(tensor, ReduceOp::kSum); };
    }
    if (operation == "broadcast") {
      at::Tensor tensor = buffer_.narrow(0, 0, bytes / 4);
      return [&communicator, tensor]() mutable { communicator.broadcast_(tensor, 0); };
    }
    if (operation == "all_gather") {
      const int64_t part = bytes / 4 / communicator.num_ranks();
      at::Tensor all = buffer_.narrow(0, 0, part * communicator.num_ranks());
      at::Tensor local = all.narrow(0, part * communicator.rank(), part);
      return [&communicator, local, all]() mutable { communicator.all_gather(local, all); };
    }
    STRATA_CHECK(operation == "barrier", kInvalidArgument, "[strata bench] got operation ",
                 operation);
    return [&communicator] { communicator.barrier(); };
  }

 private:
  static void check(Communicator& communicator, at::Tensor& tensor) {
    const int ranks = communicator.num_ranks();
    tensor.fill_(communicator.rank() + 1);
    communicator.all_reduce_(tensor, ReduceOp::kSum);
    const float* values = tensor.const_data_ptr<float>();
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    STRATA_CHECK(values[0] == sum && values[tensor.numel() - 1] == sum, kInternal,
                 "[strata bench] got the sum ", values[0], "; expected ", sum);
    tensor.fill_(0);
  }

  at::Tensor buffer_;
};

WorkerOptions read(const std::vector<std::string>& arguments) {
  WorkerOptions options;
  tools::CommandLine line("strata bench collective-worker", {});
  line.text("--backend", "wire|memory|floor", "", options.backend);
  line.number("--rank", "R", "", options.rank, 0);
  line.number("--ranks", "N", "", options.ranks, 1);
  line.number("--ranks-per-host", "N", "", options.ranks_per_host, 1);
  line.list("--addresses", "A,B", "", options.addresses);
  line.number("--memory-fd", "FD", "", options.memory_fd, -1);
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  return options;
}

}  // namespace

int run_collective_worker(const std::vector<std::string>& arguments) {
  const WorkerOptions options = read(arguments);
  if (options.backend == "floor") {
    const MemoryFloor floor(options.memory_fd, options.rank, options.ranks);
    serve_calls("floor",
                [&](const Calls& calls) { return floor.prepare(calls.operation, calls.bytes); });
    return 0;
  }
  tensor::install_cpu_allocator();  // as every strategy does
  at::set_num_threads(1);           // others would spin beside it
  WireRank rank(options);
  if (options.backend == "memory") {
    collective::SharedMemoryCommunicator memory(rank.communicator(""));
    CommunicatorCalls calls(memory);
    serve_calls("strata", [&](const Calls& wanted) {
      return calls.prepare(memory, wanted.operation, wanted.bytes);
    });
    return 0;
  }
  CommunicatorCalls calls(*rank.communicator(""));
  serve_calls("strata", [&](const Calls& wanted) {
    const size_t colon = std::min(wanted.operation.find(':'), wanted.operation.size());
    const std::string algorithm =
        colon == wanted.operation.size() ? "" : wanted.operation.substr(colon + 1);
    return calls.prepare(*rank.communicator(algorithm), wanted.operation.substr(0, colon),
                         wanted.bytes);
  });
  return 0;
}

}  // namespace strata::bench
