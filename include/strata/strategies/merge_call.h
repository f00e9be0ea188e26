#pragma once

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/runtime/per_replica.h"
#include "strata/runtime/replica_context.h"

/// The functions of ReplicaContext that use the strategy, a class that `runtime` does not know.
namespace strata {

class Strategy;

namespace detail {

/// The strategy that owns `group`.
/// @throws Error  kFailedPrecondition: it no longer exists.
STRATA_API Strategy& strategy_of(const ReplicaGroup& group);

/// Argument `I` of all replicas' calls, which are tuples of pointers.
template <size_t I, typename Tuple>
auto collect(const std::vector<void*>& tuples) {
  using Value = std::remove_cv_t<std::remove_pointer_t<std::tuple_element_t<I, Tuple>>>;
  std::vector<Value> values;
  for (void* tuple : tuples) values.push_back(*std::get<I>(*static_cast<Tuple*>(tuple)));
  return PerReplica<Value>(std::move(values));
}

template <typename Tuple, typename Fn, size_t... I>
decltype(auto) call_merged(Strategy& strategy, Fn& fn, const std::vector<void*>& tuples,
                           std::index_sequence<I...>) {
  return fn(strategy, collect<I, Tuple>(tuples)...);
}

}  // namespace detail

template <typename>
auto& ReplicaContext::strategy() const {
  return detail::strategy_of(group_);
}

template <typename Fn, typename... Args>
auto ReplicaContext::merge_call(Fn&& fn, const Args&... args) const {
  using Result = std::invoke_result_t<Fn&, Strategy&, PerReplica<Args>...>;
  using Tuple = std::tuple<const Args*...>;
  const auto call = [&](const std::vector<void*>& tuples) -> Result {
    return detail::call_merged<Tuple>(detail::strategy_of(group_), fn, tuples,
                                      std::index_sequence_for<Args...>());
  };
  Tuple own(&args...);
  if constexpr (std::is_void_v<Result>) {
    synchronize("merge_call", &own, [&](const std::vector<void*>& all) { call(all); });
  } else {
    // The result is on the heap because every replica reads it, whichever computed it.
    struct Visit {
      Tuple* args;
      std::shared_ptr<Result> result;
    };
    Visit visit{&own, nullptr};
    synchronize("merge_call", &visit, [&](const std::vector<void*>& all) {
      std::vector<void*> tuples;
      for (void* each : all) tuples.push_back(static_cast<Visit*>(each)->args);
      auto result = std::make_shared<Result>(call(tuples));
      for (void* each : all) static_cast<Visit*>(each)->result = result;
    });
    return Result(*visit.result);
  }
}

}  // namespace strata
