#pragma once

#include <cstdint>
#include <functional>
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

/// Makes a table of the model in a file, with a batch.
using MeasureNetwork =
    std::function<simulate::NetworkTable(const std::string& path, int64_t batch)>;

/// @param words  What follows the command's name.
/// @param measure  For --network FILE.keras.
/// @throws Error  kInvalidArgument: a wrong option, or one that does not fit the others;
///                kNotFound: no such file.
SimulateOptions read_simulate_options(const std::vector<std::string>& words,
                                      const MeasureNetwork& measure);

}  // namespace strata::tools
