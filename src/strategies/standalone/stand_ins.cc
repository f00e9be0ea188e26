#include "strategies/standalone/stand_ins.h"

#include "graph/fake.h"
#include "strata/core/error.h"

namespace strata::standalone {

data::Example StandIns::make(const Origin& batch, const data::ElementSpec& fields) {
  const MutexLock lock(mutex_);
  std::erase_if(known_, [](const auto& each) { return each.second.memory.expired(); });
  data::Example example;
  for (const data::TensorSpec& field : fields) {
    const at::Tensor tensor = graph::fake_contiguous(field.shape, field.dtype);
    const c10::intrusive_ptr<c10::StorageImpl> memory =
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
    Origin origin = batch;
    origin.field = example.size();
    known_.insert_or_assign(
        memory.get(),
        Known{.memory = c10::weak_intrusive_ptr<c10::StorageImpl>(memory),
              .origin = origin,
              .row_elements = field.shape[0] > 0 ? tensor.numel() / field.shape[0] : 0});
    example.fields.push_back(tensor);
  }
  return example;
}

std::optional<StandIns::Origin> StandIns::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
  const MutexLock lock(mutex_);
  const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == known_.end()) return std::nullopt;
  const Known& known = found->second;
  const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
  const bool whole_rows =
      tensor.dim() > 0 && tensor.is_contiguous() && tensor.numel() == rows * known.row_elements &&
      (known.row_elements == 0 || tensor.storage_offset() % known.row_elements == 0);
  STRATA_CHECK(whole_rows, kUnimplemented, "[standalone] got an input of ", tensor.sizes(),
               " from a server's dataset; expected whole rows of a batch: change it in the step");
  Origin origin = known.origin;
  if (known.row_elements > 0) origin.row = tensor.storage_offset() / known.row_elements;
  return origin;
}

}  // namespace strata::standalone
