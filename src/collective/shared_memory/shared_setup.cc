#include "collective/shared_memory/shared_setup.h"

#include <unistd.h>

#include <limits>
#include <new>

#include "collective/shared_memory/shared_memory_channel.h"
#include "core/wait_notice.h"
#include "strata/collective/placement.h"
#include "strata/core/error.h"
#include "strata/wire/deadline.h"
#include "wire/host_identity.h"

namespace strata::collective {
namespace {

constexpr const char* kWhere = "[collective] SharedMemoryCommunicator: ";

/// The steps of the set-up, each of which all ranks make, whatever happens to one of them.
class SetupExchange {
 public:
  SetupExchange(Communicator& bootstrap, const SharedMemoryOptions& options)
      : bootstrap_(bootstrap),
        options_(options),
        deadline_(wire::Deadline::after(options.start_timeout)),
        notice_([] { return str_cat(kWhere, "waits for the other ranks of this host"); },
                wire::Deadline::Clock::now(), deadline_.time()) {}

  std::vector<std::string> gather(const std::string& local) {
    using std::chrono::milliseconds;
    return bootstrap_.all_gather_bytes(
        local, {.id = std::numeric_limits<uint32_t>::max(),
                .name = "setting up shared memory",
                .timeout = std::chrono::duration_cast<milliseconds>(deadline_.left()),
                .stop = options_.failed});
  }

  /// Does this rank's part. @throws Error  kUnavailable on all ranks, if it fails on one.
  template <typename Part>
  void together(const std::vector<std::string>& names, Part&& part) {
    std::string fault;
    try {
      part();
    } catch (const std::exception& error) {
      fault = error.what();
      on_fault_();
    }
    const std::vector<std::string> faults = gather(fault);
    for (size_t rank = 0; rank < faults.size(); ++rank) {
      STRATA_CHECK(faults[rank].empty(), kUnavailable, kWhere, "rank ", rank, " (", names[rank],
                   ") cannot share memory: ", faults[rank], "; use the wire");
    }
  }
  /// The others may be waiting for what this rank does not do.
  void set_on_fault(std::function<void()> on_fault) { on_fault_ = std::move(on_fault); }

  void check() {
    bootstrap_.status().throw_if_error();
    STRATA_CHECK(!options_.failed.stop_requested(), kUnavailable,
                 "the set-up was stopped, because a rank is lost");
    STRATA_CHECK(!deadline_.passed(), kDeadlineExceeded, "another rank did not come in time");
    notice_.look(wire::Deadline::Clock::now());
  }

 private:
  Communicator& bootstrap_;
  const SharedMemoryOptions& options_;
  const wire::Deadline deadline_;
  detail::WaitNotice notice_;
  std::function<void()> on_fault_ = [] {};
};

}  // namespace

SharedSetup set_up_shared_memory(Communicator& bootstrap, const SharedMemoryOptions& options) {
  const int rank = bootstrap.rank();
  const int ranks = bootstrap.num_ranks();
  STRATA_CHECK(ranks <= SharedHeader::kMaxRanks, kInvalidArgument, kWhere, "got ", ranks,
               " ranks; expected at most ", SharedHeader::kMaxRanks, " on a host");
  SetupExchange exchange(bootstrap, options);
  SharedSetup setup;
  setup.names =
      exchange.gather(options.name.empty() ? str_cat("process ", ::getpid()) : options.name);
  const std::vector<int> hosts = hosts_of(exchange.gather(wire::host_identity()));
  for (int other = 1; other < ranks; ++other) {
    const auto index = static_cast<size_t>(other);
    STRATA_CHECK(hosts[index] == 0, kFailedPrecondition, kWhere, "ranks 0 (", setup.names[0],
                 ") and ", other, " (", setup.names[index],
                 ") do not share a host, a network namespace and a user; use the wire");
  }
  const auto check = [&] { exchange.check(); };
  exchange.set_on_fault([&] { setup.descriptors = DescriptorExchange(); });
  exchange.together(setup.names, [&] {
    if (rank == 0) setup.descriptors.listen();
  });
  const std::string address = exchange.gather(setup.descriptors.address()).front();
  exchange.together(setup.names, [&] {
    if (rank != 0) setup.descriptors.connect(address, check);
  });
  exchange.together(setup.names, [&] {
    if (rank == 0) {
      setup.descriptors.accept(ranks - 1, check);
      setup.file = wire::make_memory_file(
          "strata collectives", SharedMemoryChannel::offset(SharedHeader::kMaxChannels, ranks));
    }
    setup.file = setup.descriptors.share(std::move(setup.file), check);
    setup.header = wire::SharedMapping(setup.file, 0, sizeof(SharedHeader));
  });
  return setup;
}

}  // namespace strata::collective
