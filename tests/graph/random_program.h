#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace strata::test {

using at::Tensor;

struct RandomProgramOptions {
  at::ScalarType dtype = at::kFloat;
  bool draws = true;  ///< Whether it may draw random numbers.
};

/// A program over tensors of `[4, 4]`, the same for a seed; its weights are state.
class RandomProgram {
 public:
  static constexpr int64_t kRows = 4;

  explicit RandomProgram(uint32_t seed, const RandomProgramOptions& options = {})
      : seed_(seed), options_(options) {
    torch::manual_seed(seed);
    for (int i = 0; i < 3; ++i) {
      weights_.push_back(torch::randn({kRows, kRows}, options.dtype).requires_grad_());
      state_.push_back(torch::randn({kRows, kRows}, options.dtype));
    }
    conv_ = torch::randn({2, 1, 3, 3}, options.dtype).requires_grad_();
  }

  std::vector<Tensor> operator()(const Tensor& x) {
    std::mt19937 random(seed_);
    values_ = {x, weights_[0] * x};
    for (int i = 0; i < kOperators; ++i) {
      const size_t count = operators().size() - (options_.draws ? 0 : kDrawing);
      const size_t choice = random() % count;
      values_.push_back(operators()[choice](*this, random));
    }
    Tensor loss = torch::zeros({}, options_.dtype);
    for (const Tensor& value : values_) {
      if (value.is_floating_point()) loss = loss + value.tanh().sum();
    }
    const std::vector<Tensor> gradients =
        torch::autograd::grad({loss}, leaves(), {}, std::nullopt, false, /*allow_unused=*/true);
    const torch::NoGradGuard no_grad;
    const std::vector<Tensor> weights = leaves();
    for (size_t i = 0; i < weights.size(); ++i) {
      if (gradients[i].defined()) weights[i].sub_(gradients[i].clamp(-1, 1), 0.01);
    }
    std::vector<Tensor> results = {loss.detach()};
    for (const Tensor& value : values_) results.push_back(value.detach());
    return results;
  }

  std::vector<Tensor> all_state() const {
    std::vector<Tensor> all = state_;
    for (const Tensor& leaf : leaves()) all.push_back(leaf.detach());
    return all;
  }

 private:
  using Random = std::mt19937;
  using Operator = std::function<Tensor(RandomProgram&, Random&)>;

  static constexpr int kOperators = 12;
  static constexpr size_t kDrawing = 2;

  std::vector<Tensor> leaves() const { return {weights_[0], weights_[1], weights_[2], conv_}; }
  Tensor pick(Random& random) const { return values_[random() % values_.size()]; }
  Tensor weight(Random& random) const { return weights_[random() % weights_.size()]; }

