#include "collective/shared_memory/shared_setup.h"

#include <unistd.h>

#include <functional>
#include <utility>

#include "collective/setup_exchange.h"
#include "collective/shared_memory/shared_memory_channel.h"
#include "strata/collective/algorithms.h"
#include "strata/core/error.h"
#include "wire/host_identity.h"

namespace strata::collective {
namespace {

constexpr const char* kWhere = "[collective] SharedMemoryCommunicator: ";

/// Steps that succeed on all ranks or on none.
class SharedSteps {
 public:
  SharedSteps(SetupExchange& exchange, const std::vector<std::string>& names,
              std::function<void()> on_fault)
      : exchange_(exchange), names_(names), on_fault_(std::move(on_fault)) {}

  /// Does this rank's part. @throws Error  kUnavailable on all ranks, if it fails on one.
  template <typename Part>
  void together(Part&& part) {
    std::string fault;
    try {
      part();
    } catch (const std::exception& error) {
      fault = error.what();
      on_fault_();
    }
    if (const auto first = exchange_.first_fault(fault)) {
      throw Error(ErrorCode::kUnavailable,
                  str_cat(kWhere, "rank ", first->first, " (", names_[first->first],
                          ") cannot share memory: ", first->second, "; use the wire"));
    }
  }

 private:
  SetupExchange& exchange_;
  const std::vector<std::string>& names_;
  /// The others may be waiting for what this rank does not do.
  const std::function<void()> on_fault_;
};

}  // namespace

SharedSetup set_up_shared_memory(Communicator& bootstrap, const SharedMemoryOptions& options) {
  const int rank = bootstrap.rank();
  const int ranks = bootstrap.num_ranks();
  STRATA_CHECK(ranks <= SharedHeader::kMaxRanks, kInvalidArgument, kWhere, "got ", ranks,
               " ranks; expected at most ", SharedHeader::kMaxRanks, " on a host");
  SetupExchange exchange(
      bootstrap,
      {.name = "setting up shared memory",
       .timeout = options.start_timeout,
       .failed = options.failed,
       .late = "another rank did not come in time",
       .waits_for = [] { return str_cat(kWhere, "waits for the other ranks of this host"); }});
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
  SharedSteps steps(exchange, setup.names, [&] { setup.descriptors = DescriptorExchange(); });
  steps.together([&] {
    if (rank == 0) setup.descriptors.listen();
  });
  const std::string address = exchange.gather(setup.descriptors.address()).front();
  steps.together([&] {
    if (rank != 0) setup.descriptors.connect(address, check);
  });
  steps.together([&] {
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
