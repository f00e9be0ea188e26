// One task of a coordinator's cluster of processes: what coordinator_process_test.cc starts, kills
// and stops. Workers serve. The chief
//
//   run N PAUSE_US READY  waits until READY workers are there, has N calls made that take so long,
//                         in rounds of 50, raises what is raised, checks every result, waits for
//                         READY workers again, ends all
//   bench N               prints how long a call takes there and back, and N of them a second
//
// STRATA_LIVENESS_MS sets the liveness interval, STRATA_TIMEOUT_MS how long workers wait for a
// coordinator, and it for workers, STRATA_THREADS how many calls a worker makes at once,
// STRATA_REGISTRY another function to register, STRATA_WIRE the wire, STRATA_TLS_DIR certificates.
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cluster/wire_environment.h"
#include "ps/coordinator/coordinator.h"
#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/tls_environment.h"
#include "strata/ps/worker_server.h"

namespace {

using namespace strata;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds from_environment(const char* name, milliseconds otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : milliseconds(std::atoi(text));
}

void say(const std::string& line) {
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

wire::Deadline soon() { return wire::Deadline::after(std::chrono::seconds(120)); }

struct Counter {
  int64_t value = 0;
};

void register_all(ps::FunctionRegistry& registry) {
  registry.add("nothing", [] {});
  // Busy for so long, as functions are.
  registry.add("square", [](const ps::CallContext& context, int64_t x, int64_t pause_us) {
    const auto until = Clock::now() + std::chrono::microseconds(pause_us);
    while (Clock::now() < until) {
      context.throw_if_stopped();
      std::this_thread::yield();
    }
    return x * x;
  });
  registry.add_resource("counter", [] { return Counter{}; });
  registry.add("up", [](Counter& counter) { return ++counter.value; });
  registry.add("echo", [](const at::Tensor& x) { return x; });
  registry.add("work", [](int64_t microseconds) {
    const auto until = Clock::now() + std::chrono::microseconds(microseconds);
    while (Clock::now() < until) {
    }
  });
  if (const char* extra = std::getenv("STRATA_REGISTRY")) registry.add(extra, [] {});
}

void run(ps::Coordinator& coordinator, int64_t count, int64_t pause_us, int ready) {
  coordinator.wait_for_workers(ready, soon());
  const ps::PerWorkerValues counters = coordinator.create_per_worker("counter");
  constexpr int64_t kRound = 50;
  int64_t checked = 0;
  for (int64_t round = 0; round * kRound < count; ++round) {
    std::vector<ps::RemoteValue<>> squares;
    std::vector<ps::RemoteValue<>> ups;
    for (int64_t i = round * kRound; i < std::min(count, (round + 1) * kRound); ++i) {
      squares.push_back(coordinator.schedule("square", {i, pause_us}, soon()));
      if (i % 10 == 0) ups.push_back(coordinator.schedule("up", {counters}, soon()));
    }
    coordinator.join(soon());
    for (const ps::RemoteValue<>& each : squares) {
      STRATA_CHECK(each.get<int64_t>() == checked * checked, kInternal, "a wrong result");
      ++checked;
    }
    for (const ps::RemoteValue<>& each : ups) (void)each.get<int64_t>();
    const at::Tensor x = at::ones({100'000});
    STRATA_CHECK(coordinator.schedule("echo", {x}).get<at::Tensor>(soon()).equal(x), kInternal,
                 "another tensor");
    say(str_cat("round ", round, ", ", coordinator.num_ready_workers(), " ready"));
  }
  coordinator.wait_for_workers(ready, soon());
  const ps::CoordinatorCounts counts = coordinator.counts();
  STRATA_CHECK(counts.finished == counts.scheduled, kInternal, "not all have ended well");
  say(str_cat("checked ", checked, ", lost ", counts.lost, ", retried ", counts.retried));
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

void bench(ps::Coordinator& coordinator, int64_t count) {
  coordinator.wait_for_workers(coordinator.num_workers(), soon());
  for (int64_t i = 0; i < 2000; ++i) (void)coordinator.schedule("nothing").fetch(soon());
  std::vector<double> latencies;
  for (int64_t i = 0; i < 2000; ++i) {
    const auto start = Clock::now();
    (void)coordinator.schedule("nothing").fetch(soon());
    latencies.push_back(microseconds_since(start));
  }
  const auto rate = [&](const char* what, int64_t calls, std::vector<ps::Value> arguments) {
    std::vector<double> rates;
    for (int run = 0; run < 6; ++run) {
      const auto start = Clock::now();
      for (int64_t i = 0; i < calls; ++i) coordinator.schedule(what, arguments, soon());
      coordinator.join(soon());
      if (run > 0) rates.push_back(static_cast<double>(calls) * 1e6 / microseconds_since(start));
    }
    return median(rates);
  };
  say(str_cat("latency ", median(latencies), " us, p99 ",
              (std::ranges::sort(latencies), latencies[latencies.size() * 99 / 100]), " us"));
  say(str_cat("empty functions ", rate("nothing", count, {}), " /s"));
  say(str_cat("of 100 us ", rate("work", count / 10, {100}), " /s"));
  for (const int64_t kib : {4, 16, 64, 256, 1024, 4096}) {
    const at::Tensor x = at::ones({kib * 256});
    const double calls = rate("echo", std::max<int64_t>(count / (10 * kib), 100), {x});
    std::vector<double> alone;
    for (int i = 0; i < 100; ++i) {
      const auto start = Clock::now();
      (void)coordinator.schedule("echo", {x}).fetch(soon());
      alone.push_back(microseconds_since(start));
    }
    say(str_cat(kib, " KiB there and back, one after the other ", median(alone), " us"));
    say(str_cat(kib, " KiB there and back ", calls, " /s, ",
                calls * static_cast<double>(kib) * 2 / 1e6, " GB/s"));
  }
}

void task(const std::vector<std::string>& arguments) {
  const auto found = cluster::resolve_cluster();
  STRATA_CHECK(found.has_value(), kInvalidArgument, "no cluster");
  const cluster::ServerOptions server = {
      .liveness = from_environment("STRATA_LIVENESS_MS", std::chrono::seconds(10)),
      .tls = cluster::tls_from_environment(found->task),
      .wire = cluster::wire_from_environment()};
  const auto timeout = from_environment("STRATA_TIMEOUT_MS", std::chrono::seconds(60));
  const char* const threads = std::getenv("STRATA_THREADS");
  ps::FunctionRegistry registry;
  register_all(registry);
  if (found->task.job == "worker") {
    ps::WorkerServer worker(found->spec, found->task, registry,
                            {.server = server,
                             .coordinator_timeout = timeout,
                             .threads = threads == nullptr ? 1 : std::atoi(threads)});
    say("serving");
    worker.join();
    say(str_cat("done after ", worker.calls(), " calls"));
    return;
  }
  ps::Coordinator coordinator(found->spec, found->task, registry,
                              {.server = server, .worker_timeout = timeout});
  const auto number = [&](size_t i) { return std::stoll(arguments.at(i)); };
  if (arguments.at(0) == "bench") {
    bench(coordinator, number(1));
  } else {
    run(coordinator, number(1), number(2), static_cast<int>(number(3)));
  }
  coordinator.shutdown(soon());
  say("done");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    task({argv + 1, argv + argc});
    return 0;
  } catch (const Error& error) {
    say(str_cat("error ", error_code_name(error.code()), ": ", error.what()));
    return 1;
  }
}
