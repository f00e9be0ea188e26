// Suite `network`: all-reduce between hosts on shaped lines, which are namespaces of this machine;
// and on modelled lines with long delays. Parameter servers on shaped lines: bench_ps_lines.cc.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>

#include <ATen/ops/zeros.h>

#include "collective/planner/measure_links.h"
#include "collective/wire/wire_communicator.h"
#include "core/thread.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/str_cat.h"
#include "suites/collective.h"
#include "suites/interleaved.h"
#include "suites/netns_testbed.h"
#include "suites/overlap.h"
#include "suites/ps.h"
#include "suites/stats.h"
#include "wire/memory/memory_network.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLarge = 25'000'000;
constexpr double kTurnSeconds = 0.2;

struct Lines {
  const char* name;
  double bits_per_second;
};
constexpr Lines kLines[] = {{"1gbit", 1e9}, {"100mbit", 1e8}};
constexpr int kHosts[] = {2, 4, 8};

JsonLine result(const std::string& case_name, const std::string& system,
                const std::string& metric) {
  JsonLine json;
  json.add("suite", std::string("network")).add("case", case_name).add("system", system);
  json.add("metric", metric);
  return json;
}

/// Bytes a second that iperf3 gets from one host to another, the median of three.
double iperf3(const NetworkTestbed& testbed) {
  std::vector<double> rates;
  for (int i = 0; i < 3; ++i) {
    // Left behind; it ends with its one client, or soon.
    testbed.run(1, {"sh", "-c", "timeout 20 iperf3 -s -1 > /dev/null 2>&1 &"});
    const std::string client =
        str_cat("for i in 1 2 3 4 5 6 7 8 9; do text=$(timeout 10 iperf3 -c ", testbed.address(1),
                " -t 2 -O 1 -J) && break; sleep 0.1; done; echo \"$text\"");
    const Json answer = Json::parse(testbed.run(0, {"sh", "-c", client}));
    rates.push_back(answer.at("end").at("sum_received").at("bits_per_second").as_double() / 8);
  }
  return estimate(rates).median;
}

/// All that is measured in one network.
class NetworkRun {
 public:
  NetworkRun(const BenchOptions& options, const Lines& lines, int hosts, const fs::path& folder)
      : options_(options),
        name_(str_cat(lines.name, "/", hosts)),
        testbed_(hosts, {.bits_per_second = lines.bits_per_second}) {
    std::vector<RankHost> ranks;
    for (int host = 0; host < hosts; ++host) {
      ranks.push_back(
          {.address = testbed_.address(host), .enter = testbed_.enter(host), .cpus = {}});
    }
    started_ = std::make_unique<CollectiveSystems>(options, ranks, /*shared=*/false, folder);
  }

  void run() {
    measure_line();
    const auto wanted = [&](const std::string& name) {
      return options_.systems.empty() || std::find(options_.systems.begin(), options_.systems.end(),
                                                   name) != options_.systems.end();
    };
    if (wanted("strata") || wanted("strata-ring")) {
      CallSystem strata = started_->strata("wire");
      CallSystem ring = strata;
      ring.name = "strata-ring";
      ring.operations = {"all_reduce:RING"};
      if (wanted("strata")) systems_.push_back(strata);
      if (wanted("strata-ring")) systems_.push_back(ring);
    }
    if (wanted("gloo")) systems_.push_back(started_->gloo());
    if (wanted("mpi")) systems_.push_back(started_->mpi_tcp());
    report_idle("network", name_, systems_);
    for (const int64_t bytes : {int64_t{1024}, int64_t{64} << 10, int64_t{1} << 20, kLarge}) {
      all_reduce(bytes);
    }
  }

 private:
  void measure_line() {
    try {
      rate_ = iperf3(testbed_);
      result(name_, "iperf3", "bandwidth")
          .add("value", rate_ * 1e-6)
          .add("unit", std::string("MB/s"))
          .print();
    } catch (const Error& error) {
      result(name_, "iperf3", "bandwidth").add("missing", std::string(error.what())).print();
    }
  }

