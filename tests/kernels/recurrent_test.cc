// LSTM and GRU over all steps, against libtorch's in double precision and step by step.
#include "kernels/recurrent.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <vector>

#include "kernels/recurrent_kernels.h"
#include "kernels/recurrent_operators.h"
#include "kernels/recurrent_words.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

at::Tensor variable(const at::Tensor& value) {
  return value.detach().clone().set_requires_grad(true);
}

/// A layer's inputs and weights, and which rows each step has.
struct Sequences {
  int64_t gates;
  at::Tensor x, h, c, kernel, recurrent, bias, recurrent_bias;
  SequenceSteps steps;
  bool reset_first = false;

  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> all{x, h, kernel, recurrent, bias};
    all.push_back(gates == 4 ? c : recurrent_bias);
    return all;
  }
  std::optional<at::Tensor> rows() const {
    return steps.rows.defined() ? std::optional<at::Tensor>(steps.rows) : std::nullopt;
  }
  std::vector<at::Tensor> own() const {
    if (gates == 4) {
      const auto result = kernels::lstm(x, h, c, kernel, recurrent, bias, steps);
      EXPECT_TRUE(result);
      return {result->y, result->h, result->c};
    }
    const auto result =
        kernels::gru(x, h, kernel, recurrent, bias, recurrent_bias, steps, reset_first);
    EXPECT_TRUE(result);
    return {result->y, result->h};
  }
  std::vector<at::Tensor> by_steps() const {
    const int64_t batch = h.size(0);
    if (gates == 4) {
      const auto [states, cells, all, last, last_c] =
          decomposed::lstm(x, h, c, kernel, recurrent, bias, rows(), steps.sizes);
      return {states.narrow(0, batch, x.size(0)), last, last_c};
    }
    const auto [states, all, inner, last] = decomposed::gru(
        x, h, kernel, recurrent, bias, recurrent_bias, rows(), steps.sizes, reset_first);
    return {states.narrow(0, batch, x.size(0)), last};
  }
  Sequences as_double() const {
    Sequences exact = *this;
    for (at::Tensor* each : {&exact.x, &exact.h, &exact.c, &exact.kernel, &exact.recurrent,
                             &exact.bias, &exact.recurrent_bias}) {
      *each = variable(each->to(at::kDouble));
    }
    return exact;
  }
};

Sequences make_sequences(int64_t gates, int64_t time, int64_t batch, int64_t in, int64_t units) {
  Sequences made{.gates = gates,
                 .x = variable(torch::randn({time * batch, in})),
                 .h = variable(torch::randn({batch, units})),
                 .c = variable(torch::randn({batch, units})),
                 .kernel = variable(torch::randn({in, gates * units}) * 0.3),
                 .recurrent = variable(torch::randn({units, gates * units}) * 0.2),
                 .bias = variable(torch::randn({gates * units})),
                 .recurrent_bias = variable(torch::randn({gates * units})),
                 .steps = {}};
  made.steps.sizes.assign(static_cast<size_t>(time), batch);
  return made;
}

/// Steps that leave out rows, one of them all.
void leave_out_some(Sequences& sequences, int64_t time, int64_t batch) {
  at::Tensor shown = torch::rand({time, batch}) < 0.6;
  if (time > 2) shown[1] = false;
  shown[time - 1][0] = true;
  const at::Tensor places = shown.flatten().nonzero().flatten();
  sequences.x = variable(sequences.x.detach().index_select(0, places));
  sequences.steps.rows = places.remainder(batch);
  const at::Tensor counts = shown.sum(1);
  sequences.steps.sizes.assign(counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + time);
}

class RecurrentKernelsTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
#if defined(__x86_64__)
    if (best_cpu_isa() == CpuIsa::kBaseline) GTEST_SKIP() << "needs AVX2 and FMA";
#endif
  }
};

