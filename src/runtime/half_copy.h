#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/mutex.h"

namespace strata::detail {

/// A variable's values in bfloat16, beside the float ones, for layers that compute in 16 bits. They
/// are made when they are read for the first time, and again when the variable has changed (its
/// version tells), unless the optimizer has rounded the new values while it wrote them.
///
/// Each replica has one, or all together where they share the variable. It lies as the variable
/// does.
/// Threads: any; the caller sees to it that the variable is not written meanwhile.
class HalfCopy {
 public:
  /// The copy for replica `local`, up to date.
  /// @param shared  The replicas' tensors are one storage.
  at::Tensor read(const std::vector<at::Tensor>& replicas, int local, bool shared);

  /// What an optimizer that writes all elements of all replicas' tensors shall write beside them:
  /// all copies, if all are up to date; else none.
  std::vector<at::Tensor> to_update(const std::vector<at::Tensor>& replicas);
  /// The optimizer has written them.
  void updated(const std::vector<at::Tensor>& replicas);

 private:
  struct Copy {
    at::Tensor value;
    std::vector<uint32_t> versions;  // of the replicas that it is for
    const void* source = nullptr;
  };
  /// Replicas [first, first + count) have copy number `first`.
  size_t count(const std::vector<at::Tensor>& replicas) const STRATA_REQUIRES(mutex_) {
    return shared_ ? replicas.size() : 1;
  }
  bool is_current(const Copy& copy, const std::vector<at::Tensor>& replicas, size_t first) const
      STRATA_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Copy> copies_ STRATA_GUARDED_BY(mutex_);  // by replica, or one
  bool shared_ STRATA_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::detail
