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
  detail::require_cross_replica("replicate");
  using Maker = detail::ModuleOf<std::decay_t<std::invoke_result_t<Factory&>>>;
  using Module = typename Maker::type;
  std::vector<std::shared_ptr<Module>> modules;
  const int local = group_->num_local_replicas();
  const int count = num_replicas_in_sync() == 1 ? 1 : local + 1;
  for (int i = 0; i < count; ++i) modules.push_back(Maker::make(factory));
  const std::vector<std::shared_ptr<torch::nn::Module>> plain(modules.begin(), modules.end());
  return Replicated<Module>(std::move(modules),
                            detail::ReplicatedModules::make(*group_, plain, options));
}

template <typename Factory>
auto Strategy::replicate(Factory&& factory) {
  return replicate(std::forward<Factory>(factory), ReplicateOptions{});
}

}  // namespace strata
