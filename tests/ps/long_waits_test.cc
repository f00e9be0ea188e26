// A task that waits for another one says for whom and where, after the first 5 s.
#include <gtest/gtest.h>

#include <chrono>

#include "ps/tables/client.h"
#include "ps/tables/parameter_server.h"
#include "ps/worker_threads.h"
#include "support/log_lines.h"

namespace strata::ps {
namespace {

using namespace std::chrono_literals;

// All in one test, since each takes its 5 s.
TEST(LongWaitsTest, EachTaskNamesWhomItWaitsFor) {
  test::LogLines lines;
  const cluster::ClusterSpec spec = {{"ps", {"ps-0:1", "ps-1:1"}}, {"worker", {"worker-0:1"}}};
  wire::MemoryNetwork network, deserted;
  const ParameterServer server(spec, {"ps", 0},
                               {.server = {.transport = network.transport("ps-0")}});
  const ParameterServer deserted_server(spec, {"ps", 0},
                                        {.server = {.transport = deserted.transport("ps-0")}});
  test::WorkerThreads of_worker(1);
  of_worker.start();
  test::WorkerThreads of_coordinator(1);
  const auto coordinator = of_coordinator.coordinator();
  Thread client("client", [&] {
    EXPECT_THROW(
        Client(spec, {"worker", 0},
               {.server = {.start_timeout = 12500ms, .transport = network.transport("worker-0")}}),
        Error);
  });

  EXPECT_NE(lines.await({"[ps] /job:ps/task:0 at ps-0:1: waits for a worker; none has come", "5 "}),
            "");
  EXPECT_NE(lines.await({"[ps] /job:worker/task:0 at worker-0:1: waits for /job:chief/task:0"}),
            "");
  EXPECT_NE(lines.await({"[ps] /job:chief/task:0 waits for /job:worker/task:0 at worker-0:1"}), "");
  EXPECT_NE(lines.await({"/job:ps/task:1 at ps-1:1", " of 12 s so far"}), "") << lines.text();
  client.join();
}

}  // namespace
}  // namespace strata::ps
