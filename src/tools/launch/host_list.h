#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::tools {

/// A host that tasks are started on.
struct Host {
  std::string login;    ///< as ssh takes it: "me@h1"
  std::string address;  ///< as the other tasks take it: "h1", "10.0.0.3", "fd00::1"
  int slots = 1;        ///< how many workers it has room for

  friend bool operator==(const Host&, const Host&) = default;
};

/// Reads "h1:2,me@h2:2,h3=10.0.0.3:2,[fd00::1]": each with its number of workers, 1 if left out.
/// What is in front of '=' is the name for ssh, where tasks reach the host under another one.
/// @throws Error  kInvalidArgument: quotes the part that is wrong.
std::vector<Host> parse_hosts(std::string_view list);

/// Reads a file with a host a line, as above or as Open MPI has it, "h1 slots=2"; '#' starts a
/// comment.
/// @throws Error  kInvalidArgument: quotes the line. As FileSystem.
std::vector<Host> read_host_file(const std::string& path);

}  // namespace strata::tools
