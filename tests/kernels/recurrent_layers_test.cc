// torch::nn's recurrent modules in replica functions, against libtorch's in double precision.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/replica_like.h"

namespace strata {
namespace {

using Outputs = std::vector<at::Tensor>;

class RecurrentLayersTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
#if defined(__x86_64__)
    if (best_cpu_isa() == CpuIsa::kBaseline) GTEST_SKIP() << "needs AVX2 and FMA";
#endif
  }

  /// run(module, inputs), whose first output's history is `node`, gives what it gives in double.
  template <typename Module, typename Run>
  void check(Module& module, const Outputs& inputs, const std::string& node, const Run& run) {
    const auto go = [&](at::ScalarType dtype) {
      module->to(dtype);
      module->zero_grad();
      Outputs leaves;
      for (const at::Tensor& each : inputs) {
        leaves.push_back(each.detach().to(dtype).requires_grad_(true));
      }
      Outputs all = run(leaves);
      if (dtype == at::kFloat) names_ = history(all.back());
      at::Tensor loss = torch::zeros({}, dtype);
      for (const at::Tensor& y : all) {
        loss = loss + (y * torch::arange(y.numel(), y.options()).sin().view(y.sizes())).sum();
      }
      for (const at::Tensor& each : module->parameters()) leaves.push_back(each);
      for (const at::Tensor& each : torch::autograd::grad({loss}, leaves)) all.push_back(each);
      return all;
    };
    Outputs got;
    {
      const ReplicaLike replica;
      got = go(at::kFloat);
    }
    EXPECT_NE(names_.find(node), std::string::npos) << names_;
    const Outputs want = go(at::kDouble);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-5) << i;
  }

 private:
  static std::string history(const at::Tensor& y) {
    std::string names;
    auto function = y.grad_fn();
    for (int i = 0; i < 4 && function; ++i) {
      names += function->name() + " ";
      if (function->num_outputs() == 0) break;
      function = function->next_edge(0).function;
    }
    return names;
  }

  std::string names_;
};

TEST_F(RecurrentLayersTest, LstmAndGruOfLayersAndDirections) {
  for (int variant = 0; variant < 16; ++variant) {
    SCOPED_TRACE(variant);
    const bool batch_first = variant & 1, both = variant & 2, bias = variant & 4;
    const int64_t layers = variant & 8 ? 2 : 1, ways = both ? 2 : 1;
    const at::Tensor x = batch_first ? torch::randn({5, 4, 3}) : torch::randn({4, 5, 3});
    const at::Tensor h = torch::randn({layers * ways, 5, 6}), c = torch::randn_like(h);
    auto lstm = torch::nn::LSTM(torch::nn::LSTMOptions(3, 6)
                                    .num_layers(layers)
                                    .bias(bias)
                                    .batch_first(batch_first)
                                    .bidirectional(both));
    check(lstm, {x, h, c}, "LstmBackward", [&](const Outputs& in) {
      const auto [y, states] = lstm->forward(in[0], std::make_tuple(in[1], in[2]));
      return Outputs{y, std::get<0>(states), std::get<1>(states)};
    });
    auto gru = torch::nn::GRU(torch::nn::GRUOptions(3, 6)
                                  .num_layers(layers)
                                  .bias(bias)
                                  .batch_first(batch_first)
                                  .bidirectional(both));
    check(gru, {x, h}, "GruBackward", [&](const Outputs& in) {
      const auto [y, last] = gru->forward(in[0], in[1]);
      return Outputs{y, last};
    });
  }
}

TEST_F(RecurrentLayersTest, PackedSequences) {
  const at::Tensor lengths = torch::tensor({2, 5, 1, 3}, at::kLong);
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    const at::Tensor x = torch::randn({5, 4, 3});
    auto lstm = torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).bidirectional(both));
    const auto pack = [&](const at::Tensor& input) {
      return torch::nn::utils::rnn::pack_padded_sequence(input, lengths, false, false);
    };
    check(lstm, {x}, "LstmBackward", [&](const Outputs& in) {
      const auto [y, states] = lstm->forward_with_packed_input(pack(in[0]));
      return Outputs{y.data(), std::get<0>(states), std::get<1>(states)};
    });
    auto gru = torch::nn::GRU(torch::nn::GRUOptions(3, 6).bidirectional(both));
    check(gru, {x}, "GruBackward", [&](const Outputs& in) {
      const auto [y, last] = gru->forward_with_packed_input(pack(in[0]));
      return Outputs{y.data(), last};
    });
  }
}

TEST_F(RecurrentLayersTest, Cells) {
  for (const bool bias : {true, false}) {
    auto lstm = torch::nn::LSTMCell(torch::nn::LSTMCellOptions(3, 6).bias(bias));
    check(lstm, {torch::randn({5, 3}), torch::randn({5, 6}), torch::randn({5, 6})}, "LstmBackward",
          [&](const Outputs& in) {
            const auto [h, c] = lstm->forward(in[0], std::make_tuple(in[1], in[2]));
            return Outputs{h, c};
          });
    auto gru = torch::nn::GRUCell(torch::nn::GRUCellOptions(3, 6).bias(bias));
    check(gru, {torch::randn({5, 3}), torch::randn({5, 6})}, "GruBackward",
          [&](const Outputs& in) { return Outputs{gru->forward(in[0], in[1])}; });
  }
}

TEST_F(RecurrentLayersTest, ProjectionsAndOthersAreLibtorchs) {
  const at::Tensor x = torch::randn({4, 5, 3});
  auto projected = torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).proj_size(2));
  auto plain = torch::nn::LSTM(3, 6);
  const at::Tensor outside = std::get<0>(plain->forward(x));
  EXPECT_EQ(outside.sizes(), (at::IntArrayRef{4, 5, 6}));
  const ReplicaLike replica;
  EXPECT_EQ(std::get<0>(projected->forward(x)).sizes(), (at::IntArrayRef{4, 5, 2}));
  EXPECT_LT(largest_error(std::get<0>(plain->forward(x)), outside), 1e-5);
  EXPECT_ANY_THROW(plain->forward(torch::randn({4, 5, 2})));
}

}  // namespace
}  // namespace strata
