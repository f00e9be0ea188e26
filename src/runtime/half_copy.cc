#include "runtime/half_copy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

namespace strata::detail {
namespace {

std::vector<uint32_t> versions_of(const std::vector<at::Tensor>& replicas, size_t first,
                                  size_t count) {
  std::vector<uint32_t> versions;
  for (size_t r = first; r < first + count; ++r) {
    versions.push_back(static_cast<uint32_t>(replicas[r]._version()));
  }
  return versions;
}

}  // namespace

bool HalfCopy::is_current(const Copy& copy, const std::vector<at::Tensor>& replicas,
                          size_t first) const {
  return copy.value.defined() && copy.source == replicas[first].const_data_ptr() &&
         copy.versions == versions_of(replicas, first, count(replicas));
}

at::Tensor HalfCopy::read(const std::vector<at::Tensor>& replicas, int local, bool shared) {
  const MutexLock lock(mutex_);
  const size_t copies = shared ? 1 : replicas.size();
  if (shared != shared_ || copies_.size() != copies) {
    shared_ = shared;
    copies_.assign(copies, {});
  }
  const size_t first = shared ? 0 : static_cast<size_t>(local);
  Copy& copy = copies_[first];
  if (is_current(copy, replicas, first)) return copy.value;
  const c10::InferenceMode training(false);  // the copy outlives a prediction
  const at::NoGradGuard no_grad;
  const at::Tensor source = replicas[first].detach();
  if (!copy.value.defined() || copy.value.strides() != source.strides()) {
    copy.value = at::empty_like(source, source.options().dtype(at::kBFloat16));
  }
  copy.value.copy_(source);
  copy.versions = versions_of(replicas, first, count(replicas));
  copy.source = source.const_data_ptr();
  return copy.value;
}

std::vector<at::Tensor> HalfCopy::to_update(const std::vector<at::Tensor>& replicas) {
  const MutexLock lock(mutex_);
  if (copies_.size() != (shared_ ? 1 : replicas.size())) return {};
  std::vector<at::Tensor> values;
  for (size_t first = 0; first < copies_.size(); ++first) {
    const Copy& copy = copies_[first];
    if (!is_current(copy, replicas, first) || copy.value.strides() != replicas[first].strides()) {
      return {};
    }
    values.push_back(copy.value);
  }
  return values;
}

void HalfCopy::updated(const std::vector<at::Tensor>& replicas) {
  const MutexLock lock(mutex_);
  for (size_t first = 0; first < copies_.size(); ++first) {
    copies_[first].versions = versions_of(replicas, first, count(replicas));
    copies_[first].value.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace strata::detail
