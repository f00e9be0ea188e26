// A step predicted before it is measured:
// `predicted_step [workers] [Mbit/s] [network.json|NAME] [steps]`. Workers are processes on hosts
// with shaped lines, which are network namespaces (needs root). A step is simulated on lines of that
// rate, with the latency that workers measure, and then run: real buckets and sums, with waits in
// place of computing. A JSON line has both.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collective/planner/measure_links.h"
#include "collective/wire/wire_communicator.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "simulate/all_reduce_step.h"
#include "simulate/links_file.h"
#include "simulate/network_table.h"
#include "simulate/scenario.h"
#include "strata/cluster/server.h"
#include "strata/core/error.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/netns_testbed.h"
#include "suites/process.h"
#include "suites/stats.h"
#include "tools/exit_status.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPort = 23400;
constexpr double kStepSeconds = 1.0;  // of a network that is built in
constexpr int kWarmUp = 2;
constexpr double kPayload = 1448.0 / 1514;  // of a frame: headers of Ethernet, IP and TCP

wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }

int number_of(const char* what, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 1,
               kInvalidArgument, "[predicted_step] ", what, ": got ", text,
               "; expected a number from 1 on");
  return value;
}

simulate::NetworkTable network_of(const std::string& name) {
  if (!name.ends_with(".json")) return simulate::built_in_network(name, kStepSeconds, 64);
  const std::ifstream file(name);
  STRATA_CHECK(file.good(), kNotFound, "[predicted_step] got ", name, ", which cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return simulate::NetworkTable::from_json(text.str());
}

/// The scenario that both the simulation and the workers follow.
simulate::Scenario scenario_of(const std::string& network, int workers) {
  simulate::Scenario scenario;
  scenario.network = network_of(network);
  scenario.replicas = workers;
  scenario.detail = simulate::Detail::kFull;
  return scenario;
}

/// One worker: a thread waits as layers would compute, another adds the buckets that are ready.
class Worker {
 public:
  Worker(int rank, std::vector<std::string> addresses, const std::string& network)
      : rank_(rank),
        scenario_(scenario_of(network, static_cast<int>(addresses.size()))),
        placement_(collective::Placement::blocks(std::vector<int>(addresses.size(), 1))),
        server_(cluster::ClusterSpec{{"worker", addresses}}, cluster::TaskId{"worker", rank}) {
    for (int other = 0; other < placement_.num_ranks(); ++other) {
      peers_.push_back(other == rank ? nullptr
                                     : server_.connect({"worker", other}, "predicted", limit()));
    }
    scenario_.links =
        collective::measure_links(rank, placement_, peers_, server_.transport(), limit());
    // Beside lines this slow processors do not matter; and simulated ranks have one each.
    scenario_.links.ranks_per_processor = 1;
    const std::shared_ptr<wire::Transport> transport(std::shared_ptr<void>(), &server_.transport());
    communicator_ = std::make_unique<collective::WireCommunicator>(
        rank, peers_, transport,
        std::make_shared<collective::Planner>(placement_, scenario_.links));
    buckets_ = simulate::plan_buckets(scenario_, /*grouped=*/false);
    for (const simulate::Bucket& bucket : buckets_) {
      memory_.push_back(communicator_->buffer(bucket.elements, at::kFloat));
    }
  }
  ~Worker() { server_.shutdown(wire::Deadline::after(std::chrono::seconds(1))); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string links() const { return scenario_.links.to_json(); }

  /// @return seconds.
  double step() {
    communicator_->barrier();
    {
      const MutexLock lock(mutex_);
      ready_ = 0;
    }
    const auto begin = Clock::now();
    Thread computes("computes", [&] { compute(begin); });
    for (size_t i = 0; i < buckets_.size(); ++i) {
      wait_for_bucket(i);
      communicator_->all_reduce_(memory_[i], ReduceOp::kSum, {.id = static_cast<uint32_t>(i)});
    }
    computes.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  void wait_for_bucket(size_t index) {
    MutexLock lock(mutex_);
    const auto end = Clock::now() + std::chrono::minutes(1);
    while (ready_ <= index) {
      STRATA_CHECK(changed_.wait_until(lock, end) == std::cv_status::no_timeout, kDeadlineExceeded,
                   "[predicted_step] bucket ", index, " of worker ", rank_,
                   " was not ready after a minute");
    }
  }

  void compute(Clock::time_point begin) {
    const std::vector<simulate::Layer>& layers = scenario_.network.layers;
    double time = scenario_.network.forward_seconds();
    size_t next = 0;
    for (size_t layer = layers.size(); layer-- > 0;) {
      time += layers[layer].backward_seconds;
      while (next < buckets_.size() && buckets_[next].ready_after == layer) {
        wait_until(begin, time);
        ++next;
        const MutexLock lock(mutex_);
        ready_ = next;
        changed_.notify_all();
      }
    }
    wait_until(begin, time);
  }
  static void wait_until(Clock::time_point begin, double seconds) {
    // Time is what is simulated here: this is the computing.
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(seconds)));
  }

  int rank_;
  simulate::Scenario scenario_;
  collective::Placement placement_;
  cluster::Server server_;
  std::vector<std::shared_ptr<wire::Connection>> peers_;
  std::unique_ptr<collective::WireCommunicator> communicator_;
  std::vector<simulate::Bucket> buckets_;
  std::vector<at::Tensor> memory_;
  Mutex mutex_;
  ConditionVariable changed_;
  size_t ready_ STRATA_GUARDED_BY(mutex_) = 0;
};

/// Answers on its standard output: its links, then the seconds of each step.
int run_worker(const std::vector<std::string>& words) {
  tensor::install_cpu_allocator();
  at::set_num_threads(1);
  const int steps = number_of("steps", words[3]);
  const std::vector<std::string> addresses(words.begin() + 4, words.end());
  Worker worker(number_of("worker", words[1]) - 1, addresses, words[2]);
  std::cout << worker.links() << std::endl;
  for (int step = 0; step < steps + kWarmUp; ++step) std::cout << worker.step() << std::endl;
  return 0;
}

void run_case(int workers, int megabits, const std::string& network, int steps) {
  NetworkTestbed testbed(workers, {.bits_per_second = megabits * 1e6});
  std::vector<std::string> addresses;
  for (int host = 0; host < workers; ++host) {
    addresses.push_back(str_cat(testbed.address(host), ":", kPort + host));
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / str_cat("strata_predicted_step_", ::getpid());
  std::filesystem::create_directories(folder);
  std::vector<std::unique_ptr<BenchProcess>> processes;
  for (int host = 0; host < workers; ++host) {
    std::vector<std::string> argv = testbed.enter(host);
    argv.insert(argv.end(), {std::filesystem::read_symlink("/proc/self/exe"), "worker",
                             str_cat(host + 1), network, str_cat(steps)});
    argv.insert(argv.end(), addresses.begin(), addresses.end());
    processes.push_back(
        std::make_unique<BenchProcess>(ProcessSpec{.argv = argv, .environment = {}, .cpus = {}},
                                       (folder / str_cat(host, ".log")).string()));
  }
  const auto line_of = [&](size_t host) {
    return processes[host]->receive(Clock::now() + std::chrono::minutes(2));
  };
  simulate::Scenario scenario = scenario_of(network, workers);
  for (size_t host = 0; host < processes.size(); ++host) {
    const std::string links = line_of(host);
    if (host == 0) scenario.links = simulate::links_from_json(links);
  }
  // The line's rate is known; what workers measure in milliseconds, on a busy machine, is less.
  const double measured_rate = scenario.links.across_hosts.bytes_per_second;
  scenario.links.across_hosts.bytes_per_second = megabits * 1e6 / 8 * kPayload;
  const simulate::StepReport predicted = simulate::simulate(scenario);
  std::cerr << "links " << scenario.links.to_json() << "\npredicted " << predicted.step_seconds
            << " s" << std::endl;
  std::vector<double> measured;
  for (int step = 0; step < steps + kWarmUp; ++step) {
    double slowest = 0;
    for (size_t host = 0; host < processes.size(); ++host) {
      slowest = std::max(slowest, std::stod(line_of(host)));
    }
    if (step >= kWarmUp) measured.push_back(slowest);
  }
  const Estimate all = estimate(measured);
  JsonLine json;
  json.add("suite", std::string("predicted_step"))
      .add("case", str_cat(scenario.network.name, "/", megabits, "mbit/", workers))
      .add("system", std::string("strata"))
      .add("metric", std::string("step_seconds"))
      .add("value", all.median)
      .add("low", all.low)
      .add("high", all.high)
      .add("predicted", predicted.step_seconds)
      .add("error", predicted.step_seconds / all.median - 1)
      .add("measured_rate", measured_rate)
      .add("algorithm", predicted.buckets.back().algorithm)
      .add("unit", std::string("s"))
      .print();
  processes.clear();
  std::filesystem::remove_all(folder);
}

int run(const std::vector<std::string>& words) {
  if (words.size() > 4 && words[0] == "worker") return run_worker(words);
  const auto word = [&](size_t i, const char* otherwise) {
    return i < words.size() ? words[i] : std::string(otherwise);
  };
  run_case(number_of("workers", word(0, "4")), number_of("Mbit/s", word(1, "200")),
           word(2, "resnet50"), number_of("steps", word(3, "10")));
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("predicted_step", [&] {
    return strata::bench::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
