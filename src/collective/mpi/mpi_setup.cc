#include "collective/mpi/mpi_setup.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "collective/mpi/mpi_process.h"
#include "collective/setup_exchange.h"
#include "core/join.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

constexpr const char* kMpiSetup = "[collective] MPI: ";
constexpr int kGroupTag = 0x5354;  // of MPI_Comm_create_group, where others make groups too

// For a rank that has waited in vain until the deadline to tell the others.
constexpr std::chrono::seconds kTimeToReport{5};

/// What the ranks must agree on before and after MPI is initialised.
class MpiAgreement {
 public:
  MpiAgreement(Communicator& bootstrap, const MpiOptions& options)
      : exchange_(
            bootstrap,
            {.name = "setting up MPI",
             .timeout = options.start_timeout,
             .time_to_report = kTimeToReport,
             .failed = options.failed,
             .late = "MPI has not come back in time; all processes of the MPI job must take part",
             .waits_for =
                 [this] { return str_cat(kMpiSetup, "waits in MPI for ", join(names_)); }}),
        names_(exchange_.gather(options.name.empty() ? str_cat("process ", ::getpid())
                                                     : options.name)) {}

  const std::vector<std::string>& names() const { return names_; }
  std::string name(size_t rank) const { return str_cat("rank ", rank, " (", names_[rank], ")"); }

  void agree_on_start(const std::string& fault) {
    agree(fault, ErrorCode::kFailedPrecondition, advice());
  }

  /// All are different processes of one MPI job that is large enough.
  /// @return their ranks in it.
  std::vector<int> agree_on_job(const MpiPlace& local) {
    const std::vector<std::string> words = exchange_.gather(str_cat(local.rank, " ", local.size));
    std::vector<int> ranks;
    for (size_t rank = 0; rank < words.size(); ++rank) {
      const int remote = std::stoi(words[rank]);
      const int size = std::stoi(words[rank].substr(words[rank].find(' ')));
      const bool fits = size == 0 || size >= static_cast<int>(words.size());
      const bool twice = std::ranges::count(ranks, remote) > 0;
      ranks.push_back(remote);
      if (fits && !twice) continue;
      throw Error(ErrorCode::kFailedPrecondition,
                  str_cat(kMpiSetup, name(rank), ": it is process ", remote, " of ", size,
                          " in its MPI job", fits ? ", and so is another" : "", "; expected all ",
                          words.size(), " workers in one job", advice()));
    }
    return ranks;
  }

  /// Does what blocks. @throws Error  kUnavailable on all ranks, if it fails on one.
  void together(std::function<void()> body) {
    std::string fault;
    try {
      MpiProcess::get().run(std::move(body), [this] { exchange_.check(); });
    } catch (const std::exception& error) {
      fault = error.what();
    }
    agree(fault, ErrorCode::kUnavailable, "");
  }

 private:
  /// @throws Error  `code` on all ranks, if one of them has a fault.
  void agree(const std::string& fault, ErrorCode code, const std::string& advice) {
    if (const auto first = exchange_.first_fault(fault))
      throw Error(code, str_cat(kMpiSetup, name(first->first), ": ", first->second, advice));
  }

  std::string advice() const {
    return str_cat("; start all workers with one `mpirun -n ", names_.size(),
                   " ...` (mpiexec, srun --mpi=pmix), or use implementation AUTO");
  }

  SetupExchange exchange_;
  const std::vector<std::string> names_;
};

MpiPlace place_in_world() {
  MpiPlace place;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &place.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &place.size), "MPI_Comm_size");
  return place;
}

/// @param ranks  In MPI_COMM_WORLD, in the group's order.
void make_group(const std::vector<int>& ranks, MpiGroup& group) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members),
            "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, members, kGroupTag, &group.messages),
            "MPI_Comm_create_group");
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  check_mpi(MPI_Comm_set_errhandler(group.messages, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_dup(group.messages, &group.data), "MPI_Comm_dup");
  int* largest = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(group.messages, MPI_TAG_UB, static_cast<void*>(&largest), &known),
            "MPI_Comm_get_attr");
  if (known != 0) group.largest_tag = *largest;
}

}  // namespace

MpiGroup set_up_mpi(Communicator& bootstrap, const MpiOptions& options) {
  MpiProcess& process = MpiProcess::get();
  MpiAgreement agreement(bootstrap, options);
  agreement.agree_on_start(process.fault());
  // Two processes that take themselves for the same one must not initialise MPI.
  const auto known = process.initialized() ? place_in_world() : MpiProcess::announced().value();
  static_cast<void>(agreement.agree_on_job(known));
  const auto place = std::make_shared<MpiPlace>();  // shared with a thread that may hang
  agreement.together([place] {
    MpiProcess::get().initialize();
    *place = place_in_world();
  });
  const std::vector<int> ranks = agreement.agree_on_job(*place);
  const auto group = std::make_shared<MpiGroup>();
  agreement.together([group, ranks] { make_group(ranks, *group); });
  group->names = agreement.names();
  return *group;
}

void free_mpi(MpiGroup& group) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const std::unique_lock lock(MpiProcess::get().calls(), std::chrono::seconds(1));
  if (!lock) return;  // it hangs
  MPI_Comm_free(&group.data);
  MPI_Comm_free(&group.messages);
}

}  // namespace strata::collective
