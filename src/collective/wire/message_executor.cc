#include "collective/wire/message_executor.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>

#include "collective/wire/link_queue.h"
#include "core/call_notice.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

/// Sums are made piece by piece: other messages move on between them, and what is added may still
/// be arriving.
constexpr int64_t kPieceBytes = 256 << 10;
/// The next message begins when no more of this rank's is left. Less than a processor that is busy
/// elsewhere lets run dry would leave the line idle; much more lets ranks fall out of step.
constexpr size_t kSendWindow = 128 << 10;

class MessageRun {
 public:
  MessageRun(const Schedule& schedule, const ScratchLayout& layout, int rank,
             const MessageBuffers& buffers, const MessageRoute& route)
      : schedule_(schedule),
        layout_(layout),
        steps_(schedule.ranks[static_cast<size_t>(rank)]),
        slots_(schedule.slots[static_cast<size_t>(rank)]),
        buffers_(buffers),
        route_(route),
        partial_bytes_(buffers.reduction ? buffers.reduction->partial_bytes()
                                         : buffers.element_bytes),
        transfers_(steps_.size()),
        receives_(transfers_, route.receive_window),
        sends_(transfers_, kSendWindow) {
    starts_.reserve(static_cast<size_t>(schedule.num_chunks()) + 1);
    for (int chunk = 0; chunk < schedule.num_chunks(); ++chunk) {
      starts_.push_back(schedule.range(buffers.elements, chunk).begin);
    }
    starts_.push_back(buffers.elements);
    allocate_scratch();
  }

