#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/runtime/replicated.h"
#include "strata/strategies/strategy.h"

namespace strata {

template <typename Factory>
auto Strategy::replicate(Factory&& factory, const ReplicateOptions& options) {
  const int count = detail::ReplicatedModules::count(*group_);
  using Maker = detail::ModuleOf<std::decay_t<std::invoke_result_t<Factory&>>>;
  using Module = typename Maker::type;
  auto modules = std::make_shared<std::vector<std::shared_ptr<Module>>>();
  auto make_one = [modules, make = std::decay_t<Factory>(std::forward<Factory>(
                                factory))]() mutable -> std::shared_ptr<torch::nn::Module> {
    modules->push_back(Maker::make(make));
    return modules->back();
  };
  std::vector<std::shared_ptr<torch::nn::Module>> plain;
  for (int i = 0; i < count; ++i) plain.push_back(make_one());
  auto shared = detail::ReplicatedModules::make(*group_, std::move(plain), make_one, options);
  return Replicated<Module>(std::move(modules), std::move(shared));
}

template <typename Factory>
auto Strategy::replicate(Factory&& factory) {
  return replicate(std::forward<Factory>(factory), ReplicateOptions{});
}

}  // namespace strata
