#include "strategies/host_id.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "strata/core/str_cat.h"

namespace strata::detail {

std::string host_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  if (boot.empty()) {
    char name[256] = {};
    boot = gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
  }
  struct stat network = {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  return str_cat(boot, "/", known ? static_cast<uint64_t>(network.st_ino) : 0);
}

}  // namespace strata::detail
