#include "simulate/advice.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "strata/core/str_cat.h"

namespace strata::simulate {
namespace {

constexpr double kWorthSaying = 0.01;  // of a step

std::string rounded(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string megabytes(double bytes) { return rounded("%.3g MB", bytes / 1e6); }
std::string milliseconds(double seconds) { return rounded("%.4g ms", seconds * 1e3); }
std::string percent(double part) { return rounded("%.1f %%", 100 * part); }

size_t hottest(const std::vector<ServerLoad>& servers) {
  const auto hot =
      std::max_element(servers.begin(), servers.end(),
                       [](const ServerLoad& a, const ServerLoad& b) { return a.bytes < b.bytes; });
  return static_cast<size_t>(hot - servers.begin());
}

double mean_bytes(const Scenario& scenario) {
  return static_cast<double>(scenario.network.bytes()) / scenario.servers;
}

std::string hot_server(const Scenario& scenario, const StepReport& report) {
  const size_t index = hottest(report.servers);
  const ServerLoad& hot = report.servers[index];
  return str_cat("server ", index, " holds ", megabytes(static_cast<double>(hot.bytes)),
                 ", of which ", hot.largest, " is ",
                 megabytes(static_cast<double>(hot.largest_bytes)), "; the mean is ",
                 megabytes(mean_bytes(scenario)));
}

/// What the buckets' messages take at least, over a host's line.
double line_seconds(const Scenario& scenario) {
  const double rate = scenario.links.across_hosts.bytes_per_second;
  const int hosts = scenario.hosts();
  if (rate == 0 || hosts < 2) return 0;
  return 2.0 * (hosts - 1) / hosts * static_cast<double>(scenario.network.bytes()) / rate;
}

void try_change(const Scenario& changed, const StepReport& now, std::string change,
                std::string reason, std::vector<Advice>& advice) {
  const StepReport then = simulate(changed);
  if (then.efficiency <= now.efficiency + kWorthSaying) return;
  advice.push_back({std::move(change), std::move(reason), then.efficiency, then.step_seconds});
}

}  // namespace

std::vector<std::string> causes(const Scenario& scenario, const StepReport& report) {
  std::vector<std::string> result;
  const double least = kWorthSaying * report.step_seconds;
  if (scenario.strategy == Strategy::kParameterServer &&
      report.pull_seconds + report.push_seconds > least) {
    result.push_back(str_cat(hot_server(scenario, report), ": its line needs ",
                             milliseconds(report.hot_server_seconds), " each way; forward takes ",
                             milliseconds(scenario.network.forward_seconds()), ", backward ",
                             milliseconds(scenario.network.backward_seconds())));
  }
  if (scenario.strategy == Strategy::kAllReduce && report.push_seconds > least) {
    const double backward_end = report.compute_seconds + report.straggler_seconds;
    int late = 0;
    double bytes = 0;
    for (const BucketTimes& bucket : report.buckets) {
      if (bucket.end <= backward_end) continue;
      ++late;
      bytes += static_cast<double>(bucket.bytes);
    }
    result.push_back(str_cat(late, " of ", report.buckets.size(), " buckets (", megabytes(bytes),
                             ") are added after the end of backward; the lines between hosts need ",
                             milliseconds(line_seconds(scenario)), " at least, backward takes ",
                             milliseconds(scenario.network.backward_seconds())));
  }
  if (report.straggler_seconds > least) {
    result.push_back(str_cat("the last of ", scenario.workers(), " workers computes ",
                             percent(report.straggler_seconds / report.compute_seconds),
                             " longer than the mean"));
  }
  if (report.overhead_seconds > least) {
    result.push_back(
        str_cat("what a step of ", scenario.replicas, " replicas costs besides (--overhead): ",
                percent(report.overhead_seconds / report.compute_seconds), " of computing"));
  }
  return result;
}

std::vector<Advice> advise(const Scenario& scenario, const StepReport& report) {
  std::vector<Advice> advice;
  if (scenario.workers() == 1) return advice;
  if (scenario.strategy == Strategy::kParameterServer) {
    if (scenario.placement != PlacementRule::kSharded) {
      Scenario sharded = scenario;
      sharded.placement = PlacementRule::kSharded;
      try_change(sharded, report, "--placement sharded", hot_server(scenario, report), advice);
    }
    if (scenario.servers < scenario.workers()) {
      Scenario more = scenario;
      more.servers = scenario.workers();
      more.placement = PlacementRule::kSharded;
      try_change(more, report, str_cat("--placement sharded --servers ", more.servers),
                 str_cat(scenario.servers, " servers' lines carry all variables for ",
                         scenario.workers(), " workers"),
                 advice);
    }
    Scenario sums = scenario;
    sums.strategy = Strategy::kAllReduce;
    if (scenario.workers() <= 64 || can_group(sums)) {
      if (!can_group(sums)) sums.detail = Detail::kAuto;
      try_change(
          sums, report, "--strategy all_reduce",
          "every worker's line then carries twice the variables, however many workers there are",
          advice);
    }
  } else {
    if (!scenario.overlap) {
      Scenario overlapped = scenario;
      overlapped.overlap = true;
      try_change(overlapped, report, "--overlap yes", "sums begin after the end of backward",
                 advice);
    }
    if (scenario.implementation != "AUTO") {
      Scenario chosen = scenario;
      chosen.implementation = "AUTO";
      if (scenario.workers() <= 64 || can_group(chosen)) {
        try_change(
            chosen, report, "--all-reduce AUTO",
            str_cat(scenario.implementation, " is slower here than what the planner chooses"),
            advice);
      }
    }
    const int64_t mean = scenario.network.bytes() / static_cast<int64_t>(report.buckets.size());
    Scenario packed = scenario;
    packed.bytes_per_pack = 4 * mean;
    try_change(packed, report, str_cat("--bytes-per-pack ", packed.bytes_per_pack),
               "fewer buckets have fewer messages", advice);
    Scenario faster = scenario;
    faster.links.across_hosts.bytes_per_second *= 2;
    for (collective::Link& link : faster.links.pairs) link.bytes_per_second *= 2;
    if (scenario.hosts() > 1) {
      try_change(faster, report, "lines between hosts of twice the rate",
                 str_cat("they need ", milliseconds(line_seconds(scenario)), " at least"), advice);
    }
    Scenario larger = scenario;
    larger.network = scenario.network.with_step_seconds(2 * scenario.network.step_seconds());
    larger.network.batch *= 2;
    try_change(larger, report, "twice the batch a replica",
               "a step then adds as much for more images", advice);
  }
  std::ranges::stable_sort(advice, std::greater{}, &Advice::efficiency);
  return advice;
}

}  // namespace strata::simulate
