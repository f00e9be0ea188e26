// What an operator computes in a replica does not depend on how many intra-op threads the replica
// was given. Every operator that layers, losses, metrics and optimizers of this library reach is
// walked, forward and backward, at sizes that libtorch divides among threads.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/runtime/replica_context.h"

namespace strata {
namespace {

namespace F = torch::nn::functional;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  Tensors inputs;  // those of a floating type get gradients
  std::function<at::Tensor(const Tensors&)> call;
};

/// The result and the gradients.
Tensors results_in_replica(const Case& each) {
  Tensors inputs;
  Tensors leaves;
  for (const at::Tensor& input : each.inputs) {
    inputs.push_back(input.detach().clone());
    if (input.is_floating_point()) leaves.push_back(inputs.back().requires_grad_(true));
  }
  const at::Tensor out = each.call(inputs);
  Tensors results = {out.detach()};
  if (!out.requires_grad()) return results;
  // A gradient that is not all ones, and not drawn: the same for every number of threads.
  const at::Tensor ramp =
      torch::arange(out.numel(), out.options()).reshape(out.sizes()).remainder(97).sub(48).div(31);
  const auto gradients = torch::autograd::grad({out}, leaves, {ramp}, {}, false, true);
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) results.push_back(gradient);
  }
  return results;
}

Tensors results_with(const Case& each, int threads) {
  const auto group = std::make_shared<ReplicaGroup>(ReplicaGroupOptions{
      .devices = {find_device("cpu:0")}, .replicas = {.threads_per_replica = threads}});
  Tensors results;
  group->run([&](ReplicaContext&) { results = results_in_replica(each); });
  return results;
}

at::Tensor r(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return torch::randn(sizes, at::TensorOptions(at::kDouble)).to(type);
}

void add_products(std::vector<Case>& cases, at::ScalarType type) {
  const std::string suffix = std::string(" ") + c10::toString(type);
  cases.push_back({"linear" + suffix,
                   {r({300, 500}, type), r({200, 500}, type), r({200}, type)},
                   [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); }});
  cases.push_back({"linear of sequences" + suffix,
                   {r({30, 20, 100}, type), r({200, 100}, type), r({200}, type)},
                   [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); }});
  cases.push_back({"mm" + suffix, {r({300, 700}, type), r({700, 300}, type)}, [](const Tensors& t) {
                     return t[0].mm(t[1]);
                   }});
  cases.push_back({"large linear" + suffix,
                   {r({700, 512}, type), r({300, 512}, type), r({300}, type)},
                   [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); }});
  cases.push_back({"thin mm" + suffix,
                   {r({2, 90000}, type), r({90000, 3}, type)},
                   [](const Tensors& t) { return t[0].mm(t[1]); }});
  cases.push_back({"bmm" + suffix,
                   {r({6, 100, 300}, type), r({6, 300, 90}, type)},
                   [](const Tensors& t) { return t[0].bmm(t[1]); }});
  cases.push_back({"baddbmm" + suffix,
                   {r({6, 100, 90}, type), r({6, 100, 300}, type), r({6, 300, 90}, type)},
                   [](const Tensors& t) { return at::baddbmm(t[0], t[1], t[2]); }});
  cases.push_back({"mv" + suffix, {r({400, 900}, type), r({900}, type)}, [](const Tensors& t) {
                     return t[0].mv(t[1]);
                   }});
  cases.push_back({"addmv" + suffix,
                   {r({400}, type), r({400, 900}, type), r({900}, type)},
                   [](const Tensors& t) { return at::addmv(t[0], t[1], t[2]); }});
  cases.push_back({"dot" + suffix, {r({200000}, type), r({200000}, type)}, [](const Tensors& t) {
                     return t[0].dot(t[1]);
                   }});
  cases.push_back(
      {"einsum" + suffix, {r({40, 30, 60}, type), r({60, 50}, type)}, [](const Tensors& t) {
         return at::einsum("abc,cd->abd", {t[0], t[1]});
       }});
  cases.push_back({"attention" + suffix,
                   {r({4, 4, 130, 32}, type), r({4, 4, 130, 32}, type), r({4, 4, 130, 32}, type)},
                   [](const Tensors& t) {
                     return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, true);
                   }});
}

