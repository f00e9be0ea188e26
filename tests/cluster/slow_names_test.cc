// A name server that does not answer: the system's getaddrinfo, which has no deadline, hangs. This
// program has its own, which does so for one name.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>

#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/thread_cluster.h"

namespace {

std::mutex g_mutex;
std::condition_variable g_changed;
bool g_silent = false;
int g_hanging = 0;

void hang() {
  std::unique_lock lock(g_mutex);
  ++g_hanging;
  g_changed.wait_for(lock, std::chrono::minutes(1), [] { return !g_silent; });
  --g_hanging;
  g_changed.notify_all();
}

}  // namespace

extern "C" int getaddrinfo(const char* __restrict host, const char* __restrict service,
                           const addrinfo* __restrict hints, addrinfo** __restrict found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host != nullptr && std::string_view(host) == "silent.invalid") {
    if ((hints->ai_flags & AI_NUMERICHOST) == 0) hang();
    return EAI_NONAME;
  }
  return real(host, service, hints, found);
}

namespace strata::cluster {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class SlowNamesTest : public testing::Test {
 protected:
  SlowNamesTest() {
    const std::lock_guard lock(g_mutex);
    g_silent = true;
  }
  ~SlowNamesTest() override {
    std::unique_lock lock(g_mutex);
    g_silent = false;
    g_changed.notify_all();
    EXPECT_TRUE(g_changed.wait_for(lock, 30s, [] { return g_hanging == 0; }));
  }

  static void expect_in_time(const ClusterSpec& spec, const std::string& message) {
    const auto start = steady_clock::now();
    expect_error([&] { Server server(spec, {"worker", 1}, {.start_timeout = 500ms}); }, message);
    EXPECT_LT(test::seconds_since(start), 5);
  }
};

TEST_F(SlowNamesTest, LookingUpOnesOwnNameHasADeadline) {
  expect_in_time(
      {{"worker", {"127.0.0.1:1", "silent.invalid:1"}}},
      "[cluster] /job:worker/task:1 cannot listen at silent.invalid:1: looking up "
      "\"silent.invalid\" takes too long; is this the host that the cluster spec means? Where its "
      "address there is not an interface's, set listen_address");
}

TEST_F(SlowNamesTest, LookingForTheWayToTheLeaderHasADeadline) {
  expect_in_time({{"worker", {"silent.invalid:1", ":0"}}},
                 "[cluster] /job:worker/task:1 finds no way to the leader /job:worker/task:0 at "
                 "silent.invalid:1: looking up \"silent.invalid\" takes too long");
}

}  // namespace
}  // namespace strata::cluster
