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

  /// SIGTERM has come, to this guard or to one before it that did not handle it.
  bool requested() const;
  /// It has had its effect: later guards are not asked to stop by it.
  void handled();
};

}  // namespace strata::detail
