#include <algorithm>
#include <exception>

#include "core/mutex.h"
#include "data/pipeline.h"
#include "data/single_thread.h"
#include "data/transforms/chunks.h"
#include "data/transforms/interleave.h"

namespace strata::data::detail {
namespace {

constexpr auto kReadTime = std::chrono::microseconds(100);

/// One of the datasets, read ahead by one thread at a time. What is not said to be the reader's or
/// the consumer's is guarded by the interleave's mutex.
struct Reader {
  struct Item {
    Example element = {};
    std::exception_ptr error = nullptr;
    bool unopened = false;  // the error came instead of a dataset
    int64_t bytes = 0;
  };

  Position before;  // of the input, before `element`

  // The reader's.
  Example element;
  SourcePtr source;
  std::unique_ptr<ExampleStream> stream;
  int64_t read = 0;
  int64_t next_chunk = 0;

  // The consumer's.
  std::exception_ptr input_error = nullptr;  // instead of everything else
  int64_t given = 0;
  bool touched = false;  // has given something, if only an error

  std::deque<Item> ready;
  Chunks chunks;
  int64_t block_size = 1;
  bool busy = false;   // a thread reads it
  bool ended = false;  // nothing comes behind `ready`
};

using ReaderPtr = std::unique_ptr<Reader>;

/// As the serial interleave, but threads open the datasets whose turn is to come, and read ahead in
/// them. Where the consumer must wait and no thread has begun, it reads itself.
class ParallelInterleaveStream final : public ExampleStream, private Worker {
 public:
  ParallelInterleaveStream(const Source& input, const DatasetFunction& fn,
                           const InterleaveOptions& options, uint64_t epoch)
      : pipeline_(Pipeline::current()),
        input_source_(input),
        fn_(fn),
        epoch_(epoch),
        block_length_(options.block_length),
        parallel_(pipeline_.num_parallel(options.num_parallel_calls)),
        ordered_(pipeline_.deterministic(options.deterministic)),
        input_(input.examples(epoch)),
        slots_(static_cast<size_t>(options.cycle_length)) {}

  ~ParallelInterleaveStream() {
    MutexLock lock(mutex_);
    stop_ = true;
    working_ -= pipeline_.threads().cancel(*this);
    // Each thread ends with its element.
    idle_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return working_ == 0; });
    for (const ReaderPtr& slot : slots_) forget_buffered(slot.get());
    for (const ReaderPtr& reader : waiting_) forget_buffered(reader.get());
  }

  bool next(Example& out) override {
    MutexLock lock(mutex_);
    while (true) {
      if (!ordered_) choose_slot();
      ReaderPtr& slot = slots_[cycle_];
      if (slot == nullptr) {
        if (ReaderPtr reader = next_reader()) {
          if (reader->input_error) std::rethrow_exception(reader->input_error);
          slot = std::move(reader);
          ++num_open_;
          schedule();
        } else if (num_open_ == 0) {
          return false;
        } else {
          next_slot();
        }
      } else if (!slot->ready.empty()) {
        return take(slot, out);
      } else if (slot->ended) {
        close(slot);
        next_slot();
      } else {
        read_or_wait(*slot, lock);
      }
    }
  }

  Position position() const override {
    const MutexLock lock(mutex_);
    InterleavePosition position{
        .cycle = static_cast<int64_t>(cycle_),
        .block = block_,
        .input = waiting_.empty() ? input_->position() : waiting_.front()->before};
    for (const ReaderPtr& slot : slots_) {
      auto& saved = position.slots.emplace_back();
      if (slot == nullptr) continue;
      saved.open = true;
      saved.before = slot->before;
      if (!slot->touched) continue;
      slot->chunks.drop_passed(slot->given);
      saved.first = slot->chunks.front().first;
      saved.since = slot->given - saved.first;
      saved.inner = slot->chunks.front().position;
    }
    return position.to_position("interleave");
  }

  // Not checked: no thread has begun.
  void restore(const Position& position) override STRATA_NO_THREAD_SAFETY_ANALYSIS {
    const auto saved = InterleavePosition::from_position(
        position, "interleave", static_cast<int64_t>(slots_.size()), block_length_);
    cycle_ = static_cast<size_t>(saved.cycle);
    block_ = saved.block;
    input_->restore(saved.input);
    for (size_t s = 0; s < slots_.size(); ++s) {
      const auto& from = saved.slots[s];
      if (!from.open) continue;
      slots_[s] = std::make_unique<Reader>();
      Reader& reader = *slots_[s];
      ++num_open_;
      reader.before = from.before;
      reader.element = element_at(input_source_, epoch_, from.before);
      if (!from.inner) continue;
      open(reader);
      reader.stream->restore(*from.inner);
      reader.stream->skip(from.since);
      reader.read = reader.given = from.first + from.since;
      reader.next_chunk = next_chunk(from.first);
      reader.chunks.add({*from.inner, from.first});
      reader.touched = true;
    }
  }