/// The gradients of leaves, of outputs with different factors.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& leaves,
                                     const std::vector<at::Tensor>& outputs) {
  at::Tensor loss;
  for (const at::Tensor& each : outputs) {
    const at::Tensor factors = torch::arange(each.numel(), each.options()).sin().view(each.sizes());
    const at::Tensor part = (each * factors).sum();
    loss = loss.defined() ? loss + part : part;
  }
  return torch::autograd::grad({loss}, leaves);
}
std::vector<at::Tensor> gradients_of(const Sequences& sequences,
                                     const std::vector<at::Tensor>& outputs) {
  return gradients_of(sequences.leaves(), outputs);
}

TEST_P(RecurrentKernelsTest, ValuesAndGradientsAgreeWithDouble) {
  const std::vector<std::vector<int64_t>> sizes = {{1, 1, 1, 1},   {3, 2, 5, 7},     {4, 49, 3, 16},
                                                   {5, 7, 20, 33}, {2, 13, 64, 130}, {9, 5, 2, 65}};
  for (const auto& size : sizes) {
    for (const bool some : {false, true}) {
      for (const bool reset_first : {false, true}) {
        SCOPED_TRACE(testing::Message() << at::IntArrayRef(size) << some << reset_first);
        const ReplicaLike replica;
        Sequences sequences = make_sequences(GetParam(), size[0], size[1], size[2], size[3]);
        sequences.reset_first = reset_first;
        if (some) leave_out_some(sequences, size[0], size[1]);
        const Sequences exact = sequences.as_double();
        const auto got = sequences.own(), want = exact.by_steps();
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_LT(largest_error(got[i], want[i]), 2e-6) << i;
        const auto slopes = gradients_of(sequences, got), exact_slopes = gradients_of(exact, want);
        for (size_t i = 0; i < slopes.size(); ++i) {
          EXPECT_LT(largest_error(slopes[i], exact_slopes[i]), 5e-6) << i;
        }
      }
    }
  }
}

/// Of an embedding's `table`: x is rows of it, known as such or not.
Sequences with_words(const Sequences& sequences, const at::Tensor& table, const at::Tensor& words,
                     bool known) {
  Sequences made = sequences;
  made.x = table.index_select(0, words);
  if (known) made.steps.words = words;
  return made;
}

TEST_P(RecurrentKernelsTest, WordsAreMultipliedOnce) {
  for (const int64_t kinds : {1, 7, 1000}) {
    for (const bool some : {false, true}) {
      SCOPED_TRACE(testing::Message() << kinds << some);
      const ReplicaLike replica;
      Sequences sequences = make_sequences(GetParam(), 9, 8, 20, 33);
      if (some) leave_out_some(sequences, 9, 8);
      const int64_t rows = sequences.x.size(0);
      const at::Tensor words = torch::randint(0, kinds, {rows}, at::kLong) * 1'000'000'007;
      const auto numbers = std::get<1>(at::_unique(words, true, true));
      const at::Tensor table = variable(torch::randn({100, 20}));
      const DistinctRows distinct(words, rows);
      EXPECT_EQ(distinct.count(), std::get<0>(at::_unique(words)).numel());
      EXPECT_EQ(distinct.worthwhile(), kinds == 7);
      const Sequences known = with_words(sequences, table, numbers, true);
      const Sequences unknown = with_words(sequences, table, numbers, false);
      const auto got = known.own(), want = unknown.own();
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
      const Sequences exact =
          with_words(sequences.as_double(), table.to(at::kDouble), numbers, false);
      const auto slopes = [&](const Sequences& each, const std::vector<at::Tensor>& outputs) {
        std::vector<at::Tensor> leaves = each.leaves();
        leaves[0] = table;
        return gradients_of(leaves, outputs);
      };
      const auto own = slopes(known, got), in_double = slopes(exact, exact.by_steps());
      for (size_t i = 0; i < own.size(); ++i) {
        EXPECT_LT(largest_error(own[i], in_double[i]), 5e-6) << i;
      }
    }
  }
}

