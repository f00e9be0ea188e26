#include "simulate/study_report.h"

#include <cstdio>
#include <map>

#include "simulate/advice.h"
#include "simulate/chart.h"
#include "strata/core/str_cat.h"

namespace strata::simulate {
namespace {

const char* update_name(const PublishedPoint& point) {
  if (point.servers == 0) return "in the host";
  return point.variable_update == VariableUpdate::kParameterServer ? "parameter_server, greedy"
                                                                   : "distributed_replicated";
}

/// Eight DGX-1 with Piz Daint's lines, which the study expects to be close to 64 of its nodes.
StepReport dgx1_on_daint(const FittedNumbers& numbers) {
  const PublishedSystem& daint = published_study("cscs").front();
  const PublishedSystem& dgx1 = published_study("google").front();
  PublishedSystem both = daint;
  both.gpus_per_host = dgx1.gpus_per_host;
  both.one_gpu = dgx1.one_gpu;
  PublishedPoint point{
      .gpus = 64, .servers = 8, .variable_update = VariableUpdate::kDistributedReplicated};
  return simulate(scenario_of(both, point, numbers));
}

}  // namespace

StepReport with_all_reduce(const SimulatedPoint& point) {
  Scenario scenario = point.scenario;
  scenario.strategy = Strategy::kAllReduce;
  scenario.detail = can_group(scenario) ? Detail::kGrouped : Detail::kAuto;
  return simulate(scenario);
}

std::string study_text(std::string_view name, const FittedNumbers& numbers) {
  char line[200];
  std::string text;
  const PublishedSystem* system = nullptr;
  const std::vector<SimulatedPoint> points = simulate_study(name, numbers);
  for (const SimulatedPoint& point : points) {
    if (point.system != system) {
      system = point.system;
      std::snprintf(line, sizeof line, "%s%s: %s, %s, %.2f images/s alone\n",
                    text.empty() ? "" : "\n", system->name.c_str(), system->hardware.c_str(),
                    system->network.c_str(), system->one_gpu);
      text += line;
      text +=
          "  GPUs servers                            published  simulated   error  all-reduce\n";
    }
    std::snprintf(line, sizeof line, "  %4d %4d %-28s %8.2f %% %8.2f %% %+7.2f",
                  point.published.gpus, point.published.servers, update_name(point.published),
                  100 * point.published.efficiency, 100 * point.simulated.efficiency,
                  100 * point.error());
    text += line;
    if (point.published.servers > 0) {
      std::snprintf(line, sizeof line, " %8.2f %%", 100 * with_all_reduce(point).efficiency);
      text += line;
    }
    text += "\n";
    const double waits = point.simulated.pull_seconds + point.simulated.push_seconds;
    if (waits > 0.02 * point.simulated.step_seconds) {
      text += str_cat("       ", causes(point.scenario, point.simulated).front(), "\n");
    }
  }
  std::snprintf(line, sizeof line, "\nRMS %.2f percentage points over %zu\n", 100 * rms(points),
                points.size());
  text += line;
  if (name != "cscs") {
    text +=
        "nothing was fitted to these: servers have the overheads of study cscs, sums in one host "
        "have none\n";
  } else {
    std::snprintf(
        line, sizeof line,
        "four numbers were fitted to them: overhead %.4f, %.4f a doubling, lines of %.3f GB/s "
        "(daint) and %.3f GB/s (p2.xlarge)\n",
        numbers.overhead, numbers.overhead_per_doubling, numbers.daint_bytes_per_second / 1e9,
        numbers.p2_xlarge_bytes_per_second / 1e9);
    text += line;
    const StepReport report = dgx1_on_daint(numbers);
    std::snprintf(
        line, sizeof line,
        "8 DGX-1 on Piz Daint's lines: %.0f images/s, %.1f %%; the study expects 64 of its nodes "
        "(%.0f images/s) to be close\n",
        report.images_per_second, 100 * report.efficiency,
        published_study("cscs").front().points[5].images_per_second);
    text += line;
  }
  return text;
}

Json study_json(std::string_view name, const FittedNumbers& numbers) {
  const std::vector<SimulatedPoint> points = simulate_study(name, numbers);
  Json json = Json::object();
  json.set("study", name);
  json.set("rms", rms(points));
  Json fitted = Json::object();
  fitted.set("overhead", numbers.overhead);
  fitted.set("overhead_per_doubling", numbers.overhead_per_doubling);
  fitted.set("daint_bytes_per_second", numbers.daint_bytes_per_second);
  fitted.set("p2_xlarge_bytes_per_second", numbers.p2_xlarge_bytes_per_second);
  json.set("fitted", std::move(fitted));
  Json all = Json::array();
  for (const SimulatedPoint& point : points) {
    Json one = Json::object();
    one.set("system", point.system->name);
    one.set("network", point.system->network);
    one.set("gpus", point.published.gpus);
    one.set("servers", point.published.servers);
    one.set("update", update_name(point.published));
    one.set("published", point.published.efficiency);
    one.set("simulated", point.simulated.efficiency);
    one.set("pull_seconds", point.simulated.pull_seconds);
    one.set("push_seconds", point.simulated.push_seconds);
    one.set("hot_server_seconds", point.simulated.hot_server_seconds);
    if (point.published.servers > 0) one.set("all_reduce", with_all_reduce(point).efficiency);
    all.push_back(std::move(one));
  }
  json.set("points", std::move(all));
  return json;
}

std::string study_svg(std::string_view name, const FittedNumbers& numbers) {
  std::vector<Series> lines;
  std::vector<Series> dots;
  for (const SimulatedPoint& point : simulate_study(name, numbers)) {
    if (lines.empty() || lines.back().name != point.system->name) {
      lines.push_back({.name = point.system->name, .replicas = {1}, .values = {1}});
      dots.push_back({.name = point.system->name, .replicas = {}, .values = {}, .points = true});
    }
    lines.back().replicas.push_back(point.published.gpus);
    lines.back().values.push_back(point.simulated.efficiency);
    dots.back().replicas.push_back(point.published.gpus);
    dots.back().values.push_back(point.published.efficiency);
  }
  lines.insert(lines.end(), dots.begin(), dots.end());
  return chart_svg(str_cat("Efficiency, study ", name, ": dots published, lines simulated"), lines);
}

}  // namespace strata::simulate
