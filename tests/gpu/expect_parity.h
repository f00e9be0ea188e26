#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "parity/models.h"

namespace strata::parity {

/// The strategy's replicas train as one CPU does, in float64: weights, slots, moving statistics.
inline void expect_parity(Strategy& strategy, Kind kind, const std::vector<OptimizerCase>& cases) {
  const Batches batches = make_batches(kind, at::kDouble, 12, {13, 7, 16, 3, 11, 5});
  for (const OptimizerCase& each : cases) {
    SCOPED_TRACE(str_cat(name_of(kind), ", ", each.name, ", ", strategy.num_replicas_in_sync(),
                         " replicas"));
    const Outcome cpu = train_on_one_device(kind, at::kDouble, batches, each, Form::kAverageLoss);
    const Outcome gpu = train_under(strategy, kind, at::kDouble, batches, each, Form::kAverageLoss);
    EXPECT_LE(difference(gpu.weights, cpu.weights), 1e-7);
    EXPECT_LE(difference(gpu.slots, cpu.slots), 1e-7);
    EXPECT_LE(difference(gpu.buffers, cpu.buffers), 1e-7);
  }
}

}  // namespace strata::parity
