#include "suites/netns_testbed.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

/// A new namespace, as a descriptor. @return -1 and errno.
int new_namespace() {
  int fd = -1;
  int error = 0;
  // A namespace is a thread's: this one's stays as it is.
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) fd = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    error = errno;
  }).join();
  errno = error;
  return fd;
}

std::string find_command(const std::string& name) {
  for (const char* folder : {"/usr/sbin", "/sbin", "/usr/bin", "/bin"}) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path)) return path;
  }
  return {};
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// A queue of 256 kB lets the kernel's large segments through; 50 ms is a switch's buffer.
constexpr int kBurstKilobytes = 256;
constexpr int kQueueMilliseconds = 50;

std::string shape_command(const std::string& device, const LinkShape& shape) {
  std::string text = str_cat("tc qdisc del dev ", device, " root 2>/dev/null || true\n");
  std::string parent = "root";
  if (shape.delay.count() > 0) {
    text += str_cat("tc qdisc add dev ", device, " root handle 1: netem delay ",
                    shape.delay.count(), "us limit 100000\n");
    parent = "parent 1:";
  }
  if (shape.bits_per_second > 0) {
    text += str_cat("tc qdisc add dev ", device, " ", parent, " tbf rate ",
                    static_cast<long long>(shape.bits_per_second), "bit burst ", kBurstKilobytes,
                    "kb latency ", kQueueMilliseconds, "ms\n");
  }
  return text;
}

}  // namespace

double LinkShape::queue_seconds() const {
  if (bits_per_second == 0) return 0;
  return kQueueMilliseconds * 1e-3 + kBurstKilobytes * 1024 * 8 / bits_per_second;
}

std::string NetworkTestbed::missing() {
  if (::geteuid() != 0) return "network namespaces need root";
  for (const char* command : {"ip", "tc", "nsenter"}) {
    if (find_command(command).empty()) {
      return str_cat("there is no command ", command, " (Debian: iproute2, util-linux)");
    }
  }
  const int fd = new_namespace();
  if (fd < 0) return str_cat("the kernel allows no network namespace: ", std::strerror(errno));
  ::close(fd);
  return {};
}

NetworkTestbed::NetworkTestbed(int hosts, const LinkShape& line) {
  STRATA_CHECK(hosts >= 1 && hosts <= 250, kInvalidArgument, "[network lab] got ", hosts,
               " hosts; expected 1 to 250");
  const std::string why = missing();
  STRATA_CHECK(why.empty(), kFailedPrecondition, "[network lab] ", why);
  switch_ = new_namespace();
  std::string script = "ip link add br0 type bridge\nip link set br0 up\n";
  for (int i = 0; i < hosts; ++i) {
    hosts_.push_back(new_namespace());
    STRATA_CHECK(hosts_.back() >= 0 && switch_ >= 0, kFailedPrecondition,
                 "[network lab] no namespace for host ", i, ": ", std::strerror(errno));
    script += str_cat("ip link add port", i, " type veth peer name eth0 netns ",
                      path(hosts_.back()), "\nip link set port", i, " master br0 up\n");
  }
  run_in(switch_, script);
  for (int i = 0; i < hosts; ++i) {
    // One congestion control everywhere, whatever this machine's is: cubic; or, where namespaces
    // may not choose it, reno, which they always may and which does the same at such short
    // distances.
    run_in(hosts_[static_cast<size_t>(i)],
           str_cat(
               "ip link set lo up\nip addr add ", address(i), "/24 dev eth0\nip link set eth0 up\n",
               "for control in cubic reno; do\n"
               "  echo $control 2>/dev/null > /proc/sys/net/ipv4/tcp_congestion_control && break\n"
               "done || true\n"));
    shape(i, line);
  }
}

NetworkTestbed::~NetworkTestbed() {
  for (const int fd : hosts_) ::close(fd);
  if (switch_ >= 0) ::close(switch_);
}

std::string NetworkTestbed::address(int host) const { return str_cat("10.77.0.", host + 1); }

std::string NetworkTestbed::path(int fd) const { return str_cat("/proc/", ::getpid(), "/fd/", fd); }

std::vector<std::string> NetworkTestbed::enter(int host) const {
  return {find_command("nsenter"), "--net=" + path(hosts_.at(static_cast<size_t>(host))), "--"};
}

void NetworkTestbed::move_here(int host) const {
  STRATA_CHECK(::setns(hosts_.at(static_cast<size_t>(host)), CLONE_NEWNET) == 0, kPermissionDenied,
               "[network lab] host ", host, " cannot be entered: ", std::strerror(errno));
}

std::string NetworkTestbed::run_in(int fd, const std::string& script) const {
  const std::string command =
      str_cat(find_command("nsenter"), " --net=", path(fd), " -- /bin/sh -c ",
              quoted("set -e\nPATH=$PATH:/usr/sbin:/sbin\n" + script), " 2>&1");
  FILE* const pipe = ::popen(command.c_str(), "re");
  STRATA_CHECK(pipe != nullptr, kResourceExhausted,
               "[network lab] no process: ", std::strerror(errno));
  std::string output;
  char chunk[4096];
  while (const size_t count = std::fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, count);
  const int status = ::pclose(pipe);
  STRATA_CHECK(status == 0, kUnavailable, "[network lab] a command failed: ", script, ": ",
               output.empty() ? "it printed nothing" : output);
  return output;
}

std::string NetworkTestbed::run(int host, const std::vector<std::string>& command) const {
  std::string script;
  for (const std::string& word : command) script += (script.empty() ? "" : " ") + quoted(word);
  return run_in(hosts_.at(static_cast<size_t>(host)), script + "\n");
}

void NetworkTestbed::shape(int host, const LinkShape& line) {
  run_in(hosts_.at(static_cast<size_t>(host)), shape_command("eth0", line));
  run_in(switch_, shape_command(str_cat("port", host), line));
}

// The plug is the switch's side: the host's own interface and addresses stay.
void NetworkTestbed::partition(int host) {
  run_in(switch_, str_cat("ip link set port", host, " down\n"));
}
void NetworkTestbed::restore(int host) {
  run_in(switch_, str_cat("ip link set port", host, " up\n"));
}

// A neighbour that does not exist: frames to it end at the switch.
void NetworkTestbed::partition(int a, int b) {
  for (const auto& [at, to] : {std::pair(a, b), std::pair(b, a)}) {
    run_in(hosts_.at(static_cast<size_t>(at)),
           str_cat("ip neigh replace ", address(to),
                   " lladdr 02:00:00:00:00:01 nud permanent dev eth0\n"));
  }
}
void NetworkTestbed::restore(int a, int b) {
  for (const auto& [at, to] : {std::pair(a, b), std::pair(b, a)}) {
    run_in(hosts_.at(static_cast<size_t>(at)),
           str_cat("ip neigh del ", address(to), " dev eth0\n"));
  }
}

}  // namespace strata::bench
