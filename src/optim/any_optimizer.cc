#include "strata/optim/optimizer.h"

#include <algorithm>
#include <vector>

#include "core/join.h"
#include "core/letter_case.h"
#include "strata/core/error.h"
#include "strata/optim/optimizers.h"

namespace strata::optimizers {
namespace {

struct Named {
  std::string name;
  std::unique_ptr<Optimizer> (*make)();
};

template <typename... O>
std::vector<Named> names_of(OptimizerList<O...>) {
  std::vector<Named> all = {
      {strata::detail::lower_case(O::class_name()),
       []() -> std::unique_ptr<Optimizer> { return std::make_unique<O>(); }}...};
  std::ranges::sort(all, {}, &Named::name);
  return all;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::string_view name) {
  static const std::vector<Named> kNamed = names_of(AllOptimizers());
  const auto found = std::ranges::find(kNamed, strata::detail::lower_case(name), &Named::name);
  STRATA_CHECK(found != kNamed.end(), kInvalidArgument, "[optimizers] make_optimizer: got '", name,
               "'; expected one of ", join(kNamed, &Named::name));
  return found->make();
}

}  // namespace strata::optimizers
