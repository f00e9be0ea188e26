#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/json.h"
#include "tools/study/measurement.h"
#include "tools/study/study_options.h"

namespace strata::tools {

/// Images/s of all replicas in TensorFlow.
struct TensorflowRate {
  double images_per_second = 0;
  std::string version = {};
};

/// A configuration here and in TensorFlow, in turns.
struct BesideTensorflow {
  std::string version = {};
  double images_per_second = 0;  ///< its median
  Spread quotient = {};          ///< of ours and its, one a round
};

/// A measurement among others: what they say of it.
struct StudyPoint {
  Measurement measurement;
  bool best = true;  ///< of the numbers of servers that were tried for its number of replicas
  /// The rate in rates of one replica, of the fewest replicas that were measured; efficiency is
  /// that by replica.
  std::optional<double> speedup = {};
  std::optional<double> efficiency = {};
  std::optional<double> synthetic_rate = {};  ///< images/s of the same without real images
  /// The rate over that of processes that share nothing: in turns, one quotient a round.
  std::optional<Spread> vs_limit = {};
  std::optional<BesideTensorflow> tensorflow = {};

  /// The part of the speed that real images cost; 0: nothing.
  std::optional<double> input_loss() const;

  Json to_json() const;
  /// @throws Error  kDataLoss: a member is missing, or of another type.
  static StudyPoint from_json(const Json& json);
};

/// Whether two points belong to one line of a chart: equal but for replicas and servers.
bool same_series(const StudyPoint& a, const StudyPoint& b);

/// Sets speedups and efficiencies, each against the best point with the fewest replicas of its
/// series.
void compare(std::vector<StudyPoint>& points);

/// How a configuration is measured; a test has another way than processes.
class StudyRunner {
 public:
  virtual ~StudyRunner() = default;
  virtual Measurement measure(const Configuration& configuration) = 0;
  /// @param configuration  One that TensorFlow can train (tensorflow_peer.h); timed once.
  virtual TensorflowRate measure_in_tensorflow(const Configuration& configuration) = 0;
};

/// Measures all that the options ask for: of each network and strategy, for each number of
/// replicas, each number of servers, of which the fastest is the best; beside the best one
/// synthetic images, the limit and TensorFlow, where asked for.
/// @param done  Gets each point as soon as it is known, with what is known of those before it.
std::vector<StudyPoint> run_study(const StudyOptions& options, StudyRunner& runner,
                                  const std::function<void(const StudyPoint&)>& done);

}  // namespace strata::tools
