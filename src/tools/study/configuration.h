#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/json.h"

namespace strata::tools {

enum class StudyStrategy {
  kMirrored,
  kMultiWorker,
  kParameterServer,
  kCentral,
  kOneDevice,
  kIndependent,  ///< processes that share nothing: what no strategy can exceed
};

enum class StudyPlacement { kGreedy, kRoundRobin, kSharded };

/// The words of the command line.
std::string_view word_of(StudyStrategy strategy);
std::string_view word_of(StudyPlacement placement);
/// @throws Error  kInvalidArgument: no such word; lists those that exist.
StudyStrategy strategy_of(std::string_view word);
StudyPlacement placement_of(std::string_view word);

/// The data that are made up, in memory.
inline constexpr std::string_view kSynthetic = "synthetic";

/// One training whose speed is measured. A value.
struct Configuration {
  std::string network = "resnet50";
  StudyStrategy strategy = StudyStrategy::kMirrored;
  int replicas = 1;
  int servers = 0;  ///< parameter servers; of the other strategies 0
  StudyPlacement placement = StudyPlacement::kGreedy;
  bool synchronous = true;  ///< parameter servers: a step is the sum of all workers' gradients
  int64_t batch = 0;        ///< of a replica
  std::string dtype = "float32";
  std::string data = std::string(kSynthetic);  ///< or a folder
  int64_t image_size = 0;
  int64_t classes = 0;
  std::string optimizer = "sgd";
  double learning_rate = 0;    ///< 0: not chosen yet
  std::string device = "cpu";  ///< "cpu", "gpu"
  int threads = 0;             ///< of a replica on CPUs; 0: its share of the cores
  int warmup = 10;
  int steps = 100;
  int repeat = 3;  ///< how often `steps` are timed, one after the other
  int display_every = 10;

  bool is_synthetic() const { return data == kSynthetic; }
  /// Whether each replica is a process.
  bool has_processes() const;
  /// Processes that train.
  int workers() const { return has_processes() ? replicas : 1; }
  /// "resnet50, parameter_server (greedy), 4 replicas, 2 servers, synthetic".
  std::string describe() const;

  /// The options that make `strata study` run it.
  std::vector<std::string> words() const;

  Json to_json() const;
  /// @throws Error  kDataLoss: a member is missing, or of another type.
  static Configuration from_json(const Json& json);

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

}  // namespace strata::tools
