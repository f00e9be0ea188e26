#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "core/wait_notice.h"
#include "strata/wire/deadline.h"

namespace strata::collective {

struct SetupExchangeOptions {
  std::string name;                               ///< "setting up MPI"
  std::chrono::milliseconds timeout;              ///< of the whole set-up
  std::chrono::milliseconds time_to_report = {};  ///< more, to tell the others of a wait in vain
  std::stop_token failed;                         ///< a rank is lost
  std::string late;                               ///< why the time may have passed
  std::function<std::string()> waits_for;         ///< the notice of a long wait
};

/// The steps of setting up a back end over `bootstrap`. Every rank makes each of them, whatever
/// happens to one of them.
class SetupExchange {
 public:
  SetupExchange(Communicator& bootstrap, SetupExchangeOptions options);

  /// @return what each rank brings.
  std::vector<std::string> gather(const std::string& local);

  /// @param fault  Of this rank; empty: none.
  /// @return the first rank with a fault, and its fault; the same on all ranks.
  std::optional<std::pair<size_t, std::string>> first_fault(const std::string& fault);

  /// To be called while this rank waits outside of `gather`.
  /// @throws Error  kUnavailable: a rank is lost. kDeadlineExceeded. What `bootstrap` failed with.
  void check();

 private:
  Communicator& bootstrap_;
  const SetupExchangeOptions options_;
  const wire::Deadline deadline_;
  detail::WaitNotice notice_;
};

}  // namespace strata::collective
