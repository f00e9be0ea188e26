// A standalone client that is killed and started again: it writes its session's name to a file, and
// resumes the one that it finds there.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "standalone/programs.h"
#include "strata/core/file_system.h"
#include "strata/strategies/parameter_server_strategy.h"

namespace strata {
namespace {

template <typename ClientStrategy, typename Options>
void train_in_session(Options options, const std::string& model, int steps,
                      const std::string& file) {
  options.seed = test::kSeed;
  options.client = "standalone";
  if (std::filesystem::exists(file)) options.standalone.session = read_file(file);
  ClientStrategy strategy(options);
  if (options.standalone.session.empty()) {
    const std::string unfinished = file + ".new";
    std::ofstream(unfinished) << strategy.session();
    std::filesystem::rename(unfinished, file);
  }
  std::cout << "starts at step " << strategy.runs() << std::endl;
  std::cout << "sha256 " << test::train_model(strategy, model, steps) << std::endl;
  strategy.close();
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace strata

/// Arguments: model, number of steps, file, servers, and perhaps "ps" and parameter servers.
int main(int argc, char** argv) {
  using namespace strata;
  if (argc < 5) return 2;
  const std::string model = argv[1];
  const int steps = std::atoi(argv[2]);
  const std::string file = argv[3];
  StandaloneOptions standalone;
  std::vector<std::string>* list = &standalone.servers;
  for (int i = 4; i < argc; ++i) {
    if (argv[i] == std::string("ps")) {
      list = &standalone.parameter_servers;
    } else {
      list->push_back(argv[i]);
    }
  }
  try {
    if (standalone.parameter_servers.empty()) {
      train_in_session<MirroredStrategy>(MirroredOptions{.standalone = standalone}, model, steps,
                                         file);
    } else {
      train_in_session<ParameterServerStrategy>(
          ParameterServerStrategyOptions{.consistency = {.kind = ps::Consistency::kSynchronous},
                                         .standalone = standalone},
          model, steps, file);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
