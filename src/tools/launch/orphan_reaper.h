#pragma once

#include <sys/types.h>

#include <string>

namespace strata::tools {

/// No process outlives the launcher: a small process beside it that kills the process groups which
/// the launcher has started once the launcher has ended, SIGKILLed or not. PR_SET_PDEATHSIG alone
/// would miss what those have started in turn.
///
/// Threads: make it before the process has others.
class OrphanReaper {
 public:
  /// @param folder  Removed at the end, too, with all that is in it; empty: none.
  /// @throws Error  kResourceExhausted: no process or file descriptor is left.
  explicit OrphanReaper(const std::string& folder = {});
  ~OrphanReaper();  // kills what has not been forgotten
  OrphanReaper(const OrphanReaper&) = delete;
  OrphanReaper& operator=(const OrphanReaper&) = delete;

  /// Called by a child for itself, between fork and exec: system calls only.
  /// @return false: the guard has ended.
  bool watch(pid_t group) const;
  /// That group has ended. Before its leader is reaped, or the number may be another's.
  void forget(pid_t group) const;

 private:
  int to_guard_ = -1;
  pid_t guard_ = -1;
};

}  // namespace strata::tools
