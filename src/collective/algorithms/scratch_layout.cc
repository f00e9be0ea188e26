#include "collective/algorithms/scratch_layout.h"

#include <algorithm>
#include <set>

#include "strata/core/error.h"

namespace strata::collective {

ScratchLayout::ScratchLayout(const Schedule& schedule, int rank) {
  const auto r = static_cast<size_t>(rank);
  const std::vector<Step>& steps = schedule.ranks[r];
  const std::vector<Schedule::Slot>& slots = schedule.slots[r];
  std::vector<std::vector<std::pair<int, int>>> used(slots.size());  // chunks [first, last)
  const auto use = [&](int slot, const Step& step) {
    if (step.chunks > 0) {
      used[static_cast<size_t>(slot)].push_back({step.chunk, step.chunk + step.chunks});
    }
  };
  for (const Step& step : steps) use(step.target, step);

  of_slot_.resize(slots.size());
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    of_slot_[slot].first = static_cast<int>(runs_.size());
    const bool partial = slots[slot] == Schedule::Slot::kPartial;
    if (partial || slots[slot] == Schedule::Slot::kWhole) {
      // What is read was written; so chunks that steps write decide.
      std::sort(used[slot].begin(), used[slot].end());
      for (const auto& [first, last] : used[slot]) {
        const bool joins = static_cast<int>(runs_.size()) > of_slot_[slot].first &&
                           first <= runs_.back().last_chunk;
        if (joins) {
          runs_.back().last_chunk = std::max(runs_.back().last_chunk, last);
        } else {
          runs_.push_back({static_cast<int>(slot), first, last, partial});
        }
      }
    }
    of_slot_[slot].second = static_cast<int>(runs_.size());
  }

  sends_.resize(steps.size());
  std::vector<std::vector<int>> sends_of_slot(slots.size());
  const auto memory = [&](int slot) {  // the result may be the first value
    return slot == 1 && slots[1] == Schedule::Slot::kValue ? size_t{0} : static_cast<size_t>(slot);
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind == Step::Kind::kSend) {
      sends_of_slot[memory(step.target)].push_back(static_cast<int>(i));
    } else if (step.kind == Step::Kind::kReduce || step.kind == Step::Kind::kCopy) {
      for (const int send : sends_of_slot[memory(step.target)]) {
        const Step& sent = steps[static_cast<size_t>(send)];
        if (sent.chunk < step.chunk + step.chunks && step.chunk < sent.chunk + sent.chunks) {
          sends_[i].push_back(send);
        }
      }
    }
  }
  find_arriving(schedule, steps);
}

void ScratchLayout::find_arriving(const Schedule& schedule, const std::vector<Step>& steps) {
  arriving_.resize(steps.size());
  taken_.resize(steps.size(), false);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind != Step::Kind::kReduce) continue;
    size_t first = i;
    while (first > 0 && steps[first - 1].kind == Step::Kind::kReceive) --first;
    for (size_t r = first; r < i; ++r) {
      const Step& receive = steps[r];
      if (receive.chunk != step.chunk || receive.chunks != step.chunks) continue;
      for (int source = step.first; source < step.last; ++source) {
        if (schedule.sources[static_cast<size_t>(source)] != receive.target || taken_[r]) continue;
        arriving_[i].push_back({static_cast<int>(r), source - step.first});
        taken_[r] = true;
      }
    }
  }
}

int ScratchLayout::run_of(int slot, int chunk) const {
  const auto [first, last] = of_slot_[static_cast<size_t>(slot)];
  const auto after = std::upper_bound(runs_.begin() + first, runs_.begin() + last, chunk,
                                      [](int c, const Run& run) { return c < run.first_chunk; });
  STRATA_DCHECK(after != runs_.begin() + first);
  return static_cast<int>(after - runs_.begin()) - 1;
}

}  // namespace strata::collective