void add_convolutions(std::vector<Case>& cases, at::ScalarType type) {
  const std::string suffix = std::string(" ") + c10::toString(type);
  const auto convolution = [&](const std::string& name, const at::Tensor& x, const at::Tensor& w,
                               int64_t stride, int64_t padding, int64_t dilation, int64_t groups,
                               bool transposed) {
    const int64_t dims = x.dim() - 2;
    const int64_t channels = transposed ? w.size(1) * groups : w.size(0);
    cases.push_back(
        {name + suffix, {x.to(type), w.to(type), r({channels}, type)}, [=](const Tensors& t) {
           const std::vector<int64_t> s(dims, stride);
           const std::vector<int64_t> p(dims, padding);
           const std::vector<int64_t> d(dims, dilation);
           const std::vector<int64_t> o(dims, 0);
           return at::convolution(t[0], t[1], t[2], s, p, d, transposed, o, groups);
         }});
  };
  convolution("conv1d", r({16, 24, 200}), r({32, 24, 5}), 1, 2, 1, 1, false);
  convolution("conv2d 3x3", r({8, 24, 28, 28}), r({32, 24, 3, 3}), 1, 1, 1, 1, false);
  convolution("conv2d small", r({16, 3, 14, 14}), r({8, 3, 5, 5}), 1, 0, 1, 1, false);
  convolution("conv2d stride", r({8, 16, 28, 28}), r({32, 16, 3, 3}), 2, 1, 1, 1, false);
  convolution("conv2d image", r({8, 3, 64, 64}), r({16, 3, 7, 7}), 2, 3, 1, 1, false);
  convolution("conv2d 1x1", r({8, 32, 20, 20}), r({64, 32, 1, 1}), 1, 0, 1, 1, false);
  convolution("conv2d dilated", r({8, 16, 28, 28}), r({16, 16, 3, 3}), 1, 2, 2, 1, false);
  convolution("conv2d groups", r({8, 16, 28, 28}), r({32, 4, 3, 3}), 1, 1, 1, 4, false);
  convolution("conv2d depthwise", r({8, 32, 28, 28}), r({32, 1, 3, 3}), 1, 1, 1, 32, false);
  convolution("conv3d", r({4, 6, 10, 12, 12}), r({8, 6, 3, 3, 3}), 1, 1, 1, 1, false);
  // So large that they are divided among threads.
  convolution("large conv2d", r({6, 32, 40, 40}), r({64, 32, 3, 3}), 1, 1, 1, 1, false);
  convolution("large conv2d stride", r({6, 48, 60, 60}), r({64, 48, 5, 5}), 2, 2, 1, 1, false);
  convolution("large conv2d groups", r({8, 64, 60, 60}), r({64, 16, 3, 3}), 1, 1, 1, 4, false);
  convolution("large conv2d transposed", r({6, 32, 30, 30}), r({32, 48, 4, 4}), 2, 1, 1, 1, true);
  convolution("conv1d transposed", r({8, 16, 100}), r({16, 12, 4}), 2, 1, 1, 1, true);
  convolution("conv2d transposed", r({8, 16, 14, 14}), r({16, 12, 4, 4}), 2, 1, 1, 1, true);
  const at::Tensor last = r({8, 24, 28, 28}).contiguous(at::MemoryFormat::ChannelsLast);
  cases.push_back(
      {"conv2d channels last" + suffix,
       {last.to(type), r({32, 24, 3, 3}, type).contiguous(at::MemoryFormat::ChannelsLast)},
       [](const Tensors& t) { return at::conv2d(t[0], t[1], {}, 1, 1); }});
}

