#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/optim/any_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/ps/push.h"
#include "strata/ps/row_table.h"
#include "strata/ps/table.h"

namespace strata {

class ParameterServerStrategy;

struct ServerEmbeddingOptions {
  // What is computed.
  std::string name = "embedding";  ///< The same in all workers; of one table.
  int64_t rows = 0;
  int64_t width = 0;
  ps::RowInitializer initializer = {
      .kind = ps::RowInitializer::Kind::kUniform, .a = -0.05, .b = 0.05};
  /// How a row changes; rows that are not looked up do not, moving averages included. Of the common
  /// options `learning_rate`, `weight_decay` and `clipvalue` can be used. A push has the learning
  /// rate that the optimizer has then, so one that you keep (a shared_ptr) can change it.
  optimizers::AnyOptimizer optimizer = optimizers::Adagrad({.learning_rate = 1e-2});
  c10::ScalarType dtype = c10::ScalarType::Float;

  // How it travels.
  ps::PushPrecision push_precision = ps::PushPrecision::kFull;
};

/// A table of rows on the parameter servers, too large for any one machine perhaps: a worker has
/// the rows that it looks up, and only these. Without servers this process holds the table.
///
/// Copies of a handle are one table.
/// Threads: `lookup` by replica functions, any number at once; the rest by any.
/// Source: tf.keras.layers.Embedding under ParameterServerStrategy with a partitioner.
class STRATA_API ServerEmbedding {
 public:
  /// Makes the table, or finds it: all workers make the same ones.
  /// @throws Error  kInvalidArgument: no rows, no optimizer, another worker's options differ.
  ///                kUnimplemented: an optimizer of whole variables (Lamb, Adafactor), or one with
  ///                options that tables do not have; names them.
  ServerEmbedding(ParameterServerStrategy& strategy, ServerEmbeddingOptions options);

  /// The rows of `ids`, of any shape, int64 on the CPU. Their gradient goes to the servers with the
  /// next `minimize` of this thread, divided as that optimizer's are.
  /// @return `[*ids, width]`; wants gradients where grad mode is on.
  /// @throws Error  kOutOfRange: an id that is no row.
  at::Tensor lookup(const at::Tensor& ids) const;

  /// For all else: saving, counters, pushes of one's own.
  ps::RowTable& table() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace strata
