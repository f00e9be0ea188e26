// The part of each bucket that is this process's to update.
#include <algorithm>
#include <cstring>

#include "optim/step/gradient_reducer.h"

namespace strata::optimizers {

bool GradientReducer::shards() const {
  return std::ranges::any_of(buckets_, [](const Bucket& bucket) { return bucket.part > 0; });
}

at::Tensor GradientReducer::owned_part(const Bucket& bucket, const at::Tensor& flat) const {
  return flat.narrow(0, bucket.part * group_.communicator()->rank(), bucket.part);
}

collective::Range GradientReducer::owned_range(size_t variable) const {
  const int64_t elements = variables_[variable].numel();
  if (!shards(variable)) return {.begin = 0, .end = elements};
  const Bucket& bucket = bucket_of(variable);
  const Values& memory = sum_of(bucket.buffers[0]);
  // Counted from the variable's first element.
  const int64_t first = owned_part(bucket, memory.flat).storage_offset() -
                        memory.views[slots_[variable]->view].storage_offset();
  return {.begin = std::clamp<int64_t>(first, 0, elements),
          .end = std::clamp<int64_t>(first + bucket.part, 0, elements)};
}

void GradientReducer::all_gather_owned(const std::vector<std::vector<at::Tensor>>& copies,
                                       std::string_view what) {
  for (Bucket& bucket : buckets_) {
    if (bucket.part == 0) continue;
    // The sums were used up: their memory takes the values on their way.
    const Values& memory = sum_of(memory_of(bucket));
    const auto for_each = [&](const auto& copy) {
      for (size_t view = 0; view < bucket.variables.size(); ++view) {
        const size_t variable = bucket.variables[view];
        copy(variable, static_cast<std::byte*>(memory.views[view].mutable_data_ptr()));
      }
    };
    for_each([&](size_t variable, std::byte* travelling) {
      const at::Tensor& from = copies[variable][0];
      const auto width = static_cast<int64_t>(from.element_size());
      const collective::Range range = owned_range(variable);
      std::memcpy(travelling + range.begin * width,
                  static_cast<const std::byte*>(from.const_data_ptr()) + range.begin * width,
                  static_cast<size_t>(range.size() * width));
    });
    at::Tensor all = memory.flat;
    group_.communicator()->all_gather(owned_part(bucket, all), all,
                                      {.name = str_cat(what, " of ", name_)});
    for_each([&](size_t variable, const std::byte* travelling) {
      for (const at::Tensor& copy : copies[variable]) {
        std::memcpy(copy.mutable_data_ptr(), travelling, copy.nbytes());
      }
    });
  }
}

}  // namespace strata::optimizers
