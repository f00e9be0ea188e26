#include "simulate/report.h"

#include <cstdio>

#include "strata/core/str_cat.h"

namespace strata::simulate {
namespace {

std::string part_line(const char* name, double seconds, double step) {
  char text[96];
  std::snprintf(text, sizeof text, "  %-34s %11.3f ms %6.1f %%\n", name, seconds * 1e3,
                100 * seconds / step);
  return text;
}

std::string strategy_text(const Scenario& s) {
  if (s.strategy == Strategy::kAllReduce) return str_cat("all-reduce (", s.implementation, ")");
  const char* const rule = s.placement == PlacementRule::kGreedy       ? "greedy"
                           : s.placement == PlacementRule::kRoundRobin ? "round robin"
                                                                       : "sharded";
  const std::string queue =
      s.switch_queue_seconds > 0
          ? str_cat(", a switch's queue of ", s.switch_queue_seconds * 1e3, " ms")
          : std::string();
  return str_cat(s.servers, s.servers == 1 ? " parameter server (" : " parameter servers (", rule,
                 ", ",
                 s.variable_update == VariableUpdate::kParameterServer ? "parameter_server"
                                                                       : "distributed_replicated",
                 queue, ")");
}

}  // namespace

std::string report_text(const Scenario& scenario, const StepReport& report) {
  char line[160];
  std::string text =
      str_cat(scenario.network.name, ", ", scenario.replicas, " replicas on ", scenario.workers(),
              " workers on ", scenario.hosts(), " hosts, ", strategy_text(scenario), "\n");
  std::snprintf(line, sizeof line, "step %.3f ms, %.1f images/s, efficiency %.1f %%\n",
                report.step_seconds * 1e3, report.images_per_second, 100 * report.efficiency);
  text += line;
  const bool sums = scenario.strategy == Strategy::kAllReduce;
  text += part_line("computing, as a replica alone", report.compute_seconds, report.step_seconds);
  text += part_line("waiting for the last worker", report.straggler_seconds, report.step_seconds);
  if (!sums) {
    text += part_line("waiting for variables (pulls)", report.pull_seconds, report.step_seconds);
  }
  text += part_line(sums ? "sums after backward" : "gradients after backward (pushes)",
                    report.push_seconds, report.step_seconds);
  text += part_line("overhead", report.overhead_seconds, report.step_seconds);
  if (!report.buckets.empty() && scenario.workers() > 1) {
    std::snprintf(line, sizeof line,
                  "%zu buckets, the last ready at %.3f ms, added at %.3f ms by %s\n",
                  report.buckets.size(), report.buckets.back().ready * 1e3,
                  report.buckets.back().end * 1e3, report.buckets.back().algorithm.c_str());
    text += line;
  }
  std::snprintf(line, sizeof line, "%.1f MB between hosts a step; %lld events%s\n",
                report.bytes_between_hosts / 1e6, static_cast<long long>(report.events),
                report.grouped ? ", one worker for all" : "");
  text += line;
  for (const std::string& cause : causes(scenario, report)) text += str_cat("why: ", cause, "\n");
  for (const Advice& advice : advise(scenario, report)) {
    std::snprintf(line, sizeof line, " -> efficiency %.1f %%, step %.3f ms\n",
                  100 * advice.efficiency, advice.step_seconds * 1e3);
    text += str_cat("try: ", advice.change, " (", advice.reason, ")", line);
  }
  return text;
}

Json report_json(const Scenario& scenario, const StepReport& report) {
  Json json = Json::object();
  json.set("network", scenario.network.name);
  json.set("replicas", scenario.replicas);
  json.set("workers", scenario.workers());
  json.set("hosts", scenario.hosts());
  json.set("strategy", strategy_text(scenario));
  json.set("step_seconds", report.step_seconds);
  json.set("compute_seconds", report.compute_seconds);
  json.set("straggler_seconds", report.straggler_seconds);
  json.set("pull_seconds", report.pull_seconds);
  json.set("push_seconds", report.push_seconds);
  json.set("overhead_seconds", report.overhead_seconds);
  json.set("efficiency", report.efficiency);
  json.set("images_per_second", report.images_per_second);
  json.set("bytes_between_hosts", report.bytes_between_hosts);
  json.set("grouped", report.grouped);
  json.set("events", report.events);
  Json servers = Json::array();
  for (const ServerLoad& server : report.servers) {
    Json one = Json::object();
    one.set("bytes", server.bytes);
    one.set("variables", server.variables);
    one.set("largest", server.largest);
    one.set("largest_bytes", server.largest_bytes);
    servers.push_back(std::move(one));
  }
  json.set("servers", std::move(servers));
  Json buckets = Json::array();
  for (const BucketTimes& bucket : report.buckets) {
    Json one = Json::object();
    one.set("bytes", bucket.bytes);
    one.set("variables", bucket.variables);
    one.set("algorithm", bucket.algorithm);
    one.set("ready_seconds", bucket.ready);
    one.set("end_seconds", bucket.end);
    buckets.push_back(std::move(one));
  }
  json.set("buckets", std::move(buckets));
  Json why = Json::array();
  for (const std::string& cause : causes(scenario, report)) why.push_back(cause);
  json.set("why", std::move(why));
  Json changes = Json::array();
  for (const Advice& advice : advise(scenario, report)) {
    Json one = Json::object();
    one.set("change", advice.change);
    one.set("reason", advice.reason);
    one.set("efficiency", advice.efficiency);
    one.set("step_seconds", advice.step_seconds);
    changes.push_back(std::move(one));
  }
  json.set("try", std::move(changes));
  return json;
}

}  // namespace strata::simulate
