// What a step, and a checkpoint, do about an optimizer's state that the cards share out.
#include <utility>

#include "optim/optimizer_impl.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::optimizers {

void Optimizer::Impl::cut_shards(Part& part) {
  const auto index = static_cast<size_t>(&part - parts_.data());
  const CardShards wanted = gatherer_ ? cards_->shards_of(index) : CardShards{};
  if (const CardShards* now = part.sharded->shards()) {
    if (*now == wanted) return;
    // After an error the first step's gradients were others: all processes see that alike.
    std::vector<std::vector<at::Tensor>> whole;  // by slot, entry
    for (int slot = 0; slot < static_cast<int>(slot_names().size()); ++slot) {
      whole.push_back(gathered_slot(part, slot));
    }
    part.sharded->join();
    for (size_t slot = 0; slot < whole.size(); ++slot) {
      for (size_t i = 0; i < part.variables.size(); ++i) {
        if (whole[slot][i].defined()) {
          part.sharded->set_slot(i, static_cast<int>(slot), whole[slot][i]);
        }
      }
    }
  }
  part.sharded->cut(wanted);
}

void Optimizer::Impl::gather_slot_on_cards(const Part& part, int slot) const {
  if (part.sharded == nullptr || part.sharded->shards() == nullptr) return;
  STRATA_CHECK(gatherer_ != nullptr || part.sharded->shards()->buckets.empty(), kFailedPrecondition,
               "[", rule_->name(),
               "] the optimizer's state is sharded over cards that no longer reach each other; "
               "restore a checkpoint in a new strategy");
  if (!gatherer_) return;
  const int replicas = group_->num_local_replicas();
  // For the gather before, if that has failed.
  for (int local = 0; local < replicas; ++local) gatherer_->wait(local);
  part.sharded->put_into_gradients(slot);
  for (int local = 0; local < replicas; ++local) gatherer_->written(local);
  gatherer_->gather(*part.sharded->shards(), part.sharded->gradient_arenas(),
                    str_cat(slot_names()[static_cast<size_t>(slot)], " of ", rule_->name()));
  for (int local = 0; local < replicas; ++local) gatherer_->wait(local);
}

std::vector<at::Tensor> Optimizer::Impl::gathered_slot(const Part& part, int slot) const {
  if (part.sharded == nullptr || part.sharded->shards() == nullptr) return {};
  gather_slot_on_cards(part, slot);
  const tensor::Arena gathered = part.sharded->gradient_arenas()[0];
  std::vector<at::Tensor> values(part.variables.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (part.sharded->is_sharded(i)) values[i] = gathered.view(part.sharded->place_of(i)).cpu();
  }
  if (cards_) group_->options().cards->status().throw_if_error();
  return values;
}

bool Optimizer::Impl::set_slot_on_cards(size_t variable, int slot, const at::Tensor& value) {
  for (const Part& part : parts_) {
    const auto found = std::ranges::find(part.variables, variable);
    if (found == part.variables.end() || part.sharded == nullptr) continue;
    part.sharded->set_slot(static_cast<size_t>(found - part.variables.begin()), slot, value);
    return true;
  }
  return false;
}

/// Behind what the replicas have enqueued, and before what they enqueue next.
void Optimizer::Impl::gather_parameters_on_cards() {
  if (!gatherer_) return;
  for (const Part& part : parts_) {
    gatherer_->gather(*part.sharded->shards(), part.sharded->parameter_arenas(),
                      str_cat("variables of ", rule_->name()));
  }
}

}  // namespace strata::optimizers
