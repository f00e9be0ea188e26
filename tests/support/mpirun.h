#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/killed_program.h"
#include "support/process_cluster.h"

namespace strata::test {

/// Runs mpirun with these arguments; its processes find each other, and are ended if they hang.
/// @return with what they print to stderr, too.
inline Outcome run_with_mpi(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> command = {
      "-c", "exec /usr/bin/env \"$@\" 2>&1", "sh",
      "STRATA_LEADER=127.0.0.1:" + std::to_string(free_ports(1)[0])};
  for (const auto& [name, value] : environment) command.push_back(name + "=" + value);
  // More processes than cores; in a container as root, and without a network.
  command.insert(command.end(), {STRATA_MPIRUN, "--allow-run-as-root", "--oversubscribe",
                                 "--bind-to", "none", "--timeout", "600", "--mca",
                                 "oob_tcp_if_include", "lo", "--mca", "btl", "self,vader"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program("/bin/sh", command);
}

inline int occurrences(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace strata::test
