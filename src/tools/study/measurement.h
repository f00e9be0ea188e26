#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/json.h"
#include "tools/study/configuration.h"

namespace strata::tools {

/// The median of some values, the least and the most.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// @param values  At least one.
Spread spread_of(std::vector<double> values);

/// JSON has no NaN, which the loss of a training that diverged is: null.
Json finite_or_null(double value);
double number_or_nan(const Json& json);

/// Seconds of a step that ran as it is written, of the mean replica.
struct StepParts {
  double forward = 0;        ///< to the loss
  double backward = 0;       ///< sums between processes beside it included
  double communication = 0;  ///< between processes, after backward
  double update = 0;         ///< with the wait for other replicas, and their sum in one process
};

/// How fast one configuration trained.
struct Measurement {
  Configuration configuration;
  std::vector<double> images_per_second;  ///< of all replicas, one each time the steps were timed
  double input_seconds = 0;               ///< of a timed step: until its batch was there
  std::optional<StepParts> parts = {};    ///< on CPUs
  double loss = 0;                        ///< of the last step
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  std::vector<int64_t> server_bytes = {};  ///< of variables, by parameter server
  std::string processor = {};
  int cores = 0;  ///< of the process, or of the machine if it has several

  double rate() const { return spread_of(images_per_second).median; }
  double step_seconds() const {
    return static_cast<double>(configuration.batch * configuration.replicas) / rate();
  }

  Json to_json() const;
  /// @throws Error  kDataLoss: a member is missing, or of another type.
  static Measurement from_json(const Json& json);
};

/// What processes that train by themselves did together: rates are added. @param each  At least
/// one.
Measurement added(const std::vector<Measurement>& each);

}  // namespace strata::tools
