#include "wire/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "strata/core/str_cat.h"

namespace strata::wire {

std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

std::string host_identity() {
  const std::string boot = machine_identity();
  struct stat network = {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) {
    std::random_device random;
    return str_cat("process ", ::getpid(), " ", random(), random());
  }
  return str_cat("boot ", boot, " network ", network.st_dev, ":", network.st_ino, " user ",
                 ::geteuid());
}

}  // namespace strata::wire
