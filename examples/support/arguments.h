#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "strata/runtime/devices.h"

namespace examples {

/// What every example understands.
struct Arguments {
  int epochs;
  int64_t batch;                     ///< Rows of a global batch, for all replicas together.
  std::vector<std::string> devices;  ///< Empty: all that there are.
};

/// `--epochs 2 --batch 128 --devices 2` (so many logical CPUs) or `--devices cpu:0,cpu:1`. Ends the
/// program with a line of help where it understands nothing.
inline Arguments parse(int argc, char** argv, Arguments arguments) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    const bool number =
        !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    if (name == "--epochs" && number) {
      arguments.epochs = std::stoi(value);
    } else if (name == "--batch" && number && std::stoll(value) > 0) {
      arguments.batch = std::stoll(value);
    } else if (name == "--devices" && number && std::stoi(value) > 0) {
      strata::set_logical_devices("cpu", std::stoi(value));
      for (int d = 0; d < std::stoi(value); ++d) {
        arguments.devices.push_back("cpu:" + std::to_string(d));
      }
    } else if (name == "--devices" && !value.empty()) {
      for (size_t begin = 0; begin <= value.size();) {
        const size_t end = std::min(value.find(',', begin), value.size());
        arguments.devices.push_back(value.substr(begin, end - begin));
        begin = end + 1;
      }
    } else {
      std::fprintf(stderr, "usage: %s [--epochs N] [--batch ROWS] [--devices N|cpu:0,cpu:1]\n",
                   argv[0]);
      std::exit(2);
    }
  }
  return arguments;
}

/// A first argument that is no option, which is taken away: where a program keeps what it makes.
inline std::string parse_folder(int& argc, char**& argv, std::string otherwise) {
  if (argc < 2 || argv[1][0] == '-') return otherwise;
  std::string folder = argv[1];
  --argc, ++argv;
  return folder;
}

}  // namespace examples
