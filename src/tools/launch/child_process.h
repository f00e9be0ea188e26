#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace strata::tools {

class OrphanReaper;

struct ChildSpec {
  std::string program;                             ///< its path, as `find_program` gives it
  std::vector<std::string> arguments;              ///< without the program's own name
  std::map<std::string, std::string> environment;  ///< added to the launcher's
  std::vector<int> cores;                          ///< its affinity; empty: the launcher's
  /// Of a process that starts another one elsewhere (ssh): what it reads first. From then on its
  /// input carries a line for each signal ("TERM") and an empty one for each heartbeat, for the
  /// other process; its end is SIGKILL. An exit code of 128 and a signal is the other's signal.
  /// nullopt: the process has no input, and signals are its own.
  std::optional<std::string> input = {};
};

/// How a process ended.
struct ChildEnd {
  int code = 0;    ///< what it returned
  int signal = 0;  ///< what killed it; 0: nothing did
  bool core_dumped = false;

  bool well() const { return code == 0 && signal == 0; }
  /// As shells count: the code, or 128 and the signal.
  int status() const { return signal != 0 ? 128 + signal : code; }
  /// "exit code 3", "SIGSEGV (Segmentation fault)".
  std::string to_string() const;
};

/// "SIGTERM".
std::string signal_name(int signal);

/// The path of `name`, which may be one, or is looked for in PATH.
/// @throws Error  kNotFound, kPermissionDenied: it cannot be executed; quotes it.
std::string find_program(const std::string& name);

/// A process in a group of its own, without input (but see `ChildSpec::input`), whose output comes
/// through pipes. It and all of
/// its group are killed with the thread that started it.
///
/// Threads: the one that made it. Cost: a fork.
class ChildProcess {
 public:
  /// @throws Error  kInvalidArgument: it cannot be executed, or not on these cores; quotes the
  ///     system. kResourceExhausted: no process or file descriptor is left.
  ChildProcess(const ChildSpec& spec, const OrphanReaper& guard);
  ~ChildProcess();  // kills it, if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int end_fd() const { return end_fd_; }  ///< readable when it has ended
  int out() const { return out_; }        ///< its standard output, not blocking
  int err() const { return err_; }

  /// To all of its group, or what it started elsewhere; nothing once it has ended.
  void signal(int number);

  /// Its standard input while more is to be written there, else -1: when it is writable, `write` writes.
  int in() const { return unwritten_.empty() ? -1 : in_; }
  void write();
  /// An empty line on its input, if it has one and has taken all before it.
  void send_heartbeat();

  /// If it has ended: kills what is left of its group, and says how. Its output can be read still.
  std::optional<ChildEnd> reap();

 private:
  void close_all();

  const OrphanReaper& guard_;
  pid_t pid_ = -1;
  int end_fd_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
  const bool elsewhere_;
  std::string unwritten_;  // of its input
};

}  // namespace strata::tools
