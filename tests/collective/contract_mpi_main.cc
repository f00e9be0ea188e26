// The contract of communicators for MPI: every process that mpirun has started runs all tests, and
// is one of the ranks. What they share beside MPI is in the folder STRATA_TEST_FOLDER. With
// STRATA_TEST_MPI the program uses MPI itself: SERIALIZED, FUNNELED, or FINALIZED, when it is done
// with it; or it only says what two of its processes get that start MPI alone: PARTLY.
#include <ATen/Context.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "collective/contract_ranks.h"
#include "collective/mpi/mpi_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/roles.h"
#include "strata/cluster/server.h"

namespace strata::collective {
namespace {

using cluster::TaskId;

wire::Deadline soon() { return wire::Deadline::after(std::chrono::seconds(120)); }

/// This process among the others, for all tests. The last of MPI's is worker 0.
cluster::Server& server() {
  static cluster::Server* const server = [] {
    const cluster::Cluster found = cluster::resolve_cluster().value();
    const int last = static_cast<int>(cluster::training_tasks(found.spec).size()) - 1;
    return new cluster::Server(found.spec, TaskId{"worker", last - found.task.index});
  }();
  return *server;
}

std::atomic<int>& counter_in(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(std::atomic<int>)) != 0) std::abort();
  void* const memory =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) std::abort();
  ::close(fd);
  return *static_cast<std::atomic<int>*>(memory);
}

MpiOptions options_of(const std::string& back_end) {
  MpiOptions options{.name = server().task().to_string()};
  if (back_end == "mpi_pieces") {
    options.small_bytes = 100;
    options.piece_bytes = 10'000;
  }
  if (back_end == "mpi_partly") options.start_timeout = std::chrono::seconds(1);
  if (back_end == "mpi_any") options.order = Order::kAny;
  return options;
}

}  // namespace

struct ContractRanks::Impl {
  int number;  // of these ranks among all tests'
  std::vector<std::shared_ptr<wire::Connection>> peers = {};
  std::shared_ptr<Communicator> communicator = {};  // null: this process is none of the ranks
  std::atomic<int>* counter = nullptr;
  int shared = 0;
};

std::vector<std::string> ContractRanks::back_ends() { return {"mpi", "mpi_pieces"}; }

ContractRanks::ContractRanks(const std::string& back_end, const Placement& placement) {
  static int made = 0;
  impl_ = std::make_unique<Impl>(Impl{.number = ++made});
  const int rank = server().task().index;
  const std::string name = str_cat("ranks ", made);
  impl_->counter = &counter_in(str_cat(std::getenv("STRATA_TEST_FOLDER"), "/", name));
  if (rank >= placement.num_ranks()) return;
  for (int other = 0; other < placement.num_ranks(); ++other) {
    impl_->peers.push_back(other == rank ? nullptr
                                         : server().connect({"worker", other}, name, soon()));
  }
  const std::shared_ptr<wire::Transport> transport(std::shared_ptr<void>(), &server().transport());
  impl_->communicator = make_mpi_communicator(
      std::make_shared<WireCommunicator>(
          rank, impl_->peers, transport,
          std::make_shared<Planner>(placement, LinkModel::typical(), CommunicationOptions{})),
      options_of(back_end));
}

ContractRanks::~ContractRanks() = default;

void ContractRanks::run(const std::function<void(Communicator&)>& function) {
  std::exception_ptr error;
  try {
    if (impl_->communicator) function(*impl_->communicator);
  } catch (...) {
    error = std::current_exception();
  }
  server().barrier("run", soon());
  if (error) std::rethrow_exception(error);
}

void ContractRanks::cut_off(int) {
  for (const auto& peer : impl_->peers) {
    if (peer) peer->close(wire::Deadline::after(std::chrono::milliseconds(50)));
  }
}

std::atomic<int>& ContractRanks::counter() { return *impl_->counter; }

void ContractRanks::share(std::vector<std::string>& by_rank) {
  const std::string name = str_cat("shared ", impl_->number, " ", ++impl_->shared, " ");
  const auto rank = static_cast<size_t>(server().task().index);
  if (rank < by_rank.size()) server().set(str_cat(name, rank), by_rank[rank]);
  for (size_t other = 0; other < by_rank.size(); ++other) {
    by_rank[other] = server().get(str_cat(name, other), soon());
  }
}

}  // namespace strata::collective

namespace {

using namespace strata::collective;

/// @return whether this program is to finalize it.
bool initialize_mpi(const std::string& how) {
  if (how.empty()) return false;
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, how == "FUNNELED" ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED,
                  &level);
  if (how != "FINALIZED") return true;
  MPI_Finalize();
  return false;
}

int start_partly() {
  try {
    const ContractRanks two("mpi_partly", Placement::blocks({1, 1}));
  } catch (const strata::Error& error) {
    std::printf("%s\n", error.what());
  }
  server().barrier("partly", soon());  // nobody ends before
  server().shutdown(soon());
  return 0;
}

int run_tests() {
  at::manual_seed(1);  // the same values in all processes
  {
    // MPI is initialised by all processes at once, and most tests are for some of them.
    const std::vector<int> one_each(server().members().size(), 1);
    const ContractRanks all("mpi", Placement::blocks(one_each));
  }
  const int failed = RUN_ALL_TESTS();
  server().shutdown(soon());
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const set = std::getenv("STRATA_TEST_MPI");
  const std::string how = set == nullptr ? "" : set;
  if (how == "PARTLY") return start_partly();
  const bool finalizes = initialize_mpi(how);
  int status = 1;
  try {
    status = run_tests();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  if (finalizes) MPI_Finalize();
  return status;
}
