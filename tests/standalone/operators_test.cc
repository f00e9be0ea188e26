// The operators that a server runs by their kernels for the meta device have such kernels.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "graph/remote/step_operators.h"

namespace strata {
namespace {

using graph::remote::Admission;
using graph::remote::admission_of;

/// Something of that type; nothing: none is known. Most operators take a matrix of floats everywhere.
std::optional<c10::IValue> sample(const c10::Argument& argument) {
  if (argument.default_value()) return argument.default_value();
  const auto options = at::TensorOptions().device(at::kMeta);
  const auto of = [&](const c10::Type& type) -> std::optional<c10::IValue> {
    switch (type.kind()) {
      case c10::TypeKind::TensorType: {
        const bool is_index = argument.name() == "index" || argument.name() == "target";
        const bool is_mask = argument.name() == "condition" || argument.name() == "mask";
        return at::empty({3, 3}, options.dtype(is_index  ? at::kLong
                                               : is_mask ? at::kBool
                                                         : at::kFloat));
      }
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        return c10::IValue(int64_t{1});
      case c10::TypeKind::FloatType:
        return c10::IValue(0.5);
      case c10::TypeKind::NumberType:
        return c10::IValue(1);
      case c10::TypeKind::BoolType:
        return c10::IValue(false);
      case c10::TypeKind::OptionalType:
        return c10::IValue();
      case c10::TypeKind::ListType:
        if (type.containedType(0)->kind() == c10::TypeKind::TensorType) {
          return c10::IValue(c10::List<at::Tensor>({at::empty({3, 3}, options)}));
        }
        return c10::IValue(std::vector<int64_t>{1, 1});
      default:
        return std::nullopt;
    }
  };
  return of(*argument.type());
}

TEST(StandaloneOperatorsTest, HaveKernelsForTheMetaDevice) {
  int called = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (admission_of(full) != Admission::kByMeta) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    torch::jit::Stack stack;
    for (const c10::Argument& argument : op->schema().arguments()) {
      if (const auto value = sample(argument)) stack.push_back(*value);
    }
    if (stack.size() != op->schema().arguments().size()) continue;
    try {
      const at::NoGradGuard no_grad;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op->callBoxed(stack);
      ++called;
    } catch (const std::exception& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find("no fake impl or Meta kernel"), std::string::npos)
          << full << ": " << what.substr(0, 160);
    }
  }
  EXPECT_GT(called, 250);
}

}  // namespace
}  // namespace strata