 private:
  // ---- the consumer ----

  // Where order is free: a slot that has something, the one whose turn it is if it can be.
  void choose_slot() STRATA_REQUIRES(mutex_) {
    bool may_open = true;
    for (size_t k = 0; k < slots_.size(); ++k) {
      const size_t s = (cycle_ + k) % slots_.size();
      ReaderPtr& slot = slots_[s];
      if (slot != nullptr && slot->ready.empty() && slot->ended) close(slot);
      if (slot == nullptr && may_open) {
        slot = next_reader();
        if (slot != nullptr && slot->input_error) {
          waiting_.push_front(std::move(slot));
          may_open = false;
        } else if (slot != nullptr) {
          ++num_open_;
          schedule();
        }
      }
      if (slot == nullptr || slot->ready.empty()) continue;
      if (k > 0) block_ = 0;
      cycle_ = s;
      return;
    }
    // Nothing is ready. Where this slot stays empty, wait at another.
    if (slots_[cycle_] != nullptr || num_open_ == 0 || !waiting_.empty()) return;
    block_ = 0;
    while (slots_[cycle_] == nullptr) next_slot();
  }

  bool take(ReaderPtr& slot, Example& out) STRATA_REQUIRES(mutex_) {
    Reader& reader = *slot;
    Reader::Item item = std::move(reader.ready.front());
    reader.ready.pop_front();
    pipeline_.add_buffered(-item.bytes);
    reader.touched = true;
    if (item.unopened) {
      close(slot);
    } else {
      ++reader.given;
      reader.chunks.drop_passed(reader.given);
      if (slots_.size() > 1 && ++block_ == block_length_) next_slot();
    }
    schedule();
    if (item.error) std::rethrow_exception(item.error);
    out = std::move(item.element);
    return true;
  }

  void close(ReaderPtr& slot) {
    slot = nullptr;
    --num_open_;
  }

  void next_slot() STRATA_REQUIRES(mutex_) {
    block_ = 0;
    if (++cycle_ == slots_.size()) cycle_ = 0;
  }

  // The reader of the next element of the input; some more are made for threads to begin with.
  // Unlocks meanwhile.
  ReaderPtr next_reader() STRATA_REQUIRES(mutex_) {
    const bool failed = !waiting_.empty() && waiting_.back()->input_error;
    while (!input_ended_ && !failed && static_cast<int64_t>(waiting_.size()) <= parallel_) {
      auto reader = std::make_unique<Reader>();
      bool there = true;
      {
        const MutexUnlock unlocked(mutex_);  // only the consumer uses the input
        try {
          reader->before = input_->position();
          there = input_->next(reader->element);
        } catch (...) {
          reader->input_error = std::current_exception();
        }
      }
      if (!there) {
        input_ended_ = true;
        break;
      }
      const bool stop = reader->input_error != nullptr;
      waiting_.push_back(std::move(reader));
      if (stop) break;
    }
    if (waiting_.empty()) return nullptr;
    ReaderPtr reader = std::move(waiting_.front());
    waiting_.pop_front();
    return reader;
  }

  void read_or_wait(Reader& reader, MutexLock& lock) STRATA_REQUIRES(mutex_) {
    if (!reader.busy) {
      const SingleThreadScope scope;
      read_block(reader);
      return;
    }
    if (!ordered_) {
      for (const ReaderPtr& other : slots_) {
        if (other == nullptr || other->busy || other->ended) continue;
        const SingleThreadScope scope;
        return read_block(*other);
      }
    }
    const BlockedTimer timer;
    ready_.wait(lock);  // ends, since a thread is at it
  }

  // ---- the consumer and threads ----

  void work() override {
    MutexLock lock(mutex_);
    queued_ = false;
    if (Reader* reader = stop_ ? nullptr : find_work()) read_block(*reader);
    --working_;
    schedule();
    if (stop_) idle_.notify_all();
  }

  // The unfinished dataset whose turn comes first.
  Reader* find_work() const STRATA_REQUIRES(mutex_) {
    if (!pipeline_.has_room()) return nullptr;
    const auto wants = [&](const Reader* reader) {
      return reader != nullptr && !reader->busy && !reader->ended && !reader->input_error &&
             static_cast<int64_t>(reader->ready.size()) <
                 std::max(block_length_, 2 * reader->block_size);
    };
    for (size_t k = 0; k < slots_.size(); ++k) {
      Reader* const reader = slots_[(cycle_ + k) % slots_.size()].get();
      if (wants(reader)) return reader;
    }
    for (const ReaderPtr& reader : waiting_) {
      if (wants(reader.get())) return reader.get();
    }
    return nullptr;
  }