TEST_P(RecurrentKernelsTest, TheFirstOfAWordHasItsGradient) {
  for (const int64_t kinds : {2, 12}) {
    const ReplicaLike replica;
    Sequences s = make_sequences(GetParam(), 4, 3, 5, 6);
    const at::Tensor words = at::arange(12) % kinds;
    s.x = variable(s.x.detach().index_select(0, words));
    s.steps.words = words;
    const at::Tensor slope = gradients_of(s, s.own())[0];
    const at::Tensor others = slope.narrow(0, kinds, 12 - kinds);
    EXPECT_TRUE(at::equal(others, at::zeros_like(others)));
    s.steps.words = at::Tensor();
    const at::Tensor each = gradients_of(s, s.own())[0];
    const at::Tensor sums = at::zeros({kinds, 5}).index_add(0, words, each);
    EXPECT_LT(largest_error(slope.narrow(0, 0, kinds), sums), 5e-6);
  }
}

TEST_P(RecurrentKernelsTest, AgreesWithLibtorchsLayer) {
  const int64_t time = 6, batch = 5, in = 4, units = 9;
  const Sequences s = make_sequences(GetParam(), time, batch, in, units);
  Sequences torch_order = s;
  torch_order.reset_first = true;
  const Sequences exact = torch_order.as_double();
  const at::Tensor x = exact.x.view({time, batch, in});
  const std::vector<at::Tensor> weights = {exact.kernel.t(), exact.recurrent.t(), exact.bias,
                                           GetParam() == 4 ? exact.bias * 0 : exact.recurrent_bias};
  at::Tensor y, h;
  if (GetParam() == 4) {
    at::Tensor c;
    std::tie(y, h, c) = torch::lstm(x, {exact.h.unsqueeze(0), exact.c.unsqueeze(0)}, weights, true,
                                    1, 0, true, false, false);
  } else {
    std::tie(y, h) = torch::gru(x, exact.h.unsqueeze(0), weights, true, 1, 0, true, false, false);
  }
  const auto own = torch_order.own();
  EXPECT_LT(largest_error(own[0], y.flatten(0, 1)), 2e-6);
  EXPECT_LT(largest_error(own[1], h.squeeze(0)), 2e-6);
}

TEST_P(RecurrentKernelsTest, TransposedWeightsGiveTheSameBits) {
  Sequences sequences = make_sequences(GetParam(), 3, 7, 5, 19);
  const auto plain = sequences.own();
  const auto slopes = gradients_of(sequences, plain);
  sequences.recurrent = variable(sequences.recurrent.detach().t().contiguous().t());
  const auto turned = sequences.own();
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], turned[i]));
  EXPECT_TRUE(same_bits(slopes[1], gradients_of(sequences, turned)[1]));
}

TEST_P(RecurrentKernelsTest, LeftOutRowsDoNotChangeTheOthers) {
  const ReplicaLike replica;  // libtorch's products have bits that depend on the number of rows
  Sequences all = make_sequences(GetParam(), 4, 3, 5, 18);
  // Row 1 ends after two steps.
  Sequences some = all;
  some.steps.rows = torch::tensor({0, 1, 2, 0, 1, 2, 0, 2, 0, 2}, at::kLong);
  some.steps.sizes = {3, 3, 2, 2};
  some.x = all.x.index_select(0, torch::tensor({0, 1, 2, 3, 4, 5, 6, 8, 9, 11}, at::kLong));
  const auto a = all.own(), b = some.own();
  EXPECT_TRUE(same_bits(a[1][0], b[1][0]));
  EXPECT_TRUE(same_bits(a[1][2], b[1][2]));
  EXPECT_TRUE(same_bits(a[0][4], b[1][1])) << "its last state";
}

TEST_P(RecurrentKernelsTest, ThreadsDoNotChangeBits) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> one;
  for (const int count : {1, 2, 3, 5, 7}) {
    at::set_num_threads(count);
    torch::manual_seed(5);
    const ReplicaLike replica;
    const Sequences sequences = make_sequences(GetParam(), 8, 50, 16, 130);
    std::vector<at::Tensor> all = sequences.own();
    const auto slopes = gradients_of(sequences, all);
    all.insert(all.end(), slopes.begin(), slopes.end());
    if (one.empty()) one = all;
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(same_bits(all[i], one[i])) << count << i;
  }
  at::set_num_threads(threads);
}

