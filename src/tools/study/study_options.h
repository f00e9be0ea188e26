#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/study/configuration.h"

namespace strata::tools {

enum class RateScaling { kLinear, kSqrt, kNone };

/// Training for its result, not its speed.
struct AccuracyOptions {
  int epochs = 1;
  int64_t examples = 0;  ///< of the training set; 0: all
  RateScaling scaling = RateScaling::kLinear;
  double warmup_epochs = 0;
};

/// What `strata study` was asked for.
struct StudyOptions {
  Configuration base;                     ///< what all configurations have in common
  std::vector<std::string> networks;      ///< at least one, each of these
  std::vector<StudyStrategy> strategies;  ///< empty: as the cluster says, or mirrored
  std::vector<int> replicas;
  std::vector<int> servers;   ///< tried for each number of replicas; empty: 1
  bool has_replicas = false;  ///< they were given
  bool limit = false;
  std::string tensorflow = {};  ///< a Python that has it: it is measured, too; empty: it is not
  bool compare_input = true;    ///< real images: measures synthetic ones, too
  bool accuracy = false;
  AccuracyOptions training = {};
  std::string json = {};               ///< a file to write
  std::string report = {};             ///< a file to write
  std::vector<std::string> from = {};  ///< files of earlier results, instead of running
  std::string results = {};  ///< a folder: this process is a task, and writes its results there
  std::string help = {};     ///< --help was given: its text
};

/// @param words  What follows the command's name.
/// @throws Error  kInvalidArgument: a wrong option, or one that does not fit the others.
StudyOptions read_study_options(const std::vector<std::string>& words);

/// The configuration of one network, strategy and number of replicas, with `servers` parameter
/// servers if the strategy has them.
Configuration configuration_of(const StudyOptions& options, const std::string& network,
                               StudyStrategy strategy, int replicas, int servers);

/// One for each network, strategy, number of replicas and, for strategies with servers, of servers.
std::vector<Configuration> all_configurations(const StudyOptions& options);

/// As the command line has it: linear, sqrt, none.
std::string_view word_of(RateScaling scaling);

}  // namespace strata::tools
