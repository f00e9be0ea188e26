#pragma once

#include <cstdint>

namespace strata::ps {

/// The precision in which gradients are sent.
enum class PushPrecision {
  kFull,      ///< Their own precision.
  kFloat16,   ///< Half the bytes of float32; values beyond 65504 are infinite, and refused.
  kBFloat16,  ///< Half the bytes, float32's range, 8 bits of precision.
};

struct PushOptions {
  double learning_rate = 1e-3;
  double scale = 1;  ///< Gradients are multiplied by it.
  /// The number of examples that the gradients are a sum over. They are divided by it, in
  /// synchronous training by the sum over all workers of the step. 0: they are not divided.
  double weight = 0;
  double weight_decay = 0;  ///< values -= values * weight_decay * learning_rate, before the rule.
  double clip_value = 0;    ///< The largest magnitude of each element of the gradient. 0: off.
  PushPrecision precision = PushPrecision::kFull;
};

struct PushResult {
  int64_t version = 0;  ///< The number of the table's updates.
  bool applied = true;  ///< False: in synchronous training the step was over; the push is dropped.
};

/// Counters of one server's part of a table.
struct TableCounters {
  int64_t version = 0;   ///< Updates.
  int64_t pushes = 0;    ///< Applied pushes.
  int64_t dropped = 0;   ///< Synchronous: pushes that arrived after their step.
  int64_t rejected = 0;  ///< Refused requests: with values that are not finite, for example.
  /// Pushes that arrived twice, because the worker did not receive the reply.
  int64_t repeated = 0;
  /// The most steps that a worker was ahead of the slowest when it began one.
  int64_t most_lead = 0;
  int64_t workers = 0;  ///< Connected workers.
};

}  // namespace strata::ps
