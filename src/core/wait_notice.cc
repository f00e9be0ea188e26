#include "core/wait_notice.h"

#include "strata/core/log.h"
#include "strata/core/str_cat.h"

namespace strata::detail {

void WaitNotice::look(TimePoint now) {
  using std::chrono::seconds;
  if (now < next_) return;
  next_ = now + kThen;
  constexpr auto kNoLimit = std::chrono::hours(24 * 365);
  const auto whole = [](Clock::Duration time) {
    return std::chrono::duration_cast<seconds>(time).count();
  };
  std::string limit;
  if (deadline_ - begun_ < kNoLimit) limit = str_cat(" of ", whole(deadline_ - begun_), " s");
  STRATA_LOG(kWarning) << what_() << "; " << whole(now - begun_) << (limit.empty() ? " s" : "")
                       << limit << " so far";
}

}  // namespace strata::detail
