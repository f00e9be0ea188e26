// strata-simulate, which `strata simulate` runs.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "simulate/chart.h"
#include "simulate/report.h"
#include "simulate/study_report.h"
#include "strata/core/error.h"
#include "tools/exit_status.h"
#include "tools/simulate/measured_network.h"
#include "tools/simulate/simulate_options.h"

namespace strata::tools {
namespace {

constexpr int kMeasuredSteps = 10;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  STRATA_CHECK(file.good(), kUnavailable, "[strata simulate] got ", path,
               ", which cannot be written; expected a file in a folder that exists");
}

void show_study(const SimulateOptions& options) {
  const simulate::FittedNumbers numbers =
      options.fit ? simulate::fit() : simulate::fitted_numbers();
  if (options.json) {
    std::cout << simulate::study_json(options.study, numbers).dump(2) << '\n';
  } else {
    std::cout << simulate::study_text(options.study, numbers);
  }
  if (!options.svg.empty()) write_file(options.svg, simulate::study_svg(options.study, numbers));
}

void show_scenarios(const SimulateOptions& options) {
  simulate::Series line{
      .name = options.scenarios[0].network.name, .replicas = {}, .values = {}};
  Json all = Json::array();
  for (const simulate::Scenario& scenario : options.scenarios) {
    const simulate::StepReport report = simulate::simulate(scenario);
    line.replicas.push_back(scenario.replicas);
    line.values.push_back(report.efficiency);
    if (options.json) {
      all.push_back(simulate::report_json(scenario, report));
    } else {
      if (line.replicas.size() > 1) std::cout << '\n';
      std::cout << simulate::report_text(scenario, report);
    }
  }
  if (options.json) std::cout << all.dump(2) << '\n';
  if (!options.svg.empty()) {
    write_file(options.svg, simulate::chart_svg("Efficiency, simulated", {line}));
  }
}

int run(const std::vector<std::string>& words) {
  const auto measure = [](const std::string& path, int64_t batch) {
    return measure_network(path, batch, kMeasuredSteps);
  };
  const SimulateOptions options = read_simulate_options(words, measure);
  if (!options.help.empty()) {
    std::cout << options.help;
  } else if (options.print_network) {
    STRATA_CHECK(!options.scenarios.empty(), kInvalidArgument,
                 "[strata simulate] got --print-network without --network; expected both");
    std::cout << options.scenarios[0].network.to_json().dump(1) << '\n';
  } else if (!options.study.empty()) {
    show_study(options);
  } else {
    show_scenarios(options);
  }
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata simulate", [&] {
    return strata::tools::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
