// Programs of operators chosen at random: each replays bit for bit.
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "graph/random_program.h"
#include "strata/graph/function.h"
#include "strata/tensor/fingerprint.h"
#include "tensor/random_streams.h"

namespace strata {
namespace {

using at::Tensor;

constexpr int kPrograms = 300;
using Program = test::RandomProgram;
constexpr int64_t kRows = Program::kRows;

template <typename Step>
std::string run(Program& program, Step& step, uint32_t seed, bool in_replica) {
  torch::manual_seed(seed + 1);
  std::vector<Tensor> results;
  tensor::RandomStream stream(seed, 0);
  for (uint64_t i = 0; i < 5; ++i) {
    const Tensor x = torch::randn({kRows, kRows});
    stream.set_step(i);
    std::optional<tensor::RandomStreamGuard> guard;
    if (in_replica) guard.emplace(stream);
    for (const Tensor& result : step(x)) results.push_back(result);
  }
  for (const Tensor& tensor : program.all_state()) results.push_back(tensor);
  return tensor::fingerprint(results);
}

TEST(RandomProgramsTest, ReplayBitForBit) {
  torch::set_num_threads(1);  // of so little work
  for (uint32_t seed = 0; seed < kPrograms; ++seed) {
    const bool in_replica = seed % 2 == 1;
    Program eager(seed), traced(seed);
    const std::string expected = run(eager, eager, seed, in_replica);
    const auto replayed = function([&](const Tensor& x) { return traced(x); });
    ASSERT_EQ(run(traced, replayed, seed, in_replica), expected) << "seed " << seed;
    ASSERT_EQ(replayed.tracing_count(), 1);
    check(*replayed.graphs()[0]);
  }
}

}  // namespace
}  // namespace strata