void add_reductions(std::vector<Case>& cases, at::ScalarType type) {
  const std::string suffix = std::string(" ") + c10::toString(type);
  const auto all = [&](const std::string& name, at::Tensor (*call)(const at::Tensor&)) {
    cases.push_back(
        {name + suffix, {r({600, 701}, type)}, [call](const Tensors& t) { return call(t[0]); }});
  };
  all("sum", [](const at::Tensor& x) { return x.sum(); });
  all("sum of rows", [](const at::Tensor& x) { return x.sum(1); });
  all("sum of columns", [](const at::Tensor& x) { return x.sum(0); });
  all("sum of a column's", [](const at::Tensor& x) { return x.narrow(1, 0, 2).sum(0); });
  all("sum of few", [](const at::Tensor& x) { return x.reshape({-1, 3, 701}).sum({0, 2}); });
  all("mean", [](const at::Tensor& x) { return x.mean(); });
  all("mean of rows", [](const at::Tensor& x) { return x.mean(1); });
  all("mean of columns", [](const at::Tensor& x) { return x.mean(0); });
  all("var", [](const at::Tensor& x) { return x.var(); });
  all("std of columns", [](const at::Tensor& x) { return x.std(0); });
  all("var_mean", [](const at::Tensor& x) { return std::get<0>(at::var_mean(x, {0})); });
  all("norm", [](const at::Tensor& x) { return x.norm(); });
  all("norm of rows",
      [](const at::Tensor& x) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{1}); });
  all("norm 1", [](const at::Tensor& x) { return at::linalg_vector_norm(x, 1); });
  all("prod", [](const at::Tensor& x) { return (x * 1e-3 + 1).prod(); });
  all("logsumexp", [](const at::Tensor& x) { return x.logsumexp(0); });
  all("max", [](const at::Tensor& x) { return x.max(); });
  all("amax", [](const at::Tensor& x) { return x.amax({0}); });
  all("cumsum", [](const at::Tensor& x) { return x.cumsum(0); });
  all("cumprod", [](const at::Tensor& x) { return (x * 1e-3 + 1).cumprod(1); });
  all("logcumsumexp", [](const at::Tensor& x) { return x.logcumsumexp(1); });
  all("softmax", [](const at::Tensor& x) { return x.softmax(1); });
  all("softmax of columns", [](const at::Tensor& x) { return x.softmax(0); });
  all("log_softmax", [](const at::Tensor& x) { return x.log_softmax(1); });
  all("nansum", [](const at::Tensor& x) { return x.nansum(); });
  all("count_nonzero", [](const at::Tensor& x) { return (x > 0).sum(); });
  all("sort", [](const at::Tensor& x) { return std::get<0>(x.sort(1)); });
  all("topk", [](const at::Tensor& x) { return std::get<0>(x.topk(5, 1)); });
  all("pointwise", [](const at::Tensor& x) {
    return at::gelu(x).tanh().mul(at::sigmoid(x)).add(at::softplus(x)).exp().log1p().sqrt();
  });
  all("activations", [](const at::Tensor& x) {
    return at::elu(x) + at::selu(x) + at::silu(x) + at::leaky_relu(x) + at::relu(x) + at::celu(x) +
           at::hardtanh(x) + at::hardsigmoid(x) + at::hardswish(x) + at::mish(x);
  });
  all("broadcast", [](const at::Tensor& x) { return x * x.narrow(0, 0, 1) + x.narrow(1, 0, 1); });
  all("mse", [](const at::Tensor& x) { return at::mse_loss(x, x.flip(0)); });
  all("l1", [](const at::Tensor& x) { return at::l1_loss(x, x.flip(0)); });
  all("huber", [](const at::Tensor& x) { return at::huber_loss(x, x.flip(0)); });
  all("smooth l1", [](const at::Tensor& x) { return at::smooth_l1_loss(x, x.flip(0)); });
  all("binary cross-entropy", [](const at::Tensor& x) {
    return at::binary_cross_entropy_with_logits(x, x.flip(0).sigmoid().detach());
  });
  all("binary cross-entropy of probabilities", [](const at::Tensor& x) {
    return at::binary_cross_entropy(x.sigmoid(), x.flip(0).sigmoid().detach());
  });
  all("kl", [](const at::Tensor& x) {
    return at::kl_div(x.log_softmax(1), x.flip(0).softmax(1).detach());
  });
  all("cosine", [](const at::Tensor& x) { return at::cosine_similarity(x, x.flip(0), 1).mean(); });
  all("cdist", [](const at::Tensor& x) {
    return at::cdist(x.narrow(0, 0, 60), x.narrow(0, 60, 70)).sum(0);
  });
}

