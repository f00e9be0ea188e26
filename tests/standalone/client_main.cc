// A standalone client that is killed and started again: it writes its session's name to a file, and
// resumes the one that it finds there.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "standalone/programs.h"
#include "strata/core/file_system.h"

int main(int argc, char** argv) {
  using namespace strata;
  if (argc < 6) return 2;
  const std::string model = argv[1];
  const int steps = std::atoi(argv[2]);
  const std::string file = argv[3];
  try {
    MirroredOptions options{.seed = test::kSeed, .client = "standalone"};
    options.standalone.servers.assign(argv + 4, argv + argc);
    if (std::filesystem::exists(file)) options.standalone.session = read_file(file);
    MirroredStrategy strategy(options);
    if (options.standalone.session.empty()) {
      const std::string unfinished = file + ".new";
      std::FILE* out = std::fopen(unfinished.c_str(), "w");
      if (out == nullptr) return 3;
      std::fputs(strategy.session().c_str(), out);
      std::fclose(out);
      std::filesystem::rename(unfinished, file);
    }
    std::cout << "starts at step " << strategy.runs() << std::endl;
    std::cout << "sha256 " << test::train_model(strategy, model, steps) << std::endl;
    strategy.close();
    std::filesystem::remove(file);
    return 0;
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
    return 1;
  }
}
