#pragma once

#include <string>
#include <vector>

namespace strata::cluster {

/// The words behind the name of this process's program; none where the system does not tell.
std::vector<std::string> command_line_words();

/// Whether they have `--worker_hosts` or `--ps_hosts`: HostFlagsResolver's.
bool has_host_flags(const std::vector<std::string>& words);

}  // namespace strata::cluster
