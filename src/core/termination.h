#pragma once

namespace strata::detail {

/// While it lives, SIGTERM does not kill: who holds it asks, and ends in order. One at a time;
/// restores the old handler. Threads: made and ended by one; asked by any.
class TerminationGuard {
 public:
  /// False: there is one already.
  static bool possible();

  TerminationGuard();
  ~TerminationGuard();
  TerminationGuard(const TerminationGuard&) = delete;
  TerminationGuard& operator=(const TerminationGuard&) = delete;

  /// SIGTERM has come since it was made.
  bool requested() const;
};

}  // namespace strata::detail
