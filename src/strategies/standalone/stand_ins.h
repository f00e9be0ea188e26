#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <optional>

#include "core/mutex.h"
#include "strata/data/dataset.h"

namespace strata::standalone {

/// Tensors that stand for what servers read from their datasets: they have sizes and no elements, and
/// asking for these is an error. Views of rows stand for these rows. Threads: any.
class StandIns {
 public:
  /// What a tensor stands for.
  struct Origin {
    int64_t dataset = 0;
    int64_t epoch = 0;
    int64_t batch = 0;
    int64_t field = 0;
    int64_t row = 0;  ///< The first.
  };

  /// One for each field of a batch.
  data::Example make(const Origin& batch, const data::ElementSpec& fields);

  /// nullopt: an ordinary tensor.
  /// @throws Error  kUnimplemented: a view of one that is no range of whole rows.
  std::optional<Origin> find(const at::Tensor& tensor) const;

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;  // keeps the address from being used again
    Origin origin;
    int64_t row_elements = 0;
  };

  mutable Mutex mutex_;
  std::map<const void*, Known> known_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::standalone
