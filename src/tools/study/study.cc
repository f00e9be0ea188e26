// strata-study, which `strata study` runs.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/run_main.h"
#include "tools/exit_status.h"
#include "tools/study/accuracy.h"
#include "tools/study/measure_training.h"
#include "tools/study/process_runner.h"
#include "tools/study/study_input.h"
#include "tools/study/study_options.h"
#include "tools/study/study_point.h"
#include "tools/study/study_report.h"
#include "tools/study/study_strategy.h"
#include "tools/study/task_result.h"

namespace strata::tools {
namespace {

/// Results as they come: lines of JSON, and at the end a table and a page.
class Output {
 public:
  explicit Output(const StudyOptions& options) : options_(options) {
    if (!options.json.empty()) write_text(options.json, "");
    if (!options.report.empty()) write_text(options.report, "");
  }

  void add(const StudyPoint& point) {
    lines_ += point.to_json().dump() + "\n";
    if (!options_.json.empty()) write_text(options_.json, lines_);
  }
  void finish(const std::vector<StudyPoint>& points) const {
    std::cout << '\n' << study_table(points) << std::flush;
    if (!options_.report.empty()) write_text(options_.report, study_html(points));
  }

 private:
  const StudyOptions& options_;
  std::string lines_;
};

/// Threads of a replica: as many in all configurations, so that more replicas are more cores.
void settle_devices(StudyOptions& options) {
  Configuration& base = options.base;
  if (base.device.empty()) base.device = list_physical_devices("GPU").empty() ? "cpu" : "gpu";
  if (base.device != "cpu" || base.threads > 0) return;
  const int most = *std::ranges::max_element(options.replicas);
  base.threads = std::max(1, num_cores() / most);
}

/// The configuration of a task, of which there is one.
Configuration only_configuration(StudyOptions& options) {
  STRATA_CHECK(
      options.networks.size() == 1 && options.strategies.size() <= 1 &&
          options.replicas.size() == 1 && options.servers.size() <= 1,
      kInvalidArgument,
      "[strata study] got a --sweep in a task of a cluster, whose replicas and servers are "
      "given; expected one configuration: start a cluster for each");
  if (options.base.device.empty()) {
    options.base.device = list_physical_devices("GPU").empty() ? "cpu" : "gpu";
  }
  const bool has_strategy = !options.strategies.empty();
  const Configuration configuration = configuration_of(
      options, options.networks[0], has_strategy ? options.strategies[0] : StudyStrategy::kMirrored,
      options.replicas[0], options.servers.empty() ? 0 : options.servers[0]);
  return fit_to_cluster(configuration, has_strategy, options.has_replicas);
}

int index_of_worker() {
  const auto cluster = cluster::resolve_cluster();
  return cluster ? cluster::id_in_cluster(cluster->spec, cluster->task) : 0;
}

int workers_of_cluster() {
  const auto cluster = cluster::resolve_cluster();
  return cluster ? cluster::worker_count(cluster->spec, cluster->task) : 1;
}

void show_accuracy(const StudyOptions& options, const std::vector<AccuracyResult>& results) {
  std::cout << '\n' << accuracy_table(results) << std::flush;
  std::string lines;
  for (const AccuracyResult& result : results) lines += result.to_json().dump() + "\n";
  if (!options.json.empty()) write_text(options.json, lines);
  if (!options.report.empty()) write_text(options.report, accuracy_html(results));
}

void run_task(StudyOptions options) {
  Configuration configuration = only_configuration(options);
  const int worker = index_of_worker();
  if (options.accuracy) {
    configuration = accuracy_configuration(configuration);
    const AccuracyResult trained = train_for_accuracy(configuration, options.training);
    if (!options.results.empty()) {
      write_text(task_result_path(options.results, worker), trained.to_json().dump());
    } else if (worker == 0) {
      show_accuracy(options, {trained});
    }
    return;
  }
  Measurement measured = measure_training(configuration, [&](const std::string& line) {
    if (worker == 0) std::cout << line << std::endl;
  });
  if (!options.results.empty()) {
    write_text(task_result_path(options.results, worker), measured.to_json().dump());
  } else if (worker == 0) {
    if (configuration.has_processes()) measured.cores *= workers_of_cluster();
    std::vector<StudyPoint> points = {{.measurement = measured}};
    compare(points);
    Output output(options);
    output.add(points[0]);
    output.finish(points);
  }
}

/// Every network, strategy, number of replicas and of servers.
void train_each(const StudyOptions& options, ProcessRunner& runner) {
  std::vector<AccuracyResult> results;
  for (const Configuration& configuration : all_configurations(options)) {
    const std::vector<Json> found =
        runner.run(accuracy_configuration(configuration), words_of(options.training));
    results.push_back(AccuracyResult::from_json(found.at(0)));
  }
  show_accuracy(options, results);
}

int run_here(StudyOptions options) {
  // Before there are other threads.
  ProcessRunner runner(std::filesystem::read_symlink("/proc/self/exe").string(),
                       options.tensorflow);
  settle_devices(options);
  if (options.strategies.empty()) options.strategies = {StudyStrategy::kMirrored};
  if (options.accuracy) {
    train_each(options, runner);
    return 0;
  }
  check_study_data(options.base);
  Output output(options);
  output.finish(run_study(options, runner, [&](const StudyPoint& point) { output.add(point); }));
  return 0;
}

int show_again(const StudyOptions& options) {
  std::vector<StudyPoint> points;
  for (const std::string& path : options.from) {
    const std::string text = read_file(path);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) {
        points.push_back(StudyPoint::from_json(Json::parse(text.substr(begin, end - begin))));
      }
      begin = end + 1;
    }
  }
  STRATA_CHECK(!points.empty(), kInvalidArgument,
               "[strata study] got --from files without results; expected lines that --json wrote");
  compare(points);
  Output output(options);
  for (const StudyPoint& point : points) output.add(point);
  output.finish(points);
  return 0;
}

int run(const std::vector<std::string>& words) {
  const StudyOptions options = read_study_options(words);
  if (!options.help.empty()) {
    std::cout << options.help;
    return 0;
  }
  if (!options.from.empty()) return show_again(options);
  if (!options.results.empty() || is_cluster_task()) {
    return run_main([&] { run_task(options); });
  }
  return run_here(options);
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata study", [&] {
    return strata::tools::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