void add_layers(std::vector<Case>& cases, at::ScalarType type) {
  const std::string suffix = std::string(" ") + c10::toString(type);
  const auto layer = [&](const std::string& name, const Tensors& inputs,
                         std::function<at::Tensor(const Tensors&)> call) {
    Tensors cast;
    for (const at::Tensor& input : inputs) {
      cast.push_back(input.is_floating_point() ? input.to(type) : input);
    }
    cases.push_back({name + suffix, cast, std::move(call)});
  };
  layer("layer_norm", {r({700, 96}), r({96}), r({96})},
        [](const Tensors& t) { return at::layer_norm(t[0], {96}, t[1], t[2]); });
  layer("group_norm", {r({16, 32, 14, 14}), r({32}), r({32})},
        [](const Tensors& t) { return at::group_norm(t[0], 4, t[1], t[2]); });
  layer("group_norm channels last",
        {r({16, 32, 14, 14}).contiguous(at::MemoryFormat::ChannelsLast), r({32}), r({32})},
        [](const Tensors& t) { return at::group_norm(t[0], 4, t[1], t[2]); });
  for (const bool training : {true, false}) {
    for (const bool last : {true, false}) {
      const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      layer(std::string("batch_norm") + (training ? " training" : "") +
                (last ? " channels last" : ""),
            {r({16, 32, 14, 14}).contiguous(format), r({32}), r({32})},
            [training](const Tensors& t) {
              return at::batch_norm(
                  t[0], t[1], t[2], at::zeros({32}, t[1].options().requires_grad(false)),
                  at::ones({32}, t[1].options().requires_grad(false)), training, 0.1, 1e-3, false);
            });
    }
  }
  layer("batch_norm of rows", {r({900, 64}), r({64}), r({64})}, [](const Tensors& t) {
    return at::batch_norm(t[0], t[1], t[2], {}, {}, true, 0.1, 1e-3, false);
  });
  const at::Tensor ids = torch::arange(6000).mul(7919).remainder(50).reshape({60, 100});
  layer("embedding", {r({50, 64}), ids},
        [](const Tensors& t) { return at::embedding(t[0], t[1]); });
  layer("index_select", {r({50, 64}), ids.flatten()},
        [](const Tensors& t) { return t[0].index_select(0, t[1]); });
  layer("index_add", {r({50, 64}), r({6000, 64}), ids.flatten()},
        [](const Tensors& t) { return t[0].index_add(0, t[2], t[1]); });
  layer("scatter_add", {r({50, 64}), r({6000, 64}), ids.flatten()}, [](const Tensors& t) {
    return t[0].scatter_add(0, t[2].unsqueeze(1).expand({6000, 64}), t[1]);
  });
  layer("gather", {r({50, 64}), ids.flatten()}, [](const Tensors& t) {
    return t[0].gather(0, t[1].unsqueeze(1).expand({6000, 64}));
  });
  layer("index", {r({50, 64}), ids.flatten()}, [](const Tensors& t) { return t[0].index({t[1]}); });
  layer("index_put", {r({50, 64}), r({6000, 64}), ids.flatten()},
        [](const Tensors& t) { return t[0].index_put({t[2]}, t[1], /*accumulate=*/true); });
  layer("cross_entropy", {r({6000, 50}), ids.flatten()},
        [](const Tensors& t) { return at::cross_entropy_loss(t[0], t[1]); });
  layer("nll of images",
        {r({20, 10, 30, 30}), torch::arange(18000).remainder(10).reshape({20, 30, 30})},
        [](const Tensors& t) { return at::nll_loss_nd(t[0].log_softmax(1), t[1]); });
  for (const bool last : {true, false}) {
    const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const std::string suffix_of = last ? " channels last" : "";
    const at::Tensor x = r({16, 32, 28, 28}).contiguous(format);
    layer("max_pool2d" + suffix_of, {x},
          [](const Tensors& t) { return at::max_pool2d(t[0], 3, 2, 1); });
    layer("avg_pool2d" + suffix_of, {x},
          [](const Tensors& t) { return at::avg_pool2d(t[0], 3, 2, 1); });
    layer("global pool" + suffix_of, {x}, [](const Tensors& t) {
      return at::adaptive_avg_pool2d(t[0], {1, 1});
    });
    layer("upsample" + suffix_of, {x}, [](const Tensors& t) {
      return at::upsample_bilinear2d(t[0], {56, 56}, false);
    });
    layer("upsample nearest" + suffix_of, {x}, [](const Tensors& t) {
      return at::upsample_nearest2d(t[0], {56, 56});
    });
  }
  layer("prelu", {r({16, 32, 28, 28}), r({32})},
        [](const Tensors& t) { return at::prelu(t[0], t[1]); });
  layer("bilinear", {r({40, 30}), r({40, 20}), r({10, 30, 20})},
        [](const Tensors& t) { return at::bilinear(t[0], t[1], t[2]); });
  const int64_t hidden = 48;
  for (const int64_t gates : {4, 3, 1}) {
    const std::string name = gates == 4 ? "lstm" : gates == 3 ? "gru" : "rnn";
    layer(name,
          {r({30, 20, 40}), r({1, 20, hidden}), r({1, 20, hidden}), r({gates * hidden, 40}),
           r({gates * hidden, hidden}), r({gates * hidden}), r({gates * hidden})},
          [gates](const Tensors& t) {
            const Tensors weights = {t[3], t[4], t[5], t[6]};
            if (gates == 4) {
              return std::get<0>(
                  at::lstm(t[0], {t[1], t[2]}, weights, true, 1, 0.0, true, false, false));
            }
            if (gates == 3) {
              return std::get<0>(at::gru(t[0], t[1], weights, true, 1, 0.0, true, false, false));
            }
            return std::get<0>(at::rnn_tanh(t[0], t[1], weights, true, 1, 0.0, true, false, false));
          });
  }
}