  static const std::vector<Operator>& operators() {
    using P = RandomProgram;
    using R = Random;
    static const std::vector<Operator> all = {
        [](P& p, R& r) { return p.pick(r) + p.pick(r); },
        [](P& p, R& r) { return p.pick(r) * 0.5 - p.pick(r); },
        [](P& p, R& r) { return p.pick(r).matmul(p.weight(r)); },
        [](P& p, R& r) { return torch::relu(p.pick(r)); },
        [](P& p, R& r) { return torch::gelu(p.pick(r)); },
        [](P& p, R& r) { return torch::sigmoid(p.pick(r)) * p.pick(r); },
        [](P& p, R& r) { return p.pick(r).t(); },
        [](P& p, R& r) {
          return p.pick(r).t().contiguous().view({2, 8}).reshape({4, 4});
        },
        [](P& p, R& r) { return torch::softmax(p.pick(r), 1); },
        [](P& p, R& r) { return torch::log_softmax(p.pick(r), 0); },
        [](P& p, R& r) {
          return torch::layer_norm(p.pick(r), {kRows}, p.weight(r)[0], p.weight(r)[1]);
        },
        [](P& p, R& r) {
          return torch::cat({p.pick(r), p.pick(r)}, 0).slice(0, 2, 6);
        },
        [](P& p, R& r) {
          return torch::stack({p.pick(r), p.pick(r)}).mean(0);
        },
        [](P& p, R& r) {
          return p.pick(r).sum(0, true).expand({kRows, kRows});
        },
        [](P& p, R& r) { return p.pick(r).select(1, 2).unsqueeze(0) + p.weight(r); },
        [](P& p, R& r) { return p.pick(r).flip(0).roll(1, 1); },
        [](P& p, R& r) { return std::get<0>(p.pick(r).sort(1)); },
        [](P& p, R& r) {
          return std::get<0>(torch::max_pool2d_with_indices(p.pick(r).view({1, 1, 4, 4}), {3, 3},
                                                            {1, 1}, {1, 1}))
              .view({4, 4});
        },
        [](P& p, R& r) {
          return torch::conv2d(p.pick(r).reshape({1, 1, 4, 4}), p.conv_, {}, 1, 1)
              .sum(1)
              .view({4, 4});
        },
        [](P& p, R& r) { return torch::where(p.pick(r) > 0, p.pick(r), p.weight(r)); },
        [](P& p, R& r) {
          return p.pick(r).gather(1, p.pick(r).argsort(/*stable=*/true, 1, false));
        },
        [](P& p, R& r) {
          return torch::embedding(p.weight(r), torch::tensor({3, 0, 1, 0}));
        },
        [](P& p, R& r) {
          return p.pick(r).index_select(0, torch::tensor({1, 1, 2, 0}));
        },
        [](P& p, R& r) { return p.pick(r).masked_fill(p.pick(r) < 0, 0.25); },
        [](P& p, R& r) { return torch::cumsum(p.pick(r), 0); },
        [](P& p, R& r) { return p.pick(r).norm(2, 1, true) + p.pick(r); },
        [](P& p, R& r) { return p.pick(r).clamp(-0.5, 0.5).pow(3); },
        [](P& p, R& r) {
          return torch::einsum("ij,kj->ik", {p.pick(r), p.weight(r)});
        },
        [](P& p, R& r) {
          return p.pick(r).to(torch::kDouble).sqrt().nan_to_num().to(p.options_.dtype);
        },
        [](P& p, R& r) {
          return torch::bmm(p.pick(r).view_as(p.weight(r)).reshape({2, 2, 4}),
                            p.pick(r).reshape({2, 4, 2}))
              .reshape({2, 4})
              .repeat({2, 1});
        },
        [](P& p, R& r) {  // state, through views
          const torch::NoGradGuard no_grad;
          Tensor state = p.state_[r() % p.state_.size()];
          state.mul_(0.5).add_(p.pick(r).detach().clamp(-1, 1));
          state.select(0, 1).copy_(p.pick(r)[0].detach().clamp(-1, 1));
          state.t().slice(1, 0, 2).mul_(1.5);
          return state.clone();
        },
        [](P& p, R& r) {  // a buffer of the step
          Tensor buffer = torch::empty({kRows, kRows}, p.options_.dtype);
          buffer.copy_(p.pick(r).detach());
          buffer.index_put_({torch::tensor({0, 2})}, p.pick(r)[1].detach());
          return buffer.add_(1).view({kRows, kRows});
        },
        [](P& p, R& r) {  // written in place below autograd's eyes
          Tensor copy = p.pick(r) * 1;
          copy[1] = p.pick(r)[2];
          copy.tanh_();
          return copy;
        },
        [](P& p, R& r) {
          const std::vector<Tensor> parts = p.pick(r).chunk(2, 1);
          return torch::cat({parts[1], parts[0] * parts[1]}, 1);
        },
        // kDrawing that draw random numbers
        [](P& p, R& r) { return torch::dropout(p.pick(r), 0.4, true); },
        [](P& p, R& r) {
          return p.pick(r) + torch::rand({kRows, kRows}, p.options_.dtype) +
                 torch::randn({kRows, 1}, p.options_.dtype);
        },
    };
    return all;
  }

  uint32_t seed_;
  RandomProgramOptions options_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> state_;
  Tensor conv_;
  std::vector<Tensor> values_;
};

}  // namespace strata::test
