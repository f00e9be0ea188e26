#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suites/process.h"

namespace strata::bench {

/// What a harness asks of a set of processes: `OPERATION BYTES REPEATS`.
struct Calls {
  std::string operation;  ///< "all_reduce", "broadcast:RING", ...
  int64_t bytes = 0;
  int64_t repeats = 0;

  std::string line() const;
  /// @throws Error kInvalidArgument: no such line.
  static Calls from_line(const std::string& line);
};

/// A process' side of the pipe (benchmarks/peers/README.md): answers `cpu` with the CPU seconds
/// that it has used, and calls with the median of their microseconds, until the input ends. While
/// it waits for a line it sleeps.
/// @param prepare  Makes one call of what is asked for, ready to be repeated.
void serve_calls(const std::string& name,
                 const std::function<std::function<void()>(const Calls&)>& prepare);

/// The same for a process that only serves the others of its system, on threads of its own: answers
/// `cpu` as above and everything else with 0, at once.
void serve_others(const std::string& name);

/// What processes do while they are not asked.
enum class BetweenCalls {
  kSleep,
  kSpin,  ///< They would slow down the system that is measured, and are stopped (SIGSTOP).
};

/// A started set of processes that answers calls together.
class CallServers {
 public:
  /// @param logs  Folder for their standard error.
  /// @throws Error  they do not start, with the reason.
  CallServers(const std::string& name, const std::vector<ProcessSpec>& processes,
              const std::filesystem::path& logs, BetweenCalls between = BetweenCalls::kSleep);
  ~CallServers();
  CallServers(const CallServers&) = delete;
  CallServers& operator=(const CallServers&) = delete;

  /// @return microseconds of the slowest process. @throws Error  one ended, or does not answer.
  double run(const Calls& calls);
  /// Of all of them.
  double cpu_seconds();

 private:
  double ask(const std::string& line, bool sum);
  double ask_all(const std::string& line, bool sum);

  void freeze();
  void thaw();

  const BetweenCalls between_;
  std::string failure_;  // who did not answer once may answer another question later: the end
  std::vector<std::unique_ptr<BenchProcess>> processes_;
};

/// One way to measure calls, under the name that results have.
struct CallSystem {
  std::string name;
  std::shared_ptr<CallServers> servers;  ///< may be shared by several; null: missing
  std::vector<std::string> operations;   ///< where there are several, the fastest counts
  std::string missing;                   ///< why there are no servers
};

struct CallRatio {
  std::string metric;
  std::string tested;
  std::string baseline;
};

/// One size of one operation.
struct CallCase {
  std::string suite;
  std::string name;
  int64_t bytes = 0;
  std::vector<CallSystem> systems;
  std::vector<CallRatio> ratios;
};

/// Of one ratio of a case; nullopt where a system is missing.
struct CallRatioResult {
  std::string metric;
  std::string baseline;
  std::optional<double> value;
};

struct CallTurns {
  int pairs = 15;
  double seconds = 0.1;  ///< of one turn
  int64_t least_repeats = 3;
};

struct CallResults {
  std::map<std::string, double> us;  ///< medians, by system
  std::vector<CallRatioResult> ratios;
};

/// Measures one case and prints its JSON lines. In each round the two systems of each ratio take
/// turns right after one another, in changing order, while all others sleep.
CallResults run_call_case(const CallTurns& turns, const CallCase& call_case);

/// Prints what each set of processes uses while it is not asked; it should be nothing.
void report_idle(const std::string& suite, const std::string& case_name,
                 const std::vector<CallSystem>& systems);

}  // namespace strata::bench
