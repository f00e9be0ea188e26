// One task of a cluster of processes that communicate: what communicator_process_test.cc starts.
//
//   sums KIND REPLICAS  all_reduces of REPLICAS replicas, dealt to the workers as evenly as
//                       consecutive ids can be; prints "sha256 <digest of the results>"
//   hold KIND [RANK SIGNAL]  all_reduces without end; prints "holding", and then RANK sends itself
//                       the signal
//
// KIND is wire, shared_memory or mpi. What ends it otherwise is printed: "error CODE text".
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collective/mpi/mpi_communicator.h"
#include "collective/replica_values.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "core/sha256.h"
#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"

namespace {

using namespace strata;
using namespace strata::collective;
using cluster::Server;

void say(const std::string& line) {
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

wire::Deadline soon() { return wire::Deadline::after(std::chrono::seconds(60)); }

Placement placement_of(int ranks, int replicas) {
  std::vector<int> each;
  for (int rank = 0; rank < ranks; ++rank) {
    const int share = (replicas + ranks - rank - 1) / (ranks - rank);
    each.push_back(share);
    replicas -= share;
  }
  return Placement::blocks(each, ranks);
}

std::shared_ptr<Communicator> communicate(Server& server, const std::string& kind, int replicas) {
  const auto members = server.members();
  const auto ranks = static_cast<int>(members.size());
  int rank = 0;
  while (members[static_cast<size_t>(rank)].task != server.task()) ++rank;
  std::vector<std::shared_ptr<wire::Connection>> peers;
  for (int other = 0; other < ranks; ++other) {
    const auto& task = members[static_cast<size_t>(other)].task;
    peers.push_back(other == rank ? nullptr : server.connect(task, "collective", soon()));
  }
  const std::shared_ptr<wire::Transport> transport(std::shared_ptr<void>(), &server.transport());
  const auto planner = std::make_shared<Planner>(placement_of(ranks, replicas),
                                                 LinkModel::typical(), CommunicationOptions{});
  std::shared_ptr<Communicator> result =
      std::make_shared<WireCommunicator>(rank, std::move(peers), transport, planner);
  if (kind == "wire") return result;
  if (kind == "mpi") {
    return make_mpi_communicator(result, {.name = server.task().to_string(),
                                          .failed = server.failed(),
                                          .reason = [&server] { return server.status(); }});
  }
  return std::make_shared<SharedMemoryCommunicator>(
      result, SharedMemoryOptions{.name = server.task().to_string(),
                                  .failed = server.failed(),
                                  .reason = [&server] { return server.status(); }});
}

void sums(Communicator& c) {
  Sha256 digest;
  for (const bool in_buffers : {false, true}) {
    for (const at::ScalarType dtype : kSummedDtypes) {
      for (const int64_t size : kSummedSizes) {
        std::vector<at::Tensor> local;
        for (int i = 0; i < 8; ++i) {
          at::Tensor buffer = c.buffer(size, dtype);
          if (static_cast<size_t>(i) >= c.replicas().size()) continue;
          const int replica = c.replicas()[static_cast<size_t>(i)];
          const at::Tensor value = replica_value(size, dtype, replica);
          local.push_back(in_buffers ? buffer.copy_(value) : value);
        }
        at::Tensor result = local.empty() ? at::empty({size}, dtype) : local[0];
        c.all_reduce(local, result, ReduceOp::kSum);
        digest.update(result.data_ptr(), result.nbytes());
      }
    }
  }
  say("sha256 " + digest.hex_digest());
}

void hold(Communicator& c, int victim, int signal) {
  at::Tensor tensor = at::ones({100'000});
  for (int step = 0;; ++step) {
    c.all_reduce_(tensor, ReduceOp::kMax, {.name = "gradients of dense"});
    if (step == 10) say("holding");
    if (step == 20 && c.rank() == victim) ::raise(signal);
  }
}

int run_main(const std::vector<std::string>& arguments) {
  const auto found = cluster::resolve_cluster();
  STRATA_CHECK(found.has_value(), kInvalidArgument, "no cluster");
  const char* const liveness = std::getenv("STRATA_LIVENESS_MS");
  Server server(found->spec, found->task,
                {.liveness = std::chrono::milliseconds(liveness ? std::atoi(liveness) : 10'000)});
  try {
    if (arguments.at(0) == "sums") {
      sums(*communicate(server, arguments.at(1), std::stoi(arguments.at(2))));
    } else {
      const int workers = static_cast<int>(server.members().size());
      const bool ends = arguments.size() > 3;
      hold(*communicate(server, arguments.at(1), workers), ends ? std::stoi(arguments[2]) : -1,
           ends ? std::stoi(arguments[3]) : 0);
    }
  } catch (const Error& error) {
    say(str_cat("error ", error_code_name(error.code()), " ", error.what()));
    return 1;
  }
  server.shutdown(soon());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    say(error.what());
    return 2;
  }
}
