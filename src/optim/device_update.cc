#include "optim/device_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "optim/flat_update.h"
#include "optim/remote_update.h"

namespace strata::optimizers {
namespace {

/// `replica`'s gradient of `parameter`, where that is, dense.
at::Tensor gradient_of(const EntryGradient& gradient, const at::Tensor& parameter, int replica) {
  if (!gradient.rows) {
    const size_t source = gradient.sources.size() == 1 ? 0 : static_cast<size_t>(replica);
    return gradient.sources[source].to(parameter.device());
  }
  const at::Tensor rows = at::tensor(gradient.rows->rows, at::kLong).to(parameter.device());
  at::Tensor dense = at::full_like(parameter, 0).detach();
  dense.index_copy_(0, rows, gradient.rows->values.to(parameter.device()));
  return dense;
}

}  // namespace

DeviceUpdate::DeviceUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                           const std::vector<Entry>& entries, const ExtraSlots& extras)
    : rule_(rule), group_(group), extras_(extras), entries_(entries) {
  const at::NoGradGuard no_grad;
  slots_.resize(num_copies());
  for (size_t r = 0; r < slots_.size(); ++r) {
    for (size_t e = 0; e < entries_.size(); ++e) {
      std::vector<at::Tensor> slots;
      const at::Tensor parameter = this->parameter(e, static_cast<int>(r));
      for (int i = 0; i < rule.num_slots() + extras.count(); ++i) {
        const bool extra = i >= rule.num_slots();
        const double value = extra ? 0 : rule.slot_initial_value(i);
        const std::vector<int64_t> shape =
            extra ? parameter.sizes().vec() : rule.slot_shape(i, parameter.sizes());
        slots.push_back(at::IntArrayRef(shape) == parameter.sizes()
                            ? at::full_like(parameter, value).detach()
                            : at::full(shape, value, parameter.options()).detach());
      }
      slots_[r].push_back(std::move(slots));
    }
  }
}

size_t DeviceUpdate::num_copies() const {
  return group_.keeps_one_copy() ? 1 : static_cast<size_t>(group_.num_local_replicas());
}

at::Tensor DeviceUpdate::parameter(size_t entry, int replica) const {
  const Variable& variable = entries_[entry].variable;
  return (group_.keeps_one_copy() ? variable.state()->central() : variable.on_replica(replica))
      .detach();
}

void DeviceUpdate::reshape() {
  slots_.resize(std::min(slots_.size(), num_copies()));
  while (slots_.size() < num_copies()) {
    std::vector<std::vector<at::Tensor>> copies = slots_[0];
    for (size_t i = 0; i < entries_.size(); ++i) {
      const at::Device device = parameter(i, static_cast<int>(slots_.size())).device();
      for (at::Tensor& slot : copies[i]) {
        slot = slot.to(device, slot.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
      }
    }
    slots_.push_back(std::move(copies));
  }
}

std::vector<double> DeviceUpdate::squared_norms(Step& step) {
  std::vector<double> norms;
  for (size_t i = 0; i < entries_.size(); ++i) {
    norms.push_back(0);
    if (!step.gradients[i].used) continue;
    const at::Tensor gradient = gradient_of(step.gradients[i], parameter(i, 0), 0);
    norms.back() = gradient.to(at::kDouble).square().sum().item<double>();
  }
  return norms;
}

void DeviceUpdate::accumulate(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const EntryGradient& gradient = step.gradients[i];
    if (!gradient.used) continue;
    slots_of(replica, i)
        .back()
        .add_(gradient_of(gradient, parameter(i, replica), replica), gradient.scale);
  }
}

void DeviceUpdate::update(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::vector<at::Tensor>& all = slots_of(replica, i);
    if (step.gradients[i].used) {
      at::Tensor parameter = this->parameter(i, replica);
      std::vector<at::Tensor> slots(all.begin(), all.begin() + rule_.num_slots());
      rule_.apply(parameter, gradient_of(step.gradients[i], parameter, replica), slots,
                  {.gradient_scale = step.gradients[i].scale,
                   .clip_value = step.clip_value,
                   .weight_decay = entries_[i].decays ? step.weight_decay : 0},
                  step.scalars);
    }
    if (step.clear_accumulators) all.back().zero_();
  }
}

void DeviceUpdate::average(const Step& step, int replica) {
  if (!updates(replica)) return;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries_.size(); ++i) {
    at::Tensor parameter = this->parameter(i, replica);
    at::Tensor& mean = slots_of(replica, i)[static_cast<size_t>(rule_.num_slots())];
    mean.mul_(1 - step.average_rate).add_(parameter, step.average_rate);
    if (step.overwrite_by_average) parameter.copy_(mean);
  }
}

at::Tensor DeviceUpdate::slot(size_t entry, int slot) const {
  return slots_[0][entry][static_cast<size_t>(slot)];
}

std::vector<at::Tensor> DeviceUpdate::slot_copies(size_t entry, int slot) const {
  std::vector<at::Tensor> copies;
  for (const auto& replica : slots_) copies.push_back(replica[entry][static_cast<size_t>(slot)]);
  return copies;
}

std::unique_ptr<UpdatePass> make_update_pass(const tensor::UpdateRule& rule, ReplicaGroup& group,
                                             const std::vector<Entry>& entries,
                                             const ExtraSlots& extras) {
  const at::ScalarType dtype = entries[0].variable.dtype();
  if (group.options().parameter_store) {
    if (dtype == at::kFloat) {
      return std::make_unique<RemoteUpdate<float>>(rule, group, entries, extras);
    }
    STRATA_CHECK(dtype == at::kDouble, kUnimplemented, "[", rule.name(), "] build: got '",
                 entries[0].variable.name(), "' of ", c10::toString(dtype),
                 "; parameter servers hold float32 and float64");
    return std::make_unique<RemoteUpdate<double>>(rule, group, entries, extras);
  }
  const bool flat = group.all_cpu() && !group.has_mirrors();
  if (flat && dtype == at::kFloat) {
    return std::make_unique<FlatUpdate<float>>(rule, group, entries, extras);
  }
  if (flat && dtype == at::kDouble) {
    return std::make_unique<FlatUpdate<double>>(rule, group, entries, extras);
  }
  return std::make_unique<DeviceUpdate>(rule, group, entries, extras);
}

}  // namespace strata::optimizers