TEST_P(RecurrentKernelsTest, SecondDerivativesAgreeWithDouble) {
  const Sequences sequences = make_sequences(GetParam(), 3, 2, 4, 5);
  const Sequences exact = sequences.as_double();
  const auto second = [](const Sequences& each, const std::vector<at::Tensor>& outputs) {
    const auto first = torch::autograd::grad({outputs[0].pow(3).sum() + outputs[1].sum()}, {each.x},
                                             {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, each.leaves(), {}, {}, false, true);
  };
  const auto got = second(sequences, sequences.own()), want = second(exact, exact.by_steps());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (!got[i].defined()) continue;
    EXPECT_LT(largest_error(got[i], want[i]), 2e-5) << i;
  }
}

TEST_P(RecurrentKernelsTest, NaNsAndInfinitiesStayInTheirRow) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Sequences sequences = make_sequences(GetParam(), 3, 4, 5, 18);
    sequences.x.data()[5][2] = value;  // step 1, row 1
    const auto own = sequences.own(), want = sequences.by_steps();
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(at::equal(own[i].isnan(), want[i].isnan())) << i;
    }
    EXPECT_FALSE(own[1][0].isnan().any().item<bool>());
  }
}

TEST_P(RecurrentKernelsTest, OutputsChangedInPlaceAreAnError) {
  const Sequences sequences = make_sequences(GetParam(), 2, 2, 3, 4);
  const auto own = sequences.own();
  const at::Tensor loss = own[0].sum() + own[1].sum();
  own[0].detach().add_(1);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_P(RecurrentKernelsTest, ShapesAloneComeFromTheDecomposition) {
  const Sequences s = make_sequences(GetParam(), 3, 2, 4, 5);
  const auto meta = [](const at::Tensor& each) { return each.detach().to(at::kMeta); };
  if (GetParam() == 4) {
    const auto out = call_lstm(meta(s.x), meta(s.h), meta(s.c), meta(s.kernel), meta(s.recurrent),
                               meta(s.bias), std::nullopt, s.steps.sizes);
    EXPECT_EQ(std::get<0>(out).sizes(), (at::IntArrayRef{8, 5}));
    EXPECT_EQ(std::get<2>(out).sizes(), (at::IntArrayRef{6, 20}));
  } else {
    const auto out = call_gru(meta(s.x), meta(s.h), meta(s.kernel), meta(s.recurrent), meta(s.bias),
                              std::nullopt, std::nullopt, s.steps.sizes, false);
    EXPECT_EQ(std::get<0>(out).sizes(), (at::IntArrayRef{8, 5}));
    EXPECT_EQ(std::get<2>(out).sizes(), (at::IntArrayRef{6, 5}));
  }
}

TEST_P(RecurrentKernelsTest, OthersAreLeftToLibtorch) {
  const Sequences s = make_sequences(GetParam(), 2, 2, 3, 4);
  const auto taken = [](const Sequences& e) {
    return e.gates == 4
               ? kernels::lstm(e.x, e.h, e.c, e.kernel, e.recurrent, e.bias, e.steps).has_value()
               : kernels::gru(e.x, e.h, e.kernel, e.recurrent, e.bias, e.recurrent_bias, e.steps,
                              false)
                     .has_value();
  };
  EXPECT_TRUE(taken(s));
  EXPECT_FALSE(taken(s.as_double()));
  Sequences other = s;
  other.bias = at::Tensor();
  EXPECT_TRUE(taken(other));
  other.kernel = s.kernel.detach().narrow(0, 0, 2);
  EXPECT_FALSE(taken(other));
  other = s;
  other.steps.sizes = {2, 1};
  EXPECT_ANY_THROW(taken(other));
  other = s;
  other.steps.rows = torch::tensor({0, 1, 0, 2}, at::kLong);
  EXPECT_ANY_THROW(taken(other));
}

/// A tensor's values in front of a page that may not be touched.
class Guarded {
 public:
  explicit Guarded(const at::Tensor& values) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = values.nbytes();
    size_ = (bytes + page - 1) / page * page + page;
    memory_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(memory_ + size_ - page, page, PROT_NONE), 0);
    data_ = memory_ + size_ - page - bytes;
    std::memcpy(data_, values.contiguous().const_data_ptr(), bytes);
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  float* data() const { return reinterpret_cast<float*>(data_); }

 private:
  size_t size_;
  char* memory_;
  char* data_;
};

