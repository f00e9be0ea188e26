#pragma once

#include <cstdint>

namespace strata::ps {

/// In how many bits gradients travel.
enum class PushPrecision {
  kFull,      ///< As they are.
  kFloat16,   ///< Half the bytes of float32; values beyond 65504 are infinite, and refused.
  kBFloat16,  ///< Half the bytes, float32's range, 8 bits of precision.
};

struct PushOptions {
  double learning_rate = 1e-3;
  double scale = 1;  ///< Gradients are multiplied by it.
  /// The number of examples that the gradients are a sum over: divides them, in synchronous
  /// training by the sum over all workers of the step. 0: does not divide.
  double weight = 0;
  double weight_decay = 0;  ///< values -= values * weight_decay * learning_rate, before the rule.
  double clip_value = 0;    ///< Each element of the gradient to at most this magnitude. 0: off.
  PushPrecision precision = PushPrecision::kFull;
};

struct PushResult {
  int64_t version = 0;  ///< How many updates the table has had.
  bool applied = true;  ///< False: in synchronous training the step was over; the push is dropped.
};

/// Of one server's part of a table.
struct TableCounters {
  int64_t version = 0;    ///< Updates.
  int64_t pushes = 0;     ///< That were applied.
  int64_t dropped = 0;    ///< Synchronous: that came after their step.
  int64_t rejected = 0;   ///< Requests that were refused: not finite, say.
  int64_t repeated = 0;   ///< Pushes that came twice, since the worker had not heard the answer.
  int64_t most_lead = 0;  ///< Steps that a worker was ahead of the slowest when it began one.
  int64_t workers = 0;    ///< That are there now.
};

}  // namespace strata::ps
