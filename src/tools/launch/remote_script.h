#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace strata::tools {

/// A task as another host is to start it.
struct RemoteTask {
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< names that a shell can export
  std::string directory;                           ///< where it starts
  bool needs_directory = false;  ///< else it starts in the home folder where that does not exist
  /// Contents by name: written to a folder that only the user can open, which the variable
  /// `files_variable` names and which is removed when the task has ended.
  std::map<std::string, std::string> files = {};
  std::string files_variable = {};
  std::chrono::seconds silence{20};  ///< it ends after so long without a heartbeat
};

/// The command that ssh gives to the host's shell, whichever that is: it reads a script of so many
/// bytes from its standard input, and nothing else is in it.
std::string remote_command(size_t script_bytes);

/// The script, for a POSIX shell, that starts the task on the host and ends it: what
/// `ChildSpec::input` describes. Everything about the task is in here, and so no secret among it is
/// among arguments that all users of the two hosts can see.
///
/// The task is the leader of a session of its own, by setsid. A second process beside it reads
/// the launcher's lines and passes signals on. When there are none for `silence`, or the
/// connection ends, it kills the session's processes. The script's own end is the task's,
/// with its exit code, or 128 and its signal; then both sessions are killed, so that nothing of
/// them stays.
/// @throws Error  kInvalidArgument: a name that a shell cannot export; quotes it.
std::string remote_script(const RemoteTask& task);

}  // namespace strata::tools
