// Random numbers with the same bits on all processors.
#include "kernels/portable/portable_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "kernels/elementary.h"
#include "kernels/portable/register_portable.h"

namespace strata::kernels::portable {
namespace {

/// Numbers in [0, 1) with 53 random bits, or 24 for floats.
class Uniform {
 public:
  Uniform(const std::optional<at::Generator>& generator, bool is_double)
      : generator_(at::get_generator_or_default<at::CPUGeneratorImpl>(
            generator, at::detail::getDefaultCPUGenerator())),
        lock_(generator_->mutex_),
        is_double_(is_double) {}

  double operator()() {
    if (is_double_) return static_cast<double>(generator_->random64() >> 11) * 0x1p-53;
    return static_cast<double>(generator_->random() >> 8) * 0x1p-24;
  }

 private:
  at::CPUGeneratorImpl* generator_;
  std::lock_guard<std::mutex> lock_;
  bool is_double_;
};

template <typename Next>
void fill(at::Tensor& out, const Next& next) {
  if (out.scalar_type() == at::kDouble) {
    double* const to = out.mutable_data_ptr<double>();
    for (int64_t i = 0; i < out.numel(); ++i) to[i] = next();
  } else {
    float* const to = out.mutable_data_ptr<float>();
    for (int64_t i = 0; i < out.numel(); ++i) to[i] = static_cast<float>(next());
  }
}

/// In one piece of memory: as it is, or a new one, which is copied back.
template <typename Fill>
at::Tensor& filled(at::Tensor& x, const char* name, const Fill& run) {
  const bool known = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  if (!x.is_cpu() || x.layout() != at::kStrided || !known) refuse_operator(name);
  if (x.is_contiguous()) {
    run(x);
    return x;
  }
  at::Tensor dense = at::empty_like(x, at::MemoryFormat::Contiguous);
  run(dense);
  return x.copy_(dense);
}

at::Tensor& uniform(at::Tensor& x, double low, double high,
                    std::optional<at::Generator> generator) {
  return filled(x, "aten::uniform_",
                [&](at::Tensor& out) { fill_uniform(out, low, high, generator); });
}

at::Tensor& normal(at::Tensor& x, double mean, double stddev,
                   std::optional<at::Generator> generator) {
  return filled(x, "aten::normal_", [&](at::Tensor& out) {
    fill_normal(out, std::numeric_limits<double>::infinity(), generator);
    out.mul_(stddev).add_(mean);
  });
}

}  // namespace

void fill_uniform(at::Tensor& out, double low, double high,
                  const std::optional<at::Generator>& generator) {
  Uniform uniform(generator, out.scalar_type() == at::kDouble);
  fill(out, [&] { return uniform() * (high - low) + low; });
}

void fill_normal(at::Tensor& out, double limit, const std::optional<at::Generator>& generator) {
  Uniform uniform(generator, /*is_double=*/true);
  fill(out, [&] {
    while (true) {
      const double u = 2 * uniform() - 1;
      const double v = 2 * uniform() - 1;
      const double square = u * u + v * v;
      if (square == 0 || square >= 1) continue;
      const double log = elementary::log(static_cast<float>(square));
      const double value = u * std::sqrt(-2 * log / square);
      if (std::abs(value) <= limit) return value;
    }
  });
}

void register_random(torch::Library& library) {
  library.impl("uniform_", TORCH_FN(uniform));
  library.impl("normal_", TORCH_FN(normal));
}

}  // namespace strata::kernels::portable