  void all_reduce(int64_t bytes) {
    CallCase call_case{"network", str_cat(name_, "/", size_name(bytes)), bytes, systems_, {}};
    for (const CallSystem& system : systems_) {
      if (system.name == "strata") continue;
      const std::string metric = system.name == "strata-ring" ? "vs_ring" : "vs_" + system.name;
      call_case.ratios.push_back({metric, "strata", system.name});
    }
    // A large call takes seconds on slow lines, and hardly varies.
    const bool large = bytes == kLarge;
    CallTurns turns{.pairs = large ? std::min(options_.pairs, 3) : options_.pairs,
                    .seconds = options_.seconds_or(kTurnSeconds)};
    if (large) turns.least_repeats = 1;
    const CallResults results = run_call_case(turns, call_case);
    if (!large || rate_ == 0) return;
    // Of both of ours and the peers: how near they come to what the lines carry.
    const double n = testbed_.num_hosts();
    const double at_best = 2 * (n - 1) / n * static_cast<double>(bytes) / rate_;
    for (const auto& [system, us] : results.us) {
      result(call_case.name, system, "vs_wire")
          .add("value", at_best / (us * 1e-6))
          .add("unit", std::string("ratio"))
          .print();
    }
  }

  const BenchOptions& options_;
  const std::string name_;
  NetworkTestbed testbed_;
  std::unique_ptr<CollectiveSystems> started_;
  std::vector<CallSystem> systems_;
  double rate_ = 0;  // bytes a second
};

/// Ranks of this process on lines that are modelled: what AUTO picks there, against all that it
/// could have picked.
class ModelledRun {
 public:
  ModelledRun(const BenchOptions& options, int ranks, std::chrono::milliseconds delay)
      : options_(options),
        name_(str_cat("modelled-", delay.count(), "ms/", ranks)),
        placement_(collective::Placement::blocks(std::vector<int>(static_cast<size_t>(ranks), 1))),
        network_({.seed = 1, .link = {.latency = delay}}),
        ranks_(static_cast<size_t>(ranks)) {
    const collective::Algorithms standard = collective::Algorithms::standard();
    const collective::Request request = {.collective = collective::Collective::kAllReduce,
                                         .placement = placement_};
    for (const collective::Algorithm* each : standard.offered(request)) {
      algorithms_.push_back(each->name);
    }
    algorithms_.push_back("ring");
    connect();
    for_all([&](size_t r) {
      const collective::LinkModel links = collective::measure_links(
          static_cast<int>(r), placement_, ranks_[r].peers, *ranks_[r].transport, limit());
      for (size_t a = 0; a < algorithms_.size(); ++a) add(r, a, links);
    });
  }

  void run() {
    for (const int64_t bytes : {int64_t{1024}, int64_t{64} << 10, int64_t{1} << 20}) measure(bytes);
  }