void add_others(std::vector<Case>& cases) {
  const at::Tensor ids = torch::arange(90000).mul(7919).remainder(50);
  cases.push_back({"bincount", {ids, r({90000}, at::kDouble)}, [](const Tensors& t) {
                     return at::bincount(t[0], t[1].detach(), 50);
                   }});
  cases.push_back({"bincount of floats", {ids, r({90000})}, [](const Tensors& t) {
                     return at::bincount(t[0], t[1].detach(), 50);
                   }});
  cases.push_back(
      {"histc", {r({90000})}, [](const Tensors& t) { return t[0].detach().histc(50); }});
  cases.push_back({"qr", {r({120, 90})}, [](const Tensors& t) {
                     return std::get<0>(at::linalg_qr(t[0].detach()));
                   }});
  cases.push_back({"svd", {r({120, 90})}, [](const Tensors& t) {
                     return std::get<1>(at::linalg_svd(t[0].detach(), false));
                   }});
  cases.push_back({"solve", {r({90, 90}), r({90, 20})}, [](const Tensors& t) {
                     return at::linalg_solve(t[0].detach(), t[1].detach());
                   }});
  cases.push_back({"foreach_norm", {r({90000}), r({300, 300})}, [](const Tensors& t) {
                     return at::stack(at::_foreach_norm({t[0].detach(), t[1].detach()}));
                   }});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const std::string suffix = std::string(" ") + c10::toString(type);
    cases.push_back({"linear" + suffix,
                     {r({300, 500}, type), r({200, 500}, type), r({200}, type)},
                     [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); }});
    cases.push_back({"conv2d" + suffix,
                     {r({8, 24, 28, 28}, type), r({32, 24, 3, 3}, type)},
                     [](const Tensors& t) { return at::conv2d(t[0], t[1], {}, 1, 1); }});
    cases.push_back({"layer_norm" + suffix,
                     {r({700, 96}, type), r({96}, type), r({96}, type)},
                     [](const Tensors& t) { return at::layer_norm(t[0], {96}, t[1], t[2]); }});
    cases.push_back(
        {"sum" + suffix, {r({600, 701}, type)}, [](const Tensors& t) { return t[0].sum(); }});
    cases.push_back({"softmax" + suffix, {r({600, 701}, type)}, [](const Tensors& t) {
                       return t[0].softmax(1);
                     }});
  }
}

bool same_bits_as(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

TEST(OperatorThreadsTest, TheBitsAreThoseOfOneThread) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "OpenMP is not instrumented";
#endif
  torch::manual_seed(3);
  std::vector<Case> cases;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    add_products(cases, type);
    add_convolutions(cases, type);
    add_reductions(cases, type);
    add_layers(cases, type);
  }
  add_others(cases);
  for (const Case& each : cases) {
    const Tensors one = results_with(each, 1);
    for (const int threads : {2, 3, 5}) {
      const Tensors more = results_with(each, threads);
      ASSERT_EQ(more.size(), one.size()) << each.name;
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(same_bits_as(one[i], more[i]))
            << each.name << ", " << (i == 0 ? "the result" : "gradient " + std::to_string(i))
            << ", " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace strata
