#include "collective/setup_exchange.h"

#include <limits>

#include "strata/core/error.h"

namespace strata::collective {

SetupExchange::SetupExchange(Communicator& bootstrap, SetupExchangeOptions options)
    : bootstrap_(bootstrap),
      options_(std::move(options)),
      deadline_(wire::Deadline::after(options_.timeout)),
      notice_(options_.waits_for, wire::Deadline::Clock::now(), deadline_.time()) {}

std::vector<std::string> SetupExchange::gather(const std::string& local) {
  using std::chrono::milliseconds;
  return bootstrap_.all_gather_bytes(local, {.id = std::numeric_limits<uint32_t>::max(),
                                             .name = options_.name,
                                             .timeout = std::chrono::duration_cast<milliseconds>(
                                                 deadline_.left() + options_.time_to_report),
                                             .stop = options_.failed});
}

std::optional<std::pair<size_t, std::string>> SetupExchange::first_fault(const std::string& fault) {
  const std::vector<std::string> faults = gather(fault);
  for (size_t rank = 0; rank < faults.size(); ++rank) {
    if (!faults[rank].empty()) return std::pair(rank, faults[rank]);
  }
  return std::nullopt;
}

void SetupExchange::check() {
  bootstrap_.status().throw_if_error();
  STRATA_CHECK(!options_.failed.stop_requested(), kUnavailable,
               "the set-up was stopped, because a rank is lost");
  STRATA_CHECK(!deadline_.passed(), kDeadlineExceeded, options_.late);
  notice_.look(wire::Deadline::Clock::now());
}

}  // namespace strata::collective