/// Runs a kernel forward and backward with guarded arrays.
std::vector<at::Tensor> run_guarded(const RecurrentKernels& kernels, int64_t gates, int64_t units) {
  torch::manual_seed(3);
  const int64_t batch = 7;
  const std::vector<int64_t> sizes = {7, 5, 3},
                             previous = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16};
  const RecurrentSteps steps{batch, 3, sizes.data(), nullptr, previous.data()};
  const int64_t rows = 15;
  const Guarded recurrent(torch::randn({units, gates * units}) * 0.2),
      sums(torch::randn({rows, gates * units})), states(torch::randn({batch + rows, units})),
      cells(torch::randn({batch + rows, units})), dh(torch::randn({batch, units})),
      dc(torch::randn({batch, units})), dy(torch::randn({rows, units})),
      dsums(torch::zeros({rows, gates * units})), dstates(torch::zeros({rows, gates * units})),
      inner(torch::zeros({rows, units})), bias(torch::randn({gates * units}));
  const RecurrentWeights weights{
      recurrent.data(), gates * units, 1, units, gates, {0, units, 2 * units, 3 * units}};
  const auto memory = [](int64_t floats) {
    return std::unique_ptr<float, void (*)(void*)>(
        static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(floats) * 4 / 64 * 64 + 64)),
        std::free);
  };
  const auto packed = memory(kernels.packed_floats(weights)),
             transposed = memory(kernels.transposed_floats(weights));
  kernels.pack(weights, packed.get());
  kernels.pack_transposed(weights, transposed.get());
  if (gates == 4) {
    kernels.lstm_forward({steps,
                          units,
                          packed.get(),
                          {sums.data(), nullptr},
                          sums.data(),
                          states.data(),
                          cells.data()},
                         0, batch);
    kernels.lstm_backward({steps, units, transposed.get(), sums.data(), cells.data(), dy.data(),
                           dh.data(), dc.data(), dsums.data(), true},
                          0, batch);
  } else {
    kernels.gru_forward({steps,
                         units,
                         {0, units, 2 * units},
                         packed.get(),
                         bias.data(),
                         {sums.data(), nullptr},
                         sums.data(),
                         inner.data(),
                         states.data()},
                        0, batch);
    kernels.gru_backward({steps,
                          units,
                          {0, units, 2 * units},
                          transposed.get(),
                          sums.data(),
                          inner.data(),
                          states.data(),
                          dy.data(),
                          dh.data(),
                          dsums.data(),
                          dstates.data(),
                          true},
                         0, batch);
  }
  const auto copy = [](const Guarded& from, int64_t size) {
    return torch::from_blob(from.data(), {size}).clone();
  };
  return {copy(sums, rows * gates * units),  copy(states, (batch + rows) * units),
          copy(dsums, rows * gates * units), copy(dstates, rows * gates * units),
          copy(dh, batch * units),           copy(dc, batch * units)};
}

TEST_P(RecurrentKernelsTest, InstructionSetsAgreeToTheBitAndKeepToTheirArrays) {
  for (const int64_t units : {1, 3, 15, 16, 17, 40, 67, 129}) {
    SCOPED_TRACE(units);
    const auto baseline = run_guarded(recurrent_kernels(CpuIsa::kBaseline), GetParam(), units);
    for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512}) {
      if (!cpu_supports(isa)) continue;
      const auto got = run_guarded(recurrent_kernels(isa), GetParam(), units);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], baseline[i])) << static_cast<int>(isa) << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gates, RecurrentKernelsTest, testing::Values(4, 3),
                         [](const auto& info) { return info.param == 4 ? "Lstm" : "Gru"; });

}  // namespace
}  // namespace strata::kernels
