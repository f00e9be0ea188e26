#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace strata::bench {

/// How to start one process of a benchmarked system.
struct ProcessSpec {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  ///< Added to ours.
  std::vector<int> cpus;                                         ///< Its affinity mask.
};

/// A child that answers lines on a pipe (benchmarks/peers/README.md): one line in, one line out.
/// While it waits for a line it must not compute, since other systems are being timed then.
class BenchProcess {
 public:
  /// @param log_path  Gets the child's standard error.
  /// @throws Error  kUnavailable: it cannot be started.
  BenchProcess(const ProcessSpec& spec, std::string log_path);
  ~BenchProcess();  // ends the child
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  void send(const std::string& line);

  /// The next line. @throws Error kUnavailable: the child ended (with the last line of its log);
  /// kDeadlineExceeded.
  std::string receive(std::chrono::steady_clock::time_point deadline);

  /// Stops it where it stands, and lets it go on.
  void freeze();
  void thaw();

  /// Ends the child's input: its sign to stop.
  void end_input();

  /// CPU seconds that the child has used, all threads.
  double cpu_seconds() const;

  /// Resident memory in bytes; 0 where the system does not say.
  struct Memory {
    double peak = 0;   ///< Since the start or reset_peak_memory().
    double files = 0;  ///< Of today's: pages of programs, libraries and other files.
  };
  Memory memory() const;
  void reset_peak_memory() const;

 private:
  std::string last_log_line() const;

  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string log_path_;
  std::string buffer_;
};

}  // namespace strata::bench
