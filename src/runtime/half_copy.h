#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/core/mutex.h"

namespace strata::detail {

/// A variable's values in bfloat16, beside the float ones, for layers that compute in 16 bits. They
/// are made when they are read for the first time, and again when the variable has changed (its
/// version tells), unless the optimizer has rounded the new values while it wrote them.
///
/// Replicas whose values are equal have one copy. It lies as the variable does.
/// Threads: any; the caller sees to it that the variable is not written meanwhile.
class HalfCopy {
 public:
  /// The copy for replica `local`, up to date.
  /// @param one_value  The replicas' values are equal.
  at::Tensor read(const std::vector<at::Tensor>& replicas, int local, bool one_value);

  /// What an optimizer shall write beside the variable: the copy, if there is one for all replicas
  /// and it is up to date; else undefined.
  at::Tensor to_update(const std::vector<at::Tensor>& replicas);
  /// The optimizer has written it.
  void updated(const std::vector<at::Tensor>& replicas);

 private:
  struct Copy {
    at::Tensor value;
    std::vector<uint32_t> versions;  // of the replicas that it is for
    const void* source = nullptr;
  };
  bool is_current(const Copy& copy, const std::vector<at::Tensor>& replicas, size_t first,
                  size_t count) const STRATA_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Copy> copies_ STRATA_GUARDED_BY(mutex_);  // by replica, or one
  bool one_value_ STRATA_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::detail
