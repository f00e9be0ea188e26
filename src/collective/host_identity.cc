#include "strata/collective/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "strata/core/str_cat.h"

namespace strata::collective {

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network = {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) {
    std::random_device random;
    return str_cat("process ", ::getpid(), " ", random(), random());
  }
  return str_cat("boot ", boot, " network ", network.st_dev, ":", network.st_ino, " user ",
                 ::geteuid());
}

std::vector<int> hosts_of(const std::vector<std::string>& identities) {
  std::vector<std::string> known;
  std::vector<int> hosts;
  for (const std::string& identity : identities) {
    const auto found = std::find(known.begin(), known.end(), identity);
    hosts.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(identity);
  }
  return hosts;
}

}  // namespace strata::collective