 private:
  struct Rank {
    std::shared_ptr<wire::Transport> transport;
    std::vector<std::shared_ptr<wire::Connection>> peers;
    std::vector<std::unique_ptr<collective::WireCommunicator>> communicators;  // by algorithm
  };
  static wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }
  static wire::Hello hello(size_t r) {
    return {.job = "bench",
            .task = str_cat("/job:worker/task:", r),
            .generation = 0,
            .purpose = "bench"};
  }

  void for_all(const std::function<void(size_t)>& body) {
    std::vector<Thread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back(str_cat("rank ", r), [&body, r] { body(r); });
    }
  }

  void connect() {
    std::vector<wire::Address> addresses;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].peers.resize(ranks_.size());
      ranks_[r].transport = network_.transport(str_cat("host-", r));
      addresses.push_back(ranks_[r].transport->listen({}, hello(r)));
    }
    for (size_t to = 0; to < ranks_.size(); ++to) {
      for (size_t from = to + 1; from < ranks_.size(); ++from) {
        Thread accepts("accepts",
                       [&] { ranks_[to].peers[from] = ranks_[to].transport->accept(limit()); });
        ranks_[from].peers[to] =
            ranks_[from].transport->connect(addresses[to], hello(from), limit());
      }
    }
  }

  void add(size_t r, size_t a, const collective::LinkModel& links) {
    collective::CommunicationOptions options;
    options.implementation = algorithms_[a];
    if (options.implementation == "ring") options.order = collective::Order::kAny;
    ranks_[r].communicators.push_back(std::make_unique<collective::WireCommunicator>(
        static_cast<int>(r), ranks_[r].peers, ranks_[r].transport,
        std::make_shared<collective::Planner>(placement_, links, options),
        collective::WireCommunicatorOptions{.channel = 2 + static_cast<uint32_t>(a)}));
  }

  void measure(int64_t bytes) {
    std::vector<std::vector<double>> us(algorithms_.size());
    for_all([&](size_t r) {
      at::Tensor tensor = at::zeros({bytes / 4});
      for (int round = -1; round < options_.pairs; ++round) {
        for (size_t a = 0; a < algorithms_.size(); ++a) {
          collective::WireCommunicator& communicator = *ranks_[r].communicators[a];
          communicator.barrier();
          const auto start = std::chrono::steady_clock::now();
          communicator.all_reduce_(tensor, ReduceOp::kSum);
          const std::chrono::duration<double, std::micro> took =
              std::chrono::steady_clock::now() - start;
          if (r == 0 && round >= 0) us[a].push_back(took.count());
        }
      }
    });
    const std::string case_name = str_cat(name_, "/", size_name(bytes));
    const auto median = [&](size_t a) { return estimate(us[a]).median; };
    const auto system = [&](size_t a) {
      return a == 0 ? std::string("strata") : str_cat("strata:", algorithms_[a]);
    };
    size_t best = 1;
    for (size_t a = 0; a < algorithms_.size(); ++a) {
      const Estimate all = estimate(us[a]);
      result(case_name, system(a), "us")
          .add("value", all.median)
          .add("low", all.low)
          .add("high", all.high)
          .add("unit", std::string("us"))
          .print();
      if (a > 0 && a + 1 < algorithms_.size() && median(a) < median(best)) best = a;
    }
    const auto ratio = [&](const char* metric, size_t baseline) {
      std::vector<double> rounds;
      for (size_t i = 0; i < us[0].size(); ++i) rounds.push_back(us[baseline][i] / us[0][i]);
      const Estimate all = estimate(rounds);
      result(case_name, "strata", metric)
          .add("against", system(baseline))
          .add("value", all.median)
          .add("low", all.low)
          .add("high", all.high)
          .add("unit", std::string("ratio"))
          .print();
    };
    ratio("vs_best_algorithm", best);
    ratio("vs_ring", algorithms_.size() - 1);
  }

  const BenchOptions& options_;
  const std::string name_;
  const collective::Placement placement_;
  wire::MemoryNetwork network_;
  std::vector<Rank> ranks_;
  /// AUTO, what it may pick from, and the ring, which adds in any order.
  std::vector<std::string> algorithms_ = {"AUTO"};
};

}  // namespace

int run_network_suite(const BenchOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of its own, not ours
  std::vector<std::string> known;
  for (const Lines& lines : kLines) {
    for (const int hosts : kHosts) known.push_back(str_cat(lines.name, "/", hosts));
  }
  for (const int hosts : kHosts) known.push_back(str_cat("modelled-5ms/", hosts));
  known.emplace_back("overlap");
  for (const std::string& name : ps_lines_cases()) known.push_back(name);
  const std::vector<std::string> names = chosen_cases(options, "network", known);
  const auto wanted = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (wanted("overlap")) run_overlap_case(options);
  run_ps_lines_cases(options, names);
  const std::string missing = NetworkTestbed::missing();
  for (const Lines& lines : kLines) {
    for (const int hosts : kHosts) {
      const std::string name = str_cat(lines.name, "/", hosts);
      if (!wanted(name)) continue;
      std::cerr << "bench network: " << name << std::endl;
      if (!missing.empty()) {
        result(name, "strata", "us").add("missing", missing).print();
        continue;
      }
      const BenchWorkspace workspace;
      NetworkRun(options, lines, hosts, workspace.path()).run();
    }
  }
  for (const int hosts : kHosts) {
    if (wanted(str_cat("modelled-5ms/", hosts))) {
      ModelledRun(options, hosts, std::chrono::milliseconds(5)).run();
    }
  }
  return 0;
}

}  // namespace strata::bench
