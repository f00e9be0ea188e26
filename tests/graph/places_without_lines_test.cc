// Errors of a program without debug information name the function and its address.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "graph/stablehlo/lower.h"
#include "graph/stablehlo/trace_to_compile.h"
#include "strata/core/error.h"

namespace program {
namespace {

using Tensors = std::vector<at::Tensor>;

__attribute__((noinline)) at::Tensor rounded_without_lines(const at::Tensor& x) {
  return at::round(x, /*decimals=*/2);
}

TEST(PlacesWithoutLinesTest, AnErrorNamesTheFunctionAndItsAddress) {
  std::string message;
  try {
    strata::graph::stablehlo::lower(*strata::graph::stablehlo::trace_to_compile(
        "step", {at::ones({3})},
        [&](const Tensors& inputs) { return Tensors{rounded_without_lines(inputs[0])}; }));
  } catch (const strata::Error& error) {
    message = error.what();
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      message, found,
      std::regex("; called in program::\\(anonymous namespace\\)::rounded_without_lines "
                 "\\(addr2line -e (\\S+) 0x([0-9a-f]+)\\)\\) has decimals")))
      << message;
  EXPECT_EQ(found[1], program);
  EXPECT_LT(std::stoul(found[2], nullptr, 16), std::filesystem::file_size(program));
}

}  // namespace
}  // namespace program