  Status run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].kind == Step::Kind::kReceive && !is_empty(steps_[i])) {
        receives_.add(i, memory(steps_[i]).size());
      }
    }
    advance();
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (is_empty(steps_[i])) continue;
      if (Status status = run_step(i); !status.ok()) return status;
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].kind != Step::Kind::kSend || is_empty(steps_[i])) continue;
      if (Status status = wait(i); !status.ok()) return status;
    }
    return {};
  }

 private:
  /// Of an element there; a barrier's messages have no chunk and are no such steps.
  bool is_empty(const Step& step) const { return step.chunks > 0 && size(step) == 0; }
  int64_t start(int chunk) const { return starts_[static_cast<size_t>(chunk)]; }
  int64_t size(const Step& step) const {
    return start(step.chunk + step.chunks) - start(step.chunk);
  }
  wire::Connection& peer(const Step& step) const {
    return *(*route_.peers)[static_cast<size_t>(step.peer)];
  }
  bool is_partial(int slot) const {
    return slots_[static_cast<size_t>(slot)] == Schedule::Slot::kPartial;
  }
  int64_t width(int slot) const {
    return is_partial(slot) ? partial_bytes_ : buffers_.element_bytes;
  }

  void allocate_scratch() {
    constexpr int64_t kCacheLine = 64;
    int64_t bytes = 0;
    for (const ScratchLayout::Run& run : layout_.runs()) {
      offsets_.push_back(bytes);
      const int64_t used = (start(run.last_chunk) - start(run.first_chunk)) *
                           (run.partial ? partial_bytes_ : buffers_.element_bytes);
      bytes += (used + kCacheLine - 1) / kCacheLine * kCacheLine;
    }
    if (bytes > 0) scratch_ = at::empty({bytes}, at::kByte);
  }

  std::byte* address(int slot, int chunk) const {
    switch (slots_[static_cast<size_t>(slot)]) {
      case Schedule::Slot::kResult:
        return buffers_.result + (start(chunk) - buffers_.result_begin) * buffers_.element_bytes;
      case Schedule::Slot::kValue:
        // Never written, see find_fault.
        return const_cast<std::byte*>(buffers_.values[static_cast<size_t>(slot) - 1]) +
               start(chunk) * buffers_.element_bytes;
      default: {
        const auto run = static_cast<size_t>(layout_.run_of(slot, chunk));
        return static_cast<std::byte*>(scratch_.data_ptr()) + offsets_[run] +
               (start(chunk) - start(layout_.runs()[run].first_chunk)) * width(slot);
      }
    }
  }
  std::span<std::byte> memory(const Step& step) const {
    if (step.chunks == 0) return {};
    return {address(step.target, step.chunk), static_cast<size_t>(size(step) * width(step.target))};
  }

  /// Starts what may start now.
  void advance() {
    receives_.advance(
        [this](size_t i) { return peer(steps_[i]).receive(route_.tag, memory(steps_[i])); });
    sends_.advance(
        [this](size_t i) { return peer(steps_[i]).send(route_.tag, memory(steps_[i])); });
  }
  bool started(size_t step) const {
    return steps_[step].kind == Step::Kind::kSend ? sends_.started(step) : receives_.started(step);
  }

  /// Until `there()` holds of the step's transfer, or it is done.
  template <typename There>
  Status wait(size_t step, const There& there) {
    wire::Transfer& transfer = transfers_[step];
    const auto ready = [&] {
      advance();
      return started(step) && (transfer.done() || there());
    };
    if (!ready() && !wait_until(ready, step)) {
      // Who gave up, and why, is in the words of a wait for a transfer.
      return route_.transport->wait(transfers_[awaited(step)], route_.deadline, route_.stop);
    }
    return transfer.done() ? transfer.status() : Status();
  }
  bool wait_until(const std::function<bool()>& ready, size_t step) {
    detail::CallNotice notice(
        [this, step] {
          return str_cat("[collective] waits for ", peer(steps_[awaited(step)]).name(),
                         "; has it stopped, or is it slower?");
        },
        wire::Deadline::Clock::now(), route_.deadline.time());
    while (true) {
      const auto until = wire::Deadline::sooner(route_.deadline, wire::Deadline::at(notice.next()));
      if (route_.transport->wait_until(ready, until, route_.stop)) return true;
      if (route_.deadline.passed() || route_.stop.stop_requested()) return false;
      notice.look(wire::Deadline::Clock::now());
    }
  }
  /// The step whose transfer `step` waits for.
  size_t awaited(size_t step) const {
    return started(step)                            ? step
           : steps_[step].kind == Step::Kind::kSend ? sends_.first()
                                                    : receives_.first();
  }
  Status wait(size_t step) {
    return wait(step, [] { return false; });
  }

  Status run_step(size_t index) {
    const Step& step = steps_[index];
    switch (step.kind) {
      case Step::Kind::kSend:
        sends_.add(index, memory(step).size());
        advance();
        return {};
      case Step::Kind::kReceive:
        if (layout_.taken_while_arriving()[index]) return {};
        return wait(index);
      case Step::Kind::kReduce:
      case Step::Kind::kCopy:
        // What came tells better than a send why a call fails, so it is looked at first.
        if (!layout_.sends_to_await()[index].empty()) {
          if (Status status = wait_for_arriving(index); !status.ok()) return status;
        }
        for (const int send : layout_.sends_to_await()[index]) {
          if (Status status = wait(static_cast<size_t>(send)); !status.ok()) return status;
        }
        return reduce(index);
      case Step::Kind::kBarrier:
        break;
    }
    STRATA_DCHECK(false);
    return {};
  }

  Status wait_for_arriving(size_t index) {
    for (const ScratchLayout::Arriving& message : layout_.arriving()[index]) {
      Status status = wait(static_cast<size_t>(message.receive));
      if (!status.ok()) return status;
    }
    return {};
  }

  Status reduce(size_t index) {
    const Step& step = steps_[index];
    const bool finish = slots_[static_cast<size_t>(step.target)] == Schedule::Slot::kResult;
    const int64_t all = size(step);
    const int64_t piece = kPieceBytes / width(step.target);
    c10::SmallVector<Operand, 16> sources;
    c10::SmallVector<int64_t, 16> widths;
    for (int i = step.first; i < step.last; ++i) {
      const int slot = schedule_.sources[static_cast<size_t>(i)];
      const bool absent = slot == Schedule::kAbsent;
      sources.push_back(
          {absent ? nullptr : address(slot, step.chunk), !absent && is_partial(slot)});
      widths.push_back(absent ? 0 : width(slot));
    }
    Operand target{address(step.target, step.chunk), is_partial(step.target)};
    for (int64_t begin = 0; begin < all; begin += piece) {
      const int64_t count = std::min(piece, all - begin);
      for (const ScratchLayout::Arriving& message : layout_.arriving()[index]) {
        const auto receive = static_cast<size_t>(message.receive);
        const auto bytes =
            static_cast<size_t>((begin + count) * widths[static_cast<size_t>(message.source)]);
        Status status = wait(receive, [&] { return transfers_[receive].arrived() >= bytes; });
        if (!status.ok()) return status;
      }
      buffers_.reduction->reduce(sources.data(), static_cast<int>(sources.size()), count, target,
                                 finish);
      for (size_t i = 0; i < sources.size(); ++i) advance(sources[i], count * widths[i]);
      advance(target, count * width(step.target));
      if (begin + count < all) {
        route_.transport->progress();
        advance();
      }
    }
    return wait_for_arriving(index);
  }
  static void advance(Operand& operand, int64_t bytes) {
    if (operand.data) operand.data = static_cast<std::byte*>(operand.data) + bytes;
  }

  const Schedule& schedule_;
  const ScratchLayout& layout_;
  const std::vector<Step>& steps_;
  const std::vector<Schedule::Slot>& slots_;
  const MessageBuffers& buffers_;
  const MessageRoute& route_;
  const int64_t partial_bytes_;
  std::vector<int64_t> starts_;   // by chunk
  std::vector<int64_t> offsets_;  // by run of the layout
  at::Tensor scratch_;
  std::vector<wire::Transfer> transfers_;  // by step; destroyed before what it reads and writes
  LinkQueue receives_;
  LinkQueue sends_;
};

}  // namespace

Status run_messages(const Schedule& schedule, const ScratchLayout& layout, int rank,
                    const MessageBuffers& buffers, const MessageRoute& route) {
  MessageRun run(schedule, layout, rank, buffers, route);
  Status status = run.run();
  if (!status.ok() && route.on_failure) route.on_failure(status);
  return status;
}

}  // namespace strata::collective
