#pragma once

#include <string>
#include <vector>

#include "simulate/scenario.h"

namespace strata::tools {

/// What `strata simulate` was asked for.
struct SimulateOptions {
  std::vector<simulate::Scenario> scenarios = {};  ///< one for each number of replicas
  std::string study = {};                          ///< instead of scenarios
  bool fit = false;
  bool print_network = false;
  bool json = false;
  std::string svg = {};   ///< a file to write
  std::string help = {};  ///< --help was given: its text
};

/// @param words  What follows the command's name.
/// @throws Error  kInvalidArgument: a wrong option, or one that does not fit the others;
///                kNotFound: no such file.
SimulateOptions read_simulate_options(const std::vector<std::string>& words);

}  // namespace strata::tools
