#include "simulate/schedule_run.h"

#include <algorithm>
#include <utility>

#include "simulate/lockstep.h"
#include "strata/core/error.h"

namespace strata::simulate {

using collective::Payload;
using collective::Schedule;
using collective::Step;

ScheduleRun::ScheduleRun(Fabric& fabric, std::shared_ptr<const Schedule> schedule,
                         const Payload& payload, Finished finished)
    : fabric_(fabric),
      schedule_(std::move(schedule)),
      payload_(payload),
      finished_(std::move(finished)),
      one_rank_(schedule_->num_ranks() != fabric.num_ranks()),
      ranks_(static_cast<size_t>(schedule_->num_ranks())) {
  STRATA_DCHECK(!one_rank_ || schedule_->num_ranks() == 1);
  for (int chunk = 0; chunk < schedule_->num_chunks(); ++chunk) {
    starts_.push_back(schedule_->range(payload.elements, chunk).begin);
  }
  starts_.push_back(payload.elements);
  for (Rank& rank : ranks_) rank.arrived.resize(static_cast<size_t>(fabric.num_ranks()));
}

double ScheduleRun::bytes(int rank, int slot, const Step& step) const {
  const auto kind = schedule_->slots[static_cast<size_t>(rank)][static_cast<size_t>(slot)];
  const int64_t elements = starts_[static_cast<size_t>(step.chunk + step.chunks)] -
                           starts_[static_cast<size_t>(step.chunk)];
  return static_cast<double>(elements * (kind == Schedule::Slot::kPartial
                                             ? payload_.partial_bytes
                                             : payload_.element_bytes));
}

void ScheduleRun::begin(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  STRATA_DCHECK(!self.begun);
  self.begun = true;
  step(rank);
}

/// The rank's next step, and those behind it that take no time.
void ScheduleRun::step(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  const std::vector<Step>& steps = schedule_->ranks[static_cast<size_t>(rank)];
  const double per_message = fabric_.links().message_seconds;
  EventQueue& events = fabric_.events();
  while (self.next < steps.size()) {
    const Step& s = steps[self.next];
    if (s.chunks > 0 &&
        starts_[static_cast<size_t>(s.chunk + s.chunks)] == starts_[static_cast<size_t>(s.chunk)]) {
      ++self.next;  // empty parts are not sent
      continue;
    }
    double seconds = 0;
    switch (s.kind) {
      case Step::Kind::kBarrier:
        STRATA_DCHECK(false);
        break;
      case Step::Kind::kSend: {
        seconds = per_message;
        ++self.unsent;
        const double size = s.chunks == 0 ? 0 : bytes(rank, s.target, s);
        events.at(events.now() + seconds, [this, rank, to = s.peer, size] {
          fabric_.send(
              rank, to, size,
              [this, rank] {
                --ranks_[static_cast<size_t>(rank)].unsent;
                end_if_through(rank);
              },
              [this, rank, to] { arrive(rank, to); });
        });
        break;
      }
      case Step::Kind::kReceive: {
        int& arrived = self.arrived[static_cast<size_t>(s.peer)];
        if (arrived == 0) {
          self.waits_for = s.peer;
          return;  // `arrive` continues here
        }
        --arrived;
        seconds = per_message;
        break;
      }
      case Step::Kind::kReduce:
      case Step::Kind::kCopy: {
        double moved = bytes(rank, s.target, s);
        for (int i = s.first; i < s.last; ++i) {
          const int slot = schedule_->sources[static_cast<size_t>(i)];
          if (slot != Schedule::kAbsent) moved += bytes(rank, slot, s);
        }
        const double rate = fabric_.links().reduce_bytes_per_second;
        seconds = rate > 0 ? moved / rate : 0;
        break;
      }
    }
    ++self.next;
    if (seconds > 0) {
      events.at(events.now() + seconds, [this, rank] { step(rank); });
      return;
    }
  }
  self.through = true;
  end_if_through(rank);
}

void ScheduleRun::arrive(int from, int to) {
  if (one_rank_) {
    // An equal of this rank sent it a message at the same time, from where the mirrored peer is.
    from = mirrored_peer(*schedule_, to, fabric_.num_ranks());
    to = 0;
  }
  Rank& self = ranks_[static_cast<size_t>(to)];
  ++self.arrived[static_cast<size_t>(from)];
  if (self.waits_for != from) return;
  self.waits_for = -1;
  step(to);
}

void ScheduleRun::end_if_through(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  if (!self.through || self.unsent > 0) return;
  self.through = false;
  ++finished_ranks_;
  finished_at_ = fabric_.events().now();
  finished_(rank);
}

}  // namespace strata::simulate
