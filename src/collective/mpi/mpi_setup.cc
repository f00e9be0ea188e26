#include "collective/mpi/mpi_setup.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "collective/mpi/mpi_process.h"
#include "core/join.h"
#include "core/wait_notice.h"
#include "strata/core/error.h"
#include "strata/wire/deadline.h"

namespace strata::collective {
namespace {

constexpr const char* kMpiSetup = "[collective] MPI: ";
constexpr int kGroupTag = 0x5354;  // of MPI_Comm_create_group, where others make groups too

// Who has waited in vain until the deadline still tells the others.
constexpr std::chrono::seconds kToTell{5};

/// The steps of the set-up, each of which all ranks make, whatever happens to one of them.
class MpiSetupExchange {
 public:
  MpiSetupExchange(Communicator& bootstrap, const MpiOptions& options)
      : bootstrap_(bootstrap),
        options_(options),
        deadline_(wire::Deadline::after(options.start_timeout)),
        names_(gather(options.name.empty() ? str_cat("process ", ::getpid()) : options.name)),
        notice_([this] { return str_cat(kMpiSetup, "waits in MPI for ", join(names_)); },
                wire::Deadline::Clock::now(), deadline_.time()) {}

  const std::vector<std::string>& names() const { return names_; }
  std::string name(size_t rank) const { return str_cat("rank ", rank, " (", names_[rank], ")"); }

  std::vector<std::string> gather(const std::string& local) {
    using std::chrono::milliseconds;
    return bootstrap_.all_gather_bytes(
        local, {.id = std::numeric_limits<uint32_t>::max(),
                .name = "setting up MPI",
                .timeout = std::chrono::duration_cast<milliseconds>(deadline_.left() + kToTell),
                .stop = options_.failed});
  }

  /// @throws Error  `code` on all ranks, if one of them has a fault.
  void agree(const std::string& fault, ErrorCode code, const std::string& advice) {
    const std::vector<std::string> faults = gather(fault);
    for (size_t rank = 0; rank < faults.size(); ++rank) {
      if (faults[rank].empty()) continue;
      throw Error(code, str_cat(kMpiSetup, name(rank), ": ", faults[rank], advice));
    }
  }
  void agree_on_start(const std::string& fault) {
    agree(fault, ErrorCode::kFailedPrecondition, advice());
  }

  /// All are different processes of one MPI job that is large enough.
  /// @return their ranks in it.
  std::vector<int> agree_on_job(const MpiPlace& local) {
    const std::vector<std::string> words = gather(str_cat(local.rank, " ", local.size));
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
      MpiProcess::get().run(std::move(body), [this] { check(); });
    } catch (const std::exception& error) {
      fault = error.what();
    }
    agree(fault, ErrorCode::kUnavailable, "");
  }

 private:
  std::string advice() const {
    return str_cat("; start all workers with one `mpirun -n ", names_.size(),
                   " ...` (mpiexec, srun --mpi=pmix), or use implementation AUTO");
  }

  void check() {
    bootstrap_.status().throw_if_error();
    STRATA_CHECK(!options_.failed.stop_requested(), kUnavailable,
                 "the set-up was stopped, because a rank is lost");
    STRATA_CHECK(!deadline_.passed(), kDeadlineExceeded,
                 "MPI has not come back in time; all processes of the MPI job must take part");
    notice_.look(wire::Deadline::Clock::now());
  }

  Communicator& bootstrap_;
  const MpiOptions& options_;
  const wire::Deadline deadline_;
  const std::vector<std::string> names_;
  detail::WaitNotice notice_;
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
  MpiSetupExchange exchange(bootstrap, options);
  exchange.agree_on_start(process.fault());
  // Two processes that take themselves for the same one must not initialise MPI.
  const auto known = process.initialized() ? place_in_world() : MpiProcess::announced().value();
  static_cast<void>(exchange.agree_on_job(known));
  const auto place = std::make_shared<MpiPlace>();  // shared with a thread that may hang
  exchange.together([place] {
    MpiProcess::get().initialize();
    *place = place_in_world();
  });
  const std::vector<int> ranks = exchange.agree_on_job(*place);
  const auto group = std::make_shared<MpiGroup>();
  exchange.together([group, ranks] { make_group(ranks, *group); });
  group->names = exchange.names();
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
