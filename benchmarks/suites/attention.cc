// Suite `attention`: scaled dot products of 16 x 4 heads of 64, forward and backward on one core,
// as a replica function computes them, beside libtorch's two ways: operator by operator (`eager`)
// and its fused kernel (`sdpa`). All of it is one process, so that pairs run right after one
// another.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "strata/kernels/cpu_kernels.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/options.h"
#include "suites/stats.h"
#include "tensor/random_streams.h"

namespace strata::bench {
namespace {

using at::Tensor;

constexpr int64_t kBatch = 16, kHeads = 4, kWidth = 64;

/// Counts the bytes of tensors that are in use, while it exists; memory must not outlive it.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() { c10::SetCPUAllocator(this, kPriority); }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, kPriority); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  int64_t peak() const { return peak_; }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = before_->allocate(bytes);
    void* const data = memory.get();
    in_use_ += static_cast<int64_t>(bytes);
    peak_ = std::max(peak_, in_use_);
    auto* const piece = new Piece{std::move(memory), this, static_cast<int64_t>(bytes)};
    return {data, piece, &release, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }

 private:
  struct Piece {
    c10::DataPtr memory;
    CountingAllocator* counts;
    int64_t bytes;
  };
  static constexpr uint8_t kPriority = 255;
  static void release(void* context) {
    auto* const piece = static_cast<Piece*>(context);
    piece->counts->in_use_ -= piece->bytes;
    delete piece;
  }

  c10::Allocator* before_ = c10::GetCPUAllocator();
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
};

struct AttentionCase {
  std::string name;
  int64_t tokens;
  bool causal;
};

/// Query, key and value as a layer's projections leave them, `[batch, tokens, heads, width]`.
class AttentionStep {
 public:
  explicit AttentionStep(const AttentionCase& of) : causal_(of.causal) {
    const auto heads = [&] {
      return at::randn({kBatch, of.tokens, kHeads, kWidth}).transpose(1, 2);
    };
    for (Tensor& input : inputs_) input = heads().requires_grad_();
    gradient_ = heads();
    hidden_ = at::ones({of.tokens, of.tokens}, at::kBool).triu(1);
  }

  void fused() const {
    finish(at::scaled_dot_product_attention(inputs_[0], inputs_[1], inputs_[2], {}, 0, causal_));
  }
  /// What a fused kernel stands for, as it is written without one.
  void eager() const {
    Tensor scores =
        at::matmul(inputs_[0], inputs_[1].transpose(-2, -1)) / std::sqrt(double{kWidth});
    if (causal_) scores = scores.masked_fill(hidden_, -INFINITY);
    finish(at::matmul(at::softmax(scores, -1), inputs_[2]));
  }

 private:
  void finish(const Tensor& output) const {
    torch::autograd::grad({output}, {inputs_[0], inputs_[1], inputs_[2]}, {gradient_});
  }

  Tensor inputs_[3];
  Tensor gradient_;
  Tensor hidden_;
  bool causal_;
};

double seconds_now(bool of_cpu) {
  timespec now{};
  clock_gettime(of_cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of_calls(const std::function<void()>& call, int calls, bool of_cpu) {
  const double begin = seconds_now(of_cpu);
  for (int i = 0; i < calls; ++i) call();
  return (seconds_now(of_cpu) - begin) / calls;
}

struct AttentionSystem {
  std::string name;
  std::function<void()> call;
};

JsonLine attention_line(const AttentionCase& of, const std::string& system,
                        const std::string& metric) {
  JsonLine line;
  line.add("suite", std::string("attention")).add("case", of.name).add("system", system);
  line.add("metric", metric);
  return line;
}

void add_estimate(JsonLine& line, const std::vector<double>& values, const std::string& unit) {
  const Estimate of = estimate(values);
  line.add("value", of.median).add("low", of.low).add("high", of.high).add("unit", unit);
  line.add("pairs", static_cast<double>(values.size())).print();
}

void run_attention_case(const AttentionCase& of, const BenchOptions& options) {
  const AttentionStep step(of);
  static tensor::RandomStream stream(7, 0);
  const AttentionSystem own = {"strata-1", [&] {
                                 const tensor::RandomStreamGuard replica(stream);
                                 step.fused();
                               }};
  const AttentionSystem peers[] = {{"libtorch-eager", [&] { step.eager(); }},
                                   {"libtorch-sdpa", [&] { step.fused(); }}};
  const auto peak = [](const std::function<void()>& call) {
    const CountingAllocator counts;
    call();
    return static_cast<double>(counts.peak());
  };
  own.call();
  const double own_peak = peak(own.call);
  attention_line(of, own.name, "peak_memory")
      .add("value", own_peak * 1e-6)
      .add("unit", "MB")
      .print();
  for (const AttentionSystem& peer : peers) {
    const std::string against = peer.name.substr(peer.name.find('-') + 1);
    peer.call();
    const double peers_peak = peak(peer.call);
    const int calls = std::max(
        1, static_cast<int>(options.seconds_or(0.2) / seconds_of_calls(peer.call, 1, false)));
    std::vector<double> own_ms, peers_ms, ratios;
    for (int pair = 0; pair < options.pairs; ++pair) {
      const bool own_first = pair % 2 == 0;
      if (own_first) own_ms.push_back(1e3 * seconds_of_calls(own.call, calls, options.cpu_clock));
      peers_ms.push_back(1e3 * seconds_of_calls(peer.call, calls, options.cpu_clock));
      if (!own_first) own_ms.push_back(1e3 * seconds_of_calls(own.call, calls, options.cpu_clock));
      ratios.push_back(peers_ms.back() / own_ms.back());
    }
    JsonLine time = attention_line(of, peer.name, "ms");
    add_estimate(time, peers_ms, "ms");
    JsonLine own_time = attention_line(of, str_cat(own.name, "/", against), "ms");
    add_estimate(own_time, own_ms, "ms");
    JsonLine ratio = attention_line(of, own.name, str_cat("vs_", against));
    add_estimate(ratio, ratios, "ratio");
    attention_line(of, peer.name, "peak_memory")
        .add("value", peers_peak * 1e-6)
        .add("unit", "MB")
        .print();
    attention_line(of, own.name, str_cat("vs_", against, "_memory"))
        .add("value", peers_peak / own_peak)
        .add("unit", "ratio")
        .print();
  }
  std::cerr << "bench attention: " << of.name << " done" << std::endl;
}

}  // namespace

int run_attention_suite(const BenchOptions& options) {
  kernels::use_cpu_kernels();
  tensor::install_cpu_allocator();  // as strategies do
  at::set_num_threads(1);
  for (const AttentionCase& of : {AttentionCase{"64", 64, false},
                                  {"64-causal", 64, true},
                                  {"512", 512, false},
                                  {"512-causal", 512, true}}) {
    const bool wanted =
        options.cases.empty() ||
        std::find(options.cases.begin(), options.cases.end(), of.name) != options.cases.end();
    if (wanted) run_attention_case(of, options);
  }
  return 0;
}

}  // namespace strata::bench
