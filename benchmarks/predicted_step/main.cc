// A step predicted before it is measured:
// `predicted_step [workers] [Mbit/s] [network.json|NAME] [steps] [all_reduce|parameter_server]`.
// Workers are processes on hosts with shaped lines, which are network namespaces (needs root);
// parameter servers are one on each of their hosts. A step is simulated on lines of that rate, with
// the latency that workers measure, and then run: real buckets and sums, or variables and gradients
// to and from servers, with waits in place of computing. A JSON line has both.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "predicted_step/member.h"
#include "simulate/links_file.h"
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
constexpr const char* kParameterServer = "parameter_server";

int number_of(const char* what, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 1,
               kInvalidArgument, "[predicted_step] ", what, ": got ", text,
               "; expected a number from 1 on");
  return value;
}

simulate::Strategy strategy_of(const std::string& word) {
  STRATA_CHECK(word == "all_reduce" || word == kParameterServer, kInvalidArgument,
               "[predicted_step] got ", word, "; expected all_reduce or parameter_server");
  return word == kParameterServer ? simulate::Strategy::kParameterServer
                                  : simulate::Strategy::kAllReduce;
}

/// Runs one process of the cluster. `words`: "worker" or "ps", the index of the task from 1 on, the
/// network, steps, strategy, Mbit/s, the addresses of all workers, and with parameter servers the
/// addresses of these. A worker prints a line each for the link model, the rate that was measured,
/// and the seconds of every step.
int run_task(const std::vector<std::string>& words) {
  tensor::install_cpu_allocator();
  at::set_num_threads(1);
  PredictedCase predicted{.network = words[2],
                          .strategy = strategy_of(words[4]),
                          .megabits = number_of("Mbit/s", words[5]),
                          .steps = number_of("steps", words[3])};
  const bool has_servers = predicted.strategy == simulate::Strategy::kParameterServer;
  const auto first = words.begin() + 6;
  const auto middle = first + (words.end() - first) / (has_servers ? 2 : 1);
  predicted.workers.assign(first, middle);
  predicted.servers.assign(middle, words.end());
  Member member(predicted, {words[0], number_of("task", words[1]) - 1});
  if (words[0] == "ps") {
    serve_parameters(predicted, member);
    return 0;
  }
  std::cout << member.links().to_json() << '\n' << member.measured_rate() << std::endl;
  const auto runner = has_servers ? make_parameter_server_worker(predicted, member)
                                  : make_all_reduce_worker(predicted, member);
  for (int step = 0; step < predicted.steps + PredictedCase::kWarmUp; ++step) {
    std::cout << runner->step() << std::endl;
  }
  return 0;
}

/// The processes of a case, on hosts of their own.
class Cluster {
 public:
  explicit Cluster(PredictedCase& predicted, int hosts)
      : testbed_(hosts, predicted.line()),
        folder_(std::filesystem::temp_directory_path() /
                str_cat("strata_predicted_step_", ::getpid())) {
    const bool has_servers = predicted.strategy == simulate::Strategy::kParameterServer;
    for (int host = 0; host < hosts; ++host) {
      predicted.workers.push_back(str_cat(testbed_.address(host), ":", kPort + host));
      if (!has_servers) continue;
      predicted.servers.push_back(str_cat(testbed_.address(host), ":", kPort + hosts + host));
    }
    std::filesystem::create_directories(folder_);
    for (int host = 0; host < hosts; ++host) {
      if (has_servers) servers_.push_back(start(predicted, "ps", host));
      workers_.push_back(start(predicted, "worker", host));
    }
  }
  ~Cluster() {
    workers_.clear();
    servers_.clear();
    std::filesystem::remove_all(folder_);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// A line of each worker.
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (const auto& worker : workers_) {
      all.push_back(worker->receive(Clock::now() + std::chrono::minutes(3)));
    }
    return all;
  }

 private:
  std::unique_ptr<BenchProcess> start(const PredictedCase& predicted, const std::string& job,
                                      int host) {
    std::vector<std::string> argv = testbed_.enter(host);
    argv.insert(argv.end(), {std::filesystem::read_symlink("/proc/self/exe"), job,
                             str_cat(host + 1), predicted.network, str_cat(predicted.steps),
                             predicted.servers.empty() ? "all_reduce" : kParameterServer,
                             str_cat(predicted.megabits)});
    argv.insert(argv.end(), predicted.workers.begin(), predicted.workers.end());
    argv.insert(argv.end(), predicted.servers.begin(), predicted.servers.end());
    return std::make_unique<BenchProcess>(ProcessSpec{.argv = argv, .environment = {}, .cpus = {}},
                                          (folder_ / str_cat(job, host, ".log")).string());
  }

  NetworkTestbed testbed_;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<BenchProcess>> servers_, workers_;
};

void run_case(PredictedCase predicted, int hosts) {
  Cluster cluster(predicted, hosts);
  simulate::Scenario scenario = predicted.scenario();
  scenario.links = simulate::links_from_json(cluster.lines()[0]);
  const double measured_rate = std::stod(cluster.lines()[0]);
  const simulate::StepReport report = simulate::simulate(scenario);
  std::cerr << "links " << scenario.links.to_json() << "\npredicted " << report.step_seconds << " s"
            << std::endl;
  std::vector<double> measured;
  for (int step = 0; step < predicted.steps + PredictedCase::kWarmUp; ++step) {
    double slowest = 0;
    for (const std::string& line : cluster.lines()) slowest = std::max(slowest, std::stod(line));
    if (step >= PredictedCase::kWarmUp) measured.push_back(slowest);
  }
  const Estimate all = estimate(measured);
  const std::string kind =
      report.buckets.empty() ? kParameterServer : report.buckets.back().algorithm;
  JsonLine json;
  json.add("suite", std::string("predicted_step"))
      .add("case", str_cat(scenario.network.name, "/", predicted.megabits, "mbit/", hosts,
                           report.buckets.empty() ? "/ps" : ""))
      .add("system", std::string("strata"))
      .add("metric", std::string("step_seconds"))
      .add("value", all.median)
      .add("low", all.low)
      .add("high", all.high)
      .add("samples", static_cast<double>(measured.size()))
      .add("predicted", report.step_seconds)
      .add("error", report.step_seconds / all.median - 1)
      .add("measured_rate", measured_rate)
      .add("algorithm", kind)
      .add("unit", std::string("s"))
      .print();
}

int run(const std::vector<std::string>& words) {
  if (words.size() > 6 && (words[0] == "worker" || words[0] == "ps")) return run_task(words);
  const auto word = [&](size_t i, const char* otherwise) {
    return i < words.size() ? words[i] : std::string(otherwise);
  };
  run_case({.network = word(2, "resnet50"),
            .strategy = strategy_of(word(4, "all_reduce")),
            .megabits = number_of("Mbit/s", word(1, "200")),
            .steps = number_of("steps", word(3, "10"))},
           number_of("workers", word(0, "4")));
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("predicted_step", [&] {
    return strata::bench::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
