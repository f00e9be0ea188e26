#include "collective/mpi/mpi_requests.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "core/call_notice.h"
#include "core/spin.h"
#include "strata/core/str_cat.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

// Short beside the time before it, or ranks that wait for each other would go on pausing in turn.
constexpr std::chrono::microseconds kPause{20};  // and what the system adds, about 50
constexpr std::chrono::microseconds kBusyWhereCrowded{200};
constexpr int kChecksPerThoroughOne = 16;
// Who has ended, or failed, may have done its part before, of which some is still under way.
constexpr std::chrono::milliseconds kGrace{50};

}  // namespace

void MpiWait::until(const std::function<bool()>& done, const std::function<int()>& awaited) const {
  const int checks = oversubscribed ? 1 : 100;  // a tenth of a microsecond each
  const auto end = std::chrono::steady_clock::now() +
                   (oversubscribed ? std::min(busy, kBusyWhereCrowded) : busy);
  do {
    for (int i = 0; i < checks; ++i) {
      if (done()) return;
      cpu_relax();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  std::optional<detail::CallNotice> notice;
  for (int round = 0; !done(); ++round) {
    if (name && round % kChecksPerThoroughOne == 1) {
      const auto now = std::chrono::steady_clock::now();
      if (!notice) {
        const auto what = [&] {
          return str_cat("[collective] waits for ", name(awaited()),
                         "; has it stopped, or is it slower?");
        };
        notice.emplace(what, now, deadline);
      }
      notice->look(now);
    }
    if (const auto over = check(awaited(), round % kChecksPerThoroughOne == 1)) {
      if (spin_until(done, kGrace)) return;
      over->throw_if_error();
    }
    std::this_thread::sleep_for(kPause);
  }
}

bool MpiRequests::done() {
  const std::unique_lock lock(MpiProcess::get().calls(), std::try_to_lock);
  if (!lock) return false;
  for (; next_ < operations_.size(); ++next_) {
    Operation& operation = operations_[next_];
    int over = 0;
    check_mpi(MPI_Test(&operation.request, &over, MPI_STATUS_IGNORE), operation.call);
    if (over == 0) return false;
  }
  return true;
}

void MpiRequests::finish() {
  if (!done()) wait_->until([this] { return done(); }, [this] { return operations_[next_].peer; });
  operations_.clear();
  next_ = 0;
}

}  // namespace strata::collective
