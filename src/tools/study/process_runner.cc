#include "tools/study/process_runner.h"

#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/runtime/devices.h"
#include "tools/data_file.h"
#include "tools/launch/run_cluster.h"
#include "tools/study/task_result.h"
#include "tools/study/tensorflow_peer.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

/// For the results of one run; removed with all that is in it.
class ResultsFolder {
 public:
  ResultsFolder() : path_((fs::temp_directory_path() / "strata-study-XXXXXX").string()) {
    STRATA_CHECK(::mkdtemp(path_.data()) != nullptr, kPermissionDenied, "[strata study] got ",
                 path_, ", which cannot be made; TMPDIR sets the place");
  }
  ~ResultsFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr int kFirstSignal = 128;

/// Starts the tasks, each with the command, and waits for their end.
void run_tasks(LaunchOptions options, const Configuration& configuration, const std::string& what,
               const OrphanReaper& guard) {
  options.workers = configuration.workers();
  options.ps = configuration.servers;
  // Replicas on CPUs must not find GPUs, and several on one GPU are what was asked for.
  if (configuration.device == "cpu") options.environment["CUDA_VISIBLE_DEVICES"] = "";
  std::cout << "# " << what << std::endl;
  const ClusterEnd end = run_cluster(options, guard);
  // Tasks may have ended well: TensorFlow's workers catch SIGTERM.
  STRATA_CHECK(end.stopped_by == 0, kCancelled, "[strata study] got signal ", end.stopped_by,
               " while ", what, " was measured");
  STRATA_CHECK(end.status == 0, kUnavailable, "[strata study] got ",
               end.status > kFirstSignal ? str_cat("signal ", end.status - kFirstSignal)
                                         : str_cat("exit code ", end.status),
               " of ", what, "; the lines above say why");
}

}  // namespace

std::vector<Json> ProcessRunner::run(const Configuration& configuration,
                                     const std::vector<std::string>& words) {
  const ResultsFolder results;
  LaunchOptions options;
  options.command = configuration.words();
  options.command.insert(options.command.begin(), program_);
  options.command.insert(options.command.end(), words.begin(), words.end());
  options.command.insert(options.command.end(), {"--results", results.path()});
  run_tasks(std::move(options), configuration, configuration.describe(), guard_);
  std::vector<Json> found;
  for (int worker = 0; worker < configuration.workers(); ++worker) {
    found.push_back(Json::parse(read_file(task_result_path(results.path(), worker))));
  }
  return found;
}

TensorflowRate ProcessRunner::measure_in_tensorflow(const Configuration& configuration) {
  const ResultsFolder results;
  LaunchOptions options;
  options.command = {tensorflow_, data_file("study_in_tensorflow.py").string()};
  const std::vector<std::string> words = tensorflow_words(configuration);
  options.command.insert(options.command.end(), words.begin(), words.end());
  const std::string result = task_result_path(results.path(), 0);
  options.command.insert(options.command.end(), {"--result", result});
  options.environment = {{"TF_CPP_MIN_LOG_LEVEL", "3"}};
  options.secret = false;
  run_tasks(std::move(options), configuration, "TensorFlow: " + configuration.describe(), guard_);
  const Json found = Json::parse(read_file(result));
  return {.images_per_second = found.at("images_per_second").as_double(),
          .version = found.at("version").as_string()};
}

Measurement ProcessRunner::measure(const Configuration& configuration) {
  std::vector<Measurement> each;
  for (const Json& json : run(configuration, {})) {
    each.push_back(Measurement::from_json(json));
    each.back().configuration = configuration;  // with what concerns the terminal alone
    each.back().cores = num_cores();            // workers have their shares of them
  }
  const bool apart =
      configuration.strategy == StudyStrategy::kIndependent ||
      (configuration.strategy == StudyStrategy::kParameterServer && !configuration.synchronous);
  return apart ? added(each) : each[0];
}

}  // namespace strata::tools
