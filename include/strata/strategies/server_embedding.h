#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/ps/row_table.h"
#include "strata/ps/table.h"

namespace strata {

class ParameterServerStrategy;

struct ServerEmbeddingOptions {
  // Results.
  std::string name = "embedding";  ///< The table's name, the same in all workers.
  int64_t rows = 0;
  int64_t width = 0;
  ps::RowInitializer initializer = {
      .kind = ps::RowInitializer::Kind::kUniform, .a = -0.05, .b = 0.05};
  /// The optimizer of a row; rows that are not looked up do not change, moving averages included.
  /// The common options `learning_rate`, `weight_decay` and `clipvalue` are supported. A push uses
  /// the optimizer's current learning rate, so a shared_ptr that you keep can change it.
  optimizers::AnyOptimizer optimizer = optimizers::Adagrad({.learning_rate = 1e-2});
  c10::ScalarType dtype = c10::ScalarType::Float;

  // Communication.
  ps::PushPrecision push_precision = ps::PushPrecision::kFull;
};

/// A table of rows on the parameter servers, which may be too large for any one machine: a worker
/// has the rows that it looks up, and only these. Without servers this process holds the table.
///
/// Copies of a handle are one table.
/// Threads: `lookup` in replica functions, any number at once; the rest in any.
/// Source: tf.keras.layers.Embedding under ParameterServerStrategy with a partitioner.
class STRATA_API ServerEmbedding {
 public:
  /// Makes the table, or finds it: all workers make the same ones.
  /// @throws Error  kInvalidArgument: no rows, no optimizer, another worker's options differ.
  ///                kUnimplemented: an optimizer of whole variables (Lamb, LARS, Muon, Adafactor), or one with
  ///                options that tables do not have; names them.
  ServerEmbedding(ParameterServerStrategy& strategy, ServerEmbeddingOptions options);

  /// Returns the rows of `ids`, of any shape, int64 on the CPU. Their gradient is pushed to the
  /// servers by the next `minimize` of this thread, divided as that optimizer's are.
  /// @return `[*ids, width]`; requires gradients if grad mode is on.
  /// @throws Error  kOutOfRange: an id that is no row.
  at::Tensor lookup(const at::Tensor& ids) const;

  /// The table, for everything else: saving, counters, custom pushes.
  ps::RowTable& table() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace strata
