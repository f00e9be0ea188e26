#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "strata/core/str_cat.h"
#include "suites/kernels.h"

namespace strata::bench {
namespace {

using at::Tensor;
using kernels::KernelClass;

using Run = std::function<void()>;

Run product(int64_t m, int64_t n, int64_t k, bool a_by_columns, bool b_by_columns) {
  const Tensor a = a_by_columns ? at::randn({k, m}).t() : at::randn({m, k});
  const Tensor b = b_by_columns ? at::randn({n, k}).t() : at::randn({k, n});
  return [a, b] { at::mm(a, b); };
}

Run batched(int64_t batches, int64_t m, int64_t n, int64_t k) {
  const Tensor a = at::randn({batches, m, k}), b = at::randn({batches, k, n});
  return [a, b] { at::bmm(a, b); };
}

struct Conv {
  int64_t images;
  int64_t channels;
  int64_t size;
  int64_t to;
  int64_t kernel;
  int64_t stride;
  int64_t padding;
};

/// Forward and both gradients.
Run convolution(const Conv& c) {
  const Tensor x = at::randn({c.images, c.channels, c.size, c.size});
  const Tensor w = at::randn({c.to, c.channels, c.kernel, c.kernel});
  const Tensor bias = at::randn({c.to});
  const bool image = c.channels <= 4;  // no gradient of what has no layer below
  return [=] {
    const Tensor y = at::conv2d(x, w, bias, c.stride, c.padding);
    at::convolution_backward(y, x, w, bias.sizes(), {c.stride, c.stride}, {c.padding, c.padding},
                             {1, 1}, false, {0, 0}, 1, {!image, true, true});
  };
}

/// Forward and backward by autograd.
template <typename Function>
Run differentiated(const Tensor& x, const Function& function) {
  const Tensor leaf = x.detach().requires_grad_();
  Tensor gradient;
  {
    const at::NoGradGuard no_grad;
    gradient = at::randn_like(function(leaf));
  }
  return [=] { torch::autograd::grad({function(leaf)}, {leaf}, {gradient}); };
}

Run attention(int64_t tokens, bool causal) {
  const Tensor key = at::randn({16, 4, tokens, 64}).requires_grad_();
  const Tensor value = at::randn({16, 4, tokens, 64}).requires_grad_();
  return differentiated(at::randn({16, 4, tokens, 64}), [=](const Tensor& query) {
    return at::scaled_dot_product_attention(query, key, value, {}, 0, causal);
  });
}

void add_products(std::vector<KernelCase>& cases) {
  const auto add = [&](int64_t m, int64_t n, int64_t k, bool a_by_columns, bool b_by_columns) {
    const KernelClass of = kernels::matmul_class(m, n, k, a_by_columns || b_by_columns);
    cases.push_back(
        {of,
         str_cat(m, " x ", k, " x ", n, a_by_columns ? ", a^T" : "", b_by_columns ? ", b^T" : ""),
         product(m, n, k, a_by_columns, b_by_columns)});
  };
  add(64, 10, 128, false, true);
  add(32, 64, 128, false, false);
  add(64, 1024, 784, false, true);  // a layer
  add(784, 1024, 64, true, false);  // its weights' gradient
  add(1024, 256, 1024, false, true);
  add(1024, 64, 512, false, false);
  add(4096, 256, 256, false, false);
  add(64, 1024, 1024, false, false);
  add(128, 2048, 256, false, false);
  add(256, 256, 256, false, false);
  add(512, 1024, 512, false, false);
  for (const int64_t tokens : {64, 128}) {
    cases.push_back({KernelClass::kMatmulBatched, str_cat("64 of ", tokens, " x 64 x ", tokens),
                     batched(64, tokens, tokens, 64)});
  }
}

void add_convolutions(std::vector<KernelCase>& cases) {
  const auto add = [&](KernelClass of, const Conv& c) {
    cases.push_back({of,
                     str_cat(c.images, " of ", c.channels, " x ", c.size, " x ", c.size, " to ",
                             c.to, ", kernel ", c.kernel, ", stride ", c.stride),
                     convolution(c)});
  };
  add(KernelClass::kConvPointwise, {8, 64, 28, 128, 1, 1, 0});
  add(KernelClass::kConvPointwise, {8, 256, 14, 64, 1, 1, 0});
  add(KernelClass::kConvWinograd, {16, 32, 26, 64, 3, 1, 0});
  add(KernelClass::kConvWinograd, {8, 64, 28, 64, 3, 1, 1});
  add(KernelClass::kConvFewChannels, {32, 1, 28, 32, 3, 1, 0});
  add(KernelClass::kConvFewChannels, {8, 3, 32, 16, 3, 1, 1});
  add(KernelClass::kConvManyChannels, {8, 16, 24, 32, 5, 1, 2});
  add(KernelClass::kConvManyChannels, {8, 32, 24, 32, 5, 1, 2});
  add(KernelClass::kConvStrided, {2, 3, 224, 64, 7, 2, 3});
  add(KernelClass::kConvStrided, {2, 3, 112, 64, 7, 2, 3});
  add(KernelClass::kConvStrided, {8, 3, 64, 32, 3, 2, 1});
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> cases;
  add_products(cases);
  add_convolutions(cases);
  cases.push_back({KernelClass::kAttention, "64 tokens, causal", attention(64, true)});
  cases.push_back({KernelClass::kAttention, "256 tokens", attention(256, false)});
  const Tensor rows = at::randn({1024, 256});
  const Tensor weight = at::ones({256}), bias = at::zeros({256});
  cases.push_back(
      {KernelClass::kLayerNorm, "1024 rows of 256", differentiated(rows, [=](const Tensor& x) {
         return at::layer_norm(x, {256}, weight, bias);
       })});
  cases.push_back({KernelClass::kGelu, "1024 x 256",
                   differentiated(rows, [](const Tensor& x) { return at::gelu(x); })});
  cases.push_back({KernelClass::kActivation, "1024 x 256, gelu",
                   differentiated(rows, [](const Tensor& x) { return at::gelu(x, "tanh"); })});
  cases.push_back({KernelClass::kActivation, "1024 x 256, tanh",
                   differentiated(rows, [](const Tensor& x) { return at::tanh(x); })});
  cases.push_back({KernelClass::kSoftmax, "1024 rows of 10",
                   differentiated(at::randn({1024, 10}),
                                  [](const Tensor& x) { return at::log_softmax(x, -1); })});
  cases.push_back({KernelClass::kSoftmax, "1024 rows of 256",
                   differentiated(rows, [](const Tensor& x) { return at::softmax(x, -1); })});
  const Tensor words = at::randint(0, 1000, {1024}, at::kLong);
  cases.push_back({KernelClass::kEmbedding, "1024 of 1000 rows of 256",
                   [=] { at::embedding_dense_backward(rows, words, 1000, -1, false); }});
  const Tensor planes = at::randn({16, 32, 28, 28});
  cases.push_back({KernelClass::kMaxPool, "16 of 32 x 28 x 28",
                   differentiated(planes, [](const Tensor& x) { return at::max_pool2d(x, 2); })});
  const Tensor last = planes.contiguous(at::MemoryFormat::ChannelsLast);
  cases.push_back({KernelClass::kImageCopy, "16 of 32 x 28 x 28",
                   [=] { last.contiguous(at::MemoryFormat::Contiguous); }});
  return cases;
}

}  // namespace strata::bench
