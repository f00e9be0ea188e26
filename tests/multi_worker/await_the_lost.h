#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "wire/transport.h"

namespace strata::test {

/// With STRATA_TEST_AWAIT=<step>: before that step's end is left, whoever was lost has been started
/// anew and waits to be taken in.
inline void await_the_lost(const MultiWorkerMirroredStrategy& strategy, int64_t step) {
  const char* const when = std::getenv("STRATA_TEST_AWAIT");
  const auto server = strategy.server();
  if (when == nullptr || !server || step != std::atoll(when)) return;
  const auto all = static_cast<size_t>(server->spec().num_tasks("worker"));
  const auto come = [&] {
    return server->members().size() + server->newcomers().size() >= all || !server->status().ok();
  };
  (void)server->transport().wait_until(come, wire::Deadline::after(std::chrono::seconds(20)));
}

}  // namespace strata::test
