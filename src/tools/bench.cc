// `strata bench`: runs the program strata-bench, which is built from the sources (benchmarks/) and
// not installed.
#include <cstdlib>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/find_companion.h"

namespace strata::tools {

namespace {

Program bench_program() {
  Program program = find_companion("strata-bench");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): a command with one thread
  if (const char* const named = std::getenv("STRATA_BENCH")) program = {named, false};
  STRATA_CHECK(
      !program.path.empty(), kNotFound,
      "[strata bench] got no program strata-bench; it is not installed: build strata's "
      "sources (make build) and run their build/release/strata, or set STRATA_BENCH to it");
  return program;
}

}  // namespace

int bench_main(int, char** argv) { run_companion(bench_program(), argv); }

void run_bench_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  run_companion(bench_program(), argv.data());
}

}  // namespace strata::tools
