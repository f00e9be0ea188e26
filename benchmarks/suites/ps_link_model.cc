#include "suites/ps_link_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kReadyTimeout = std::chrono::minutes(2);
constexpr auto kSlack = std::chrono::minutes(1);
constexpr int kPort = 7500;  // of hosts that have a network of their own

void expect(const std::string& line, const std::string& begin) {
  STRATA_CHECK(line.rfind(begin, 0) == 0, kUnavailable, "[strata bench] ps on lines: got \"", line,
               "\"; expected \"", begin, "\"");
}

/// When a worker's steps ended, on the clock that all processes of a machine share.
std::vector<double> ends_of_steps(const std::string& line) {
  expect(line, "ok ");
  std::istringstream words(line.substr(3));
  std::vector<double> ends;
  for (double end = 0; words >> end;) ends.push_back(end);
  return ends;
}

}  // namespace

PsLinkModel::PsLinkModel(const std::filesystem::path& command, const Hosts& hosts,
                         const std::filesystem::path& logs)
    : hosts_(hosts), testbed_(hosts.workers + hosts.servers) {
  std::string workers, servers;
  for (int host = 0; host < testbed_.num_hosts(); ++host) {
    const bool is_worker = host < hosts_.workers;
    testbed_.shape(host, {.bits_per_second = is_worker ? hosts_.worker_bits_per_second
                                                       : hosts_.server_bits_per_second});
    std::string& addresses = is_worker ? workers : servers;
    addresses += str_cat(addresses.empty() ? "" : ",", testbed_.address(host), ":", kPort);
  }
  const auto start = [&](int host, const std::string& role, int task) {
    std::vector<std::string> argv = testbed_.enter(host);
    argv.insert(argv.end(), {command, "ps-worker", "--role", role, "--task", str_cat(task),
                             "--workers", workers, "--servers", servers});
    const ProcessSpec spec = {std::move(argv), {}, {}};
    return std::make_unique<BenchProcess>(spec, logs / str_cat(role, "-", task, ".log"));
  };
  for (int i = 0; i < hosts_.servers; ++i) {
    servers_.push_back(start(hosts_.workers + i, "server", i));
  }
  for (int i = 0; i < hosts_.workers; ++i) workers_.push_back(start(i, "trainer", i));
  for (const auto* processes : {&servers_, &workers_}) {
    for (const auto& process : *processes) {
      expect(process->receive(Clock::now() + kReadyTimeout), "ready");
    }
  }
}

void PsLinkModel::shape(int worker, double bits_per_second) {
  testbed_.shape(worker, {.bits_per_second = bits_per_second});
}

std::vector<double> PsLinkModel::run(const PsTraining& training) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    const double slow = i + 1 == workers_.size() ? training.slow : 1;
    workers_[i]->send(str_cat("train ", training.consistency, " ", training.bytes, " ",
                              training.compute * slow, " ", training.seconds));
  }
  const auto deadline =
      Clock::now() +
      std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(training.seconds)) + kSlack;
  std::vector<std::vector<double>> ends;
  for (const auto& worker : workers_) ends.push_back(ends_of_steps(worker->receive(deadline)));
  const size_t timed = std::max<size_t>(1, ends.size() - 1);
  double from = 0, until = INFINITY;
  for (size_t i = 0; i < timed; ++i) {
    from = std::max(from, ends[i].front());
    until = std::min(until, ends[i].back());
  }
  std::vector<double> seconds;
  for (std::vector<double>& each : ends) {
    std::erase_if(each, [&](double end) { return end < from || end > until; });
    const auto steps = static_cast<double>(each.size()) - 1;
    STRATA_CHECK(steps > 0 || seconds.size() >= timed, kUnavailable,
                 "[strata bench] ps on lines: worker ", seconds.size(),
                 " has ended no two steps beside the others in ", training.seconds, " s");
    seconds.push_back(steps > 0 ? (each.back() - each.front()) / steps : 0);
  }
  return seconds;
}

double PsLinkModel::shortest(int64_t bytes) const {
  const double worker = 1 / hosts_.worker_bits_per_second;
  const double server = hosts_.workers / (hosts_.servers * hosts_.server_bits_per_second);
  return 8 * static_cast<double>(bytes) * std::max(worker, server);
}

double step_of(const std::vector<double>& seconds, int workers) {
  double rate = 0;
  for (size_t i = 0; i < static_cast<size_t>(workers); ++i) {
    STRATA_CHECK(seconds.at(i) > 0, kUnavailable, "[strata bench] ps on lines: worker ", i,
                 " has ended no two steps; train for longer");
    rate += 1 / seconds[i];
  }
  return workers / rate;
}

}  // namespace strata::bench