  void schedule() STRATA_REQUIRES(mutex_) {
    if (stop_ || queued_ || working_ >= parallel_ || find_work() == nullptr) return;
    queued_ = true;
    ++working_;
    pipeline_.threads().submit(*this);
  }

  struct ReadItems {
    std::vector<Reader::Item> items;
    std::optional<Chunk> chunk;
    bool ended = false;
    int64_t bytes = 0;
  };

  // Unlocks meanwhile.
  void read_block(Reader& reader) STRATA_REQUIRES(mutex_) {
    reader.busy = true;
    const int64_t size = reader.block_size;
    schedule();  // another thread may read another
    ReadItems made;
    WorkTimer::Clock::duration time;
    {
      const MutexUnlock unlocked(mutex_);
      const auto begin = WorkTimer::Clock::now();
      made = read_items(reader, size);
      time = WorkTimer::Clock::now() - begin;
    }
    if (time > 2 * kReadTime)
      reader.block_size = std::max<int64_t>(1, size / 2);
    else if (time * 2 < kReadTime)
      reader.block_size = std::min(kChunk, size * 2);
    for (Reader::Item& item : made.items) reader.ready.push_back(std::move(item));
    if (made.chunk) reader.chunks.add(std::move(*made.chunk));
    reader.busy = false;
    reader.ended = made.ended;
    pipeline_.add_buffered(made.bytes);
    ready_.notify_one();
  }

  ReadItems read_items(Reader& reader, int64_t size) {
    ReadItems made;
    try {
      if (reader.stream == nullptr) open(reader);
    } catch (...) {
      made.items.push_back({.error = std::current_exception(), .unopened = true});
      made.ended = true;
    }
    if (!made.ended && reader.read >= reader.next_chunk) {
      reader.next_chunk = next_chunk(reader.read);
      made.chunk = Chunk{reader.stream->position(), reader.read};
    }
    const int64_t end = std::min(reader.read + size, reader.next_chunk);
    for (; !made.ended && reader.read < end && !stop_.load(std::memory_order_relaxed);
         ++reader.read) {
      Reader::Item item;
      try {
        made.ended = !reader.stream->next(item.element);
        if (made.ended) break;
        item.bytes = bytes_of(item.element);
        made.bytes += item.bytes;
      } catch (...) {
        item.error = std::current_exception();
      }
      made.items.push_back(std::move(item));
    }
    if (made.ended) {  // its threads and files go at once
      reader.stream = nullptr;
      reader.source = nullptr;
    }
    return made;
  }

  void open(Reader& reader) {
    SourcePtr source = fn_(std::move(reader.element)).source();
    reader.stream = source->examples(epoch_);
    reader.source = std::move(source);
  }

  void forget_buffered(const Reader* reader) {
    if (reader == nullptr) return;
    for (const Reader::Item& item : reader->ready) pipeline_.add_buffered(-item.bytes);
  }

  Pipeline& pipeline_;
  const Source& input_source_;
  const DatasetFunction& fn_;
  const uint64_t epoch_;
  const int64_t block_length_;
  const int64_t parallel_;
  const bool ordered_;

  // The consumer's.
  std::unique_ptr<ExampleStream> input_;
  size_t cycle_ = 0;
  int64_t block_ = 0;
  int64_t num_open_ = 0;
  bool input_ended_ = false;

  mutable Mutex mutex_;
  ConditionVariable ready_, idle_;
  std::vector<ReaderPtr> slots_ STRATA_GUARDED_BY(mutex_);
  std::deque<ReaderPtr> waiting_ STRATA_GUARDED_BY(mutex_);  // for a slot
  int64_t working_ STRATA_GUARDED_BY(mutex_) = 0;            // threads at it, or called
  bool queued_ STRATA_GUARDED_BY(mutex_) = false;            // one is called and has not begun
  std::atomic<bool> stop_ = false;
};

class ParallelInterleaveSource final : public InterleaveSource {
 public:
  using InterleaveSource::InterleaveSource;

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<ParallelInterleaveStream>(input(), fn_, options_, epoch);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_parallel_interleave(std::move(inputs[0]), fn_, options_);
  }
};

}  // namespace

SourcePtr make_parallel_interleave(SourcePtr input, DatasetFunction fn,
                                   const InterleaveOptions& options) {
  return std::make_shared<ParallelInterleaveSource>(std::move(input), std::move(fn), options);
}

}  // namespace strata::data::detail
