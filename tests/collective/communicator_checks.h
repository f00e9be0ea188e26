#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "collective/in_process/in_process.h"

namespace strata::collective {

inline at::Tensor random_values(int64_t size, at::ScalarType dtype) {
  const at::Tensor normal = at::randn({size}) * 100;
  return c10::isFloatingType(dtype) ? normal.to(dtype) : normal.to(at::kInt).to(dtype);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

/// all_reduce of every rank's share of `values` (by replica id) is what one process makes of them.
/// @param ranks  Whatever runs a function on all of them.
template <typename Ranks>
void expect_all_reduce(Ranks& ranks, const Placement& placement,
                       const std::vector<at::Tensor>& values, ReduceOp op, uint32_t id) {
  const at::Tensor expected = reduce_in_order(values, op);
  ranks.run([&](Communicator& communicator) {
    std::vector<at::Tensor> local;
    for (const int replica : placement.replicas_of(communicator.rank())) {
      const at::Tensor& value = values[static_cast<size_t>(replica)];
      local.push_back(value.defined() ? value.clone() : value);
    }
    at::Tensor result = at::empty_like(expected);
    communicator.all_reduce(local, result, op, {.id = id});
    EXPECT_TRUE(same_bits(result, expected))
        << "rank " << communicator.rank() << " of " << communicator.num_ranks() << ", "
        << expected.numel() << " " << expected.scalar_type();
    // In place: over the first replica's own.
    if (!local.empty() && local[0].defined()) {
      communicator.all_reduce(local, local[0], op, {.id = id});
      EXPECT_TRUE(same_bits(local[0], expected)) << "in place";
    } else {
      communicator.all_reduce(local, result, op, {.id = id});
    }
  });
}

inline std::vector<at::Tensor> values_of(const Placement& placement, int64_t size,
                                         at::ScalarType dtype) {
  std::vector<at::Tensor> values;
  for (int i = 0; i < placement.num_replicas(); ++i) values.push_back(random_values(size, dtype));
  return values;
}

/// What each rank's call ends with; "" if it does not throw.
template <typename Ranks>
std::vector<std::string> errors_of(Ranks& ranks, int n,
                                   const std::function<void(Communicator&)>& call,
                                   std::optional<ErrorCode> code) {
  std::vector<std::string> messages(static_cast<size_t>(n));
  ranks.run([&](Communicator& c) {
    try {
      call(c);
    } catch (const Error& error) {
      if (code) {
        EXPECT_EQ(error.code(), *code) << error.what();
      }
      messages[static_cast<size_t>(c.rank())] = error.what();
    }
  });
  if constexpr (requires { ranks.share(messages); }) ranks.share(messages);
  return messages;
}

}  // namespace strata::collective
