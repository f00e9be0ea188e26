// Every kernel of this library's own is an operator of libtorch's dispatcher, so that whatever
// records a step sees it: with a schema, shapes for tensors without memory, and a decomposition
// into libtorch's operators that gives what the kernel gives.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "operators/operator_samples.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/runtime/sync_batch_norm.h"

namespace strata {
namespace {

using at::Tensor;
using c10::DispatchKey;
using test::operator_samples;
using test::OperatorSamples;
using torch::jit::Stack;

/// A program that has only what it uses has these operators' objects through these functions.
bool uses_the_library() {
  const Tensor loss = losses::sparse_categorical_crossentropy(
      torch::tensor({1}), torch::randn({1, 3}), {.from_logits = true});
  const Tensor hit = metrics::sparse_categorical_accuracy(torch::tensor({1}), torch::randn({1, 3}));
  const keras::Model model =
      keras::Sequential(keras::Input({4, 8}),
                        {layers::LSTM(4, {.return_sequences = true}), layers::LayerNormalization(),
                         layers::BatchNormalization(), layers::Flatten(), layers::Dense(3)});
  model.compile({.optimizer = "sgd",
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const SyncBatchNorm normalization(4);
  return loss.numel() == 1 && hit.numel() == 1 && !normalization.is_empty();
}

std::vector<std::string> all_operators() {
  std::vector<std::string> names;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("strata::")) names.push_back(name.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

c10::OperatorHandle find(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

template <typename Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? change(value.toTensor()) : value;
  if (!value.isTensorList()) return value;
  c10::List<Tensor> list;
  for (const Tensor& each : value.toTensorVector()) list.push_back(change(each));
  return list;
}

template <typename Change>
Stack changed(const Stack& stack, const Change& change) {
  Stack result;
  for (const c10::IValue& value : stack) result.push_back(changed(value, change));
  return result;
}

Stack copy_of(const Stack& stack) {
  return changed(stack, [](const Tensor& tensor) {
    const Tensor copy = tensor.clone();  // of an expanded one: as it is
    return tensor.is_non_overlapping_and_dense() ? copy : tensor.detach();
  });
}

void add_tensors(const c10::IValue& value, std::vector<Tensor>& all) {
  if (value.isTensor()) {
    all.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& each : value.toTensorVector()) all.push_back(each);
  }
}

/// An operator's results, and its arguments after the call.
struct Outcome {
  std::vector<Tensor> results;
  std::vector<Tensor> arguments;
};

template <typename Call>
Outcome outcome_of(const Stack& arguments, const Call& call) {
  Stack stack = arguments;
  call(stack);
  Outcome outcome;
  for (const c10::IValue& value : stack) add_tensors(value, outcome.results);
  for (const c10::IValue& value : arguments) add_tensors(value, outcome.arguments);
  return outcome;
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance,
                  const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string which = where + ", tensor " + std::to_string(i);
    ASSERT_EQ(got[i].defined(), want[i].defined()) << which;
    if (!got[i].defined()) continue;
    EXPECT_EQ(got[i].sizes(), want[i].sizes()) << which;
    EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type()) << which;
    if (got[i].sizes() != want[i].sizes() || got[i].numel() == 0) continue;
    const Tensor x = got[i].to(at::kDouble), y = want[i].to(at::kDouble);
    const Tensor same = (x == y).logical_or(x.isnan().logical_and(y.isnan()));
    const Tensor apart = at::where(same, at::zeros_like(x), (x - y).abs());
    const double scale =
        std::max(1.0, at::where(y.isfinite(), y, at::zeros_like(y)).abs().max().item<double>());
    EXPECT_LE(apart.max().item<double>(), tolerance * scale) << which;
  }
}

class OperatorsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(uses_the_library());
    torch::manual_seed(11);
  }
};

TEST_F(OperatorsTest, EachHasSamples) {
  std::vector<std::string> names;
  for (const auto& [name, samples] : operator_samples()) names.push_back(name);
  EXPECT_EQ(all_operators(), names) << "tests/operators/operator_samples.cc lists all of them";
}

TEST_F(OperatorsTest, EachHasASchemaAKernelAndADecomposition) {
  for (const std::string& name : all_operators()) {
    const c10::OperatorHandle op = find(name);
    EXPECT_TRUE(op.hasSchema()) << name;
    EXPECT_TRUE(op.hasKernelForDispatchKey(DispatchKey::CPU)) << name;
    EXPECT_TRUE(op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) << name;
    EXPECT_TRUE(op.hasComputedKernelForDispatchKey(DispatchKey::Meta)) << name;
  }
}

TEST_F(OperatorsTest, TheDecompositionGivesWhatTheKernelGives) {
  const at::AutoDispatchBelowADInplaceOrView below;
  for (const auto& [name, make] : operator_samples()) {
    const c10::OperatorHandle op = find(name);
    const OperatorSamples samples = make();
    for (size_t i = 0; i < samples.calls.size(); ++i) {
      const std::string where = name + ", call " + std::to_string(i);
      const Stack first = copy_of(samples.calls[i]), second = copy_of(samples.calls[i]);
      const Outcome kernel = outcome_of(first, [&](Stack& stack) { op.callBoxed(stack); });
      const Outcome decomposed = outcome_of(second, [&](Stack& stack) {
        op.callBoxedForDispatchKey(DispatchKey::CompositeExplicitAutograd, stack);
      });
      expect_close(kernel.results, decomposed.results, samples.tolerance_of(i), where);
      expect_close(kernel.arguments, decomposed.arguments, samples.tolerance_of(i),
                   where + ", given");
    }
  }
}

/// As at::unique: which rows there are is in the data.
const std::set<std::string> kSizesAreData = {"strata::add_rows"};

TEST_F(OperatorsTest, ShapesNeedNoMemory) {
  const at::AutoDispatchBelowADInplaceOrView below;
  for (const auto& [name, make] : operator_samples()) {
    if (kSizesAreData.contains(name)) {
      Stack without =
          changed(make().calls[0], [](const Tensor& tensor) { return tensor.to(at::kMeta); });
      EXPECT_THROW(find(name).callBoxed(without), c10::Error) << name;
      continue;
    }
    const c10::OperatorHandle op = find(name);
    const OperatorSamples samples = make();
    for (size_t i = 0; i < samples.calls.size(); ++i) {
      const std::string where = name + ", call " + std::to_string(i);
      const Outcome kernel =
          outcome_of(copy_of(samples.calls[i]), [&](Stack& stack) { op.callBoxed(stack); });
      const Stack without =
          changed(samples.calls[i], [](const Tensor& tensor) { return tensor.to(at::kMeta); });
      const Outcome shapes = outcome_of(without, [&](Stack& stack) { op.callBoxed(stack); });
      ASSERT_EQ(shapes.results.size(), kernel.results.size()) << where;
      for (size_t r = 0; r < shapes.results.size(); ++r) {
        ASSERT_EQ(shapes.results[r].defined(), kernel.results[r].defined()) << where << ' ' << r;
        if (!shapes.results[r].defined()) continue;
        EXPECT_TRUE(shapes.results[r].is_meta()) << where << ' ' << r;
        EXPECT_EQ(shapes.results[r].sizes(), kernel.results[r].sizes()) << where << ' ' << r;
        EXPECT_EQ(shapes.results[r].scalar_type(), kernel.results[r].scalar_type()) << where;
      }
    }
  }
}

}  // namespace
}  // namespace strata
