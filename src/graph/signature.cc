#include "graph/signature.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "graph/host_call.h"
#include "graph/trace_key.h"
#include "strata/core/str_cat.h"

namespace strata::graph {

Signature::TensorLayout::TensorLayout(const at::Tensor& tensor) : defined(tensor.defined()) {
  if (!defined) return;
  requires_grad = tensor.requires_grad();
  dtype = tensor.scalar_type();
  device = tensor.device();
  sizes = tensor.sizes().vec();
  if (tensor.layout() == at::kStrided) strides = tensor.strides().vec();
}

bool Signature::TensorLayout::fits(const at::Tensor& tensor, bool any_rows) const {
  if (!defined || !tensor.defined()) return defined == tensor.defined();
  if (tensor.layout() != at::kStrided) return false;
  const size_t from = any_rows && !sizes.empty() ? 1 : 0;
  return requires_grad == tensor.requires_grad() && dtype == tensor.scalar_type() &&
         device == tensor.device() && sizes.size() == tensor.sizes().size() &&
         at::IntArrayRef(sizes).slice(from) == tensor.sizes().slice(from) &&
         at::IntArrayRef(strides) == tensor.strides();
}

std::string Signature::TensorLayout::text() const {
  if (!defined) return "none";
  return str_cat(dtype, " ", at::IntArrayRef(sizes), " with strides ", at::IntArrayRef(strides),
                 requires_grad ? ", which requires gradients," : "", " on ", device);
}

Signature::ThreadState Signature::ThreadState::now() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return {.place = graph::place(),
          // A function within another one's first call is observed.
          .included_keys = keys.included_.remove(kTraceKey).raw_repr(),
          .excluded_keys = keys.excluded_.raw_repr(),
          .grad_mode = c10::GradMode::is_enabled()};
}

Signature::Signature(const Leaves& arguments)
    : tensors_(arguments.tensors.begin(), arguments.tensors.end()),
      rest_(arguments.rest),
      thread_(ThreadState::now()) {}

bool Signature::fits(const Leaves& arguments) const { return fits(arguments, false); }
bool Signature::fits_rows(const Leaves& arguments) const { return fits(arguments, true); }

bool Signature::fits(const Leaves& arguments, bool any_rows) const {
  return tensors_.size() == arguments.tensors.size() && rest_ == arguments.rest &&
         thread_ == ThreadState::now() &&
         std::equal(tensors_.begin(), tensors_.end(), arguments.tensors.begin(),
                    [any_rows](const TensorLayout& layout, const at::Tensor& tensor) {
                      return layout.fits(tensor, any_rows);
                    });
}

std::string Signature::difference_from(const Signature& before) const {
  if (tensors_.size() != before.tensors_.size()) {
    return str_cat("it got ", tensors_.size(), " tensors, and ", before.tensors_.size(), " before");
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::string now = tensors_[i].text();
    const std::string then = before.tensors_[i].text();
    if (now != then) return str_cat("tensor ", i, " is ", now, ", and was ", then);
  }
  if (rest_ != before.rest_) {
    return "an argument that is no tensor (a number, a string, the size of a list) has another "
           "value";
  }
  return "the thread's state is another: gradients, autocast, the replica";
}

}  // namespace strata::graph
