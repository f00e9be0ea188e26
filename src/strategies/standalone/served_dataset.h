#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "strata/data/dataset.h"
#include "strata/strategies/server_dataset.h"
#include "strategies/standalone/budget.h"

namespace strata::standalone {

/// A dataset that this server reads for a client. Threads: one at a time.
class ServedDataset {
 public:
  /// @param folder  Where clients' files are; a file outside of it is refused, whatever links say.
  /// @throws Error  kPermissionDenied: a file outside of the folder, or no folder. kResourceExhausted:
  ///   memory. As the data's functions.
  ServedDataset(const std::string& folder, const ServerDatasetOptions& options, Budget& budget);

  int64_t batches() const { return batches_; }
  /// Of the fields of a batch: all batches are alike.
  const data::ElementSpec& fields() const { return fields_; }

  /// Rows of a field of a batch: a view of what the next call may give again.
  /// @throws Error  kInvalidArgument: there is no such batch, field, or row. As the data's iterators.
  at::Tensor rows(int64_t epoch, int64_t batch, int64_t field, int64_t begin, int64_t count);

 private:
  data::Dataset dataset_;
  data::ElementSpec fields_;
  int64_t batches_ = 0;
  BudgetShare budget_;

  // The batch that was read last.
  std::optional<data::Iterator> iterator_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;  // of the iterator
  data::Example current_;
};

}  // namespace strata::standalone
