#include <algorithm>
#include <deque>
#include <exception>
#include <optional>

#include "core/mutex.h"
#include "data/pipeline.h"
#include "data/single_thread.h"
#include "data/transforms/chunks.h"
#include "data/transforms/functions.h"
#include "data/transforms/map_position.h"

namespace strata::data::detail {
namespace {

// Cheap elements travel in blocks, so that handing them on costs little for each.
constexpr auto kBlockTime = std::chrono::microseconds(100);
// How long a thread continues before others' work has its turn.
constexpr auto kTurn = std::chrono::milliseconds(1);

/// Consecutive elements of the input, and what the function made of them.
struct Block {
  int64_t first = 0;                       // index of elements[0] in the input
  std::vector<Example> elements;           // empty where no caller needs one
  int64_t needed = 0;                      // how many are
  std::vector<std::exception_ptr> errors;  // instead of elements; as many as matter
  bool end = false;                        // of the input, behind the elements
  bool done = false;
  int64_t bytes = 0;

  void clear() {
    elements.clear();
    needed = 0;
    errors.clear();
    end = done = false;
    bytes = 0;
  }
  void fail(size_t i) {
    errors.resize(elements.size());
    errors[i] = std::current_exception();
  }
  bool failed(size_t i) const { return i < errors.size() && errors[i]; }
};

/// Threads take turns to read a block of the input, then work on their blocks at once. The
/// consumer gets the blocks in order (or those that are done, if order is free); where it must wait
/// and no thread has begun, it makes a block itself.
class ParallelMapStream final : public ExampleStream, private Worker {
 public:
  ParallelMapStream(std::unique_ptr<ExampleStream> input, const KeyedMapFunction& fn,
                    const MapOptions& options, const ElementKey& first)
      : pipeline_(Pipeline::current()),
        input_(std::move(input)),
        fn_(fn),
        key_(first),
        parallel_(pipeline_.num_parallel(options.num_parallel_calls)),
        ordered_(pipeline_.deterministic(options.deterministic)) {}

  ~ParallelMapStream() {
    MutexLock lock(mutex_);
    stop_ = true;
    working_ -= pipeline_.threads().cancel(*this);
    // Each thread ends with its element.
    idle_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return working_ == 0; });
    for (const auto& block : blocks_) pipeline_.add_buffered(-block->bytes);
  }

  bool next(Example& out) override {
    while (true) {
      if (current_ && offset_ < current_->elements.size()) {
        const size_t i = offset_++;
        given_.add(current_->first + static_cast<int64_t>(i));
        if (current_->failed(i)) std::rethrow_exception(current_->errors[i]);
        out = std::move(current_->elements[i]);
        return true;
      }
      if (ended_) return false;
      if (current_) {
        ended_ = current_->end && (ordered_ || all_taken());
        if (ended_) return false;
      }
      take_block();
    }
  }

  // Not checked: no thread has begun.
  int64_t skip(int64_t count) override STRATA_NO_THREAD_SAFETY_ANALYSIS {
    if (started_ || !skip_ranges_.empty()) return ExampleStream::skip(count);
    int64_t skipped = 0;
    while (skipped < count) {
      if (read_ >= next_chunk_) chunks_.add(begin_chunk());
      const int64_t step = std::min(count - skipped, next_chunk_ - read_);
      const int64_t passed = input_->skip(step);
      read_ += passed;
      skipped += passed;
      given_ = EmittedSet(read_);
      chunks_.drop_passed(read_);
      if (passed < step) break;
    }
    return skipped;
  }

  void prune(const NeededElements& needed) override {
    if (!ordered_ || !skip_ranges_.empty()) return;  // `next` does not count as the input does
    needed_ = needed;
    needed_from_ = read_;
    input_->prune(needed);
  }

  Position position() const override {
    const MutexLock lock(mutex_);
    chunks_.drop_passed(given_.frontier());
    if (chunks_.empty()) {  // nothing has been read, so no other thread uses the input
      return MapPosition{.first = given_.frontier()}.to_position(input_->position());
    }
    const Chunk& chunk = chunks_.front();
    return MapPosition{
        .first = chunk.first, .since = given_.frontier() - chunk.first, .ahead = given_.ahead()}
        .to_position(chunk.position);
  }

  // Not checked: no thread has begun.
  void restore(const Position& position) override STRATA_NO_THREAD_SAFETY_ANALYSIS {
    const auto saved = MapPosition::from_position(position);
    input_->restore(position.children()[0]);
    STRATA_CHECK(input_->skip(saved.since) == saved.since, kInvalidArgument,
                 "[data] restore: the map's input has fewer elements than when the position was "
                 "saved; the source has changed");
    given_ = saved.given();
    read_ = given_.frontier();
    next_chunk_ = next_chunk(saved.first);
    skip_ranges_ = {saved.ahead.rbegin(), saved.ahead.rend()};
    chunks_.add({position.children()[0], saved.first});
  }

 private:
  // ---- the consumer ----

  void take_block() {
    MutexLock lock(mutex_);
    started_ = true;
    if (current_) free_.push_back(std::move(current_));
    offset_ = 0;
    chunks_.drop_passed(given_.frontier());
    schedule();
    while (true) {
      const auto block = ordered_ ? blocks_.begin()
                                  : std::find_if(blocks_.begin(), blocks_.end(),
                                                 [](const auto& each) { return each->done; });
      if (block != blocks_.end() && (*block)->done) {
        current_ = std::move(*block);
        blocks_.erase(block);
        full_blocks_ -= current_->needed > 0 ? 1 : 0;
        pipeline_.add_buffered(-current_->bytes);
        schedule();
        return;
      }
      if (blocks_.empty() && !input_ended_) {
        const SingleThreadScope scope;
        make_block();
        continue;
      }
      STRATA_DCHECK(!blocks_.empty());
      const BlockedTimer timer;
      done_.wait(lock);  // ends, since a thread is at it
    }
  }

  // Where order is free, the block with the end need not be the last.
  bool all_taken() {
    const MutexLock lock(mutex_);
    if (blocks_.empty()) return true;
    blocks_.back()->end = true;
    return false;
  }

  // ---- the consumer and threads ----

  void work() override {
    const auto begin = WorkTimer::Clock::now();
    MutexLock lock(mutex_);
    queued_ = false;
    while (may_begin() && has_room() && WorkTimer::Clock::now() - begin < kTurn) make_block();
    --working_;
    schedule();
    if (stop_) idle_.notify_all();
  }

  bool may_begin() const STRATA_REQUIRES(mutex_) { return !stop_ && !input_ended_ && !reading_; }

  bool has_room() const STRATA_REQUIRES(mutex_) {
    return blocks_.empty() || (full_blocks_ < 2 * parallel_ && pipeline_.has_room());
  }

  void schedule() STRATA_REQUIRES(mutex_) {
    if (queued_ || working_ >= parallel_ || !may_begin() || !has_room()) return;
    queued_ = true;
    ++working_;
    pipeline_.threads().submit(*this);
  }

  // Unlocks meanwhile.
  void make_block() STRATA_REQUIRES(mutex_) {
    reading_ = true;
    if (free_.empty()) free_.push_back(std::make_unique<Block>());
    blocks_.push_back(std::move(free_.back()));
    free_.pop_back();
    Block& block = *blocks_.back();
    block.clear();
    const int64_t size = block_size_;

    WorkTimer::Clock::time_point begin;
    std::optional<Chunk> chunk;
    {
      const MutexUnlock unlocked(mutex_);
      begin = WorkTimer::Clock::now();
      chunk = read_block(block, size);
    }
    if (chunk) chunks_.add(std::move(*chunk));
    reading_ = false;
    input_ended_ = block.end;
    full_blocks_ += block.needed > 0 ? 1 : 0;
    schedule();  // the next block can be read while this one is worked on

    WorkTimer::Clock::duration time;
    {
      const MutexUnlock unlocked(mutex_);
      run_block(block);
      time = WorkTimer::Clock::now() - begin;
    }
    if (block.needed > 0) adapt_block_size(size, time);
    block.done = true;
    pipeline_.add_buffered(block.bytes);
    done_.notify_one();
  }

  void adapt_block_size(int64_t size, WorkTimer::Clock::duration time) STRATA_REQUIRES(mutex_) {
    if (time > 2 * kBlockTime)
      block_size_ = std::max<int64_t>(1, std::min(block_size_, size / 2));
    else if (time * 2 < kBlockTime)
      block_size_ = std::min(kChunk, std::max(block_size_, size * 2));
  }

  // Only one thread at a time reads, so these members need no lock: input_, read_, skip_ranges_,
  // next_chunk_.
  std::optional<Chunk> read_block(Block& block, int64_t size) {
    while (!skip_ranges_.empty() && skip_ranges_.back().first == read_) {
      input_->skip(skip_ranges_.back().second - read_);
      read_ = skip_ranges_.back().second;
      skip_ranges_.pop_back();
    }
    block.first = read_;
    std::optional<Chunk> chunk;
    if (read_ >= next_chunk_) chunk = begin_chunk();
    int64_t end = next_chunk_;
    if (!skip_ranges_.empty()) end = std::min(end, skip_ranges_.back().first);
    while (read_ < end && block.needed < size && !block.end) read_element(block);
    return chunk;
  }

  void read_element(Block& block) {
    const bool needed = is_needed(read_);
    block.elements.emplace_back();
    try {
      block.end = needed ? !input_->next(block.elements.back()) : input_->skip(1) == 0;
    } catch (...) {
      block.fail(block.elements.size() - 1);
    }
    if (block.end) {
      block.elements.pop_back();
      return;
    }
    block.needed += needed ? 1 : 0;
    ++read_;
  }

  bool is_needed(int64_t index) const { return !needed_ || needed_->has(index - needed_from_); }

  void run_block(Block& block) {
    ElementKey key = key_;
    for (size_t i = 0; i < block.elements.size() && !stop_.load(std::memory_order_relaxed); ++i) {
      const int64_t index = block.first + static_cast<int64_t>(i);
      if (block.failed(i) || !is_needed(index)) continue;
      key.index = static_cast<uint64_t>(index);
      Example& element = block.elements[i];
      try {
        element = fn_(std::move(element), key);
        block.bytes += bytes_of(element);
      } catch (...) {
        block.fail(i);
      }
    }
  }

  Chunk begin_chunk() {
    next_chunk_ = next_chunk(read_);
    return {input_->position(), read_};
  }

  Pipeline& pipeline_;
  std::unique_ptr<ExampleStream> input_;
  const KeyedMapFunction& fn_;
  const ElementKey key_;
  const int64_t parallel_;
  const bool ordered_;
  std::optional<NeededElements> needed_;  // as all threads find it when they begin; none: all
  int64_t needed_from_ = 0;

  // The reader's.
  int64_t read_ = 0;                               // elements of the input
  int64_t next_chunk_ = 0;                         // where the next position is taken
  std::vector<EmittedSet::Interval> skip_ranges_;  // from the back

  // The consumer's.
  EmittedSet given_;
  std::unique_ptr<Block> current_;
  size_t offset_ = 0;
  bool started_ = false;
  bool ended_ = false;

  mutable Mutex mutex_;
  ConditionVariable done_, idle_;
  mutable Chunks chunks_ STRATA_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Block>> blocks_ STRATA_GUARDED_BY(mutex_);
  // Of blocks_, those with an element that is needed.
  int64_t full_blocks_ STRATA_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Block>> free_ STRATA_GUARDED_BY(mutex_);
  int64_t block_size_ STRATA_GUARDED_BY(mutex_) = 1;
  int64_t working_ STRATA_GUARDED_BY(mutex_) = 0;  // threads at it, or called
  bool queued_ STRATA_GUARDED_BY(mutex_) = false;  // one is called and has not begun
  bool reading_ STRATA_GUARDED_BY(mutex_) = false;
  bool input_ended_ STRATA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_ = false;
};

class ParallelMapSource final : public TransformSource {
 public:
  ParallelMapSource(SourcePtr input, KeyedMapFunction fn, bool keyed, const MapOptions& options)
      : TransformSource(std::move(input)), fn_(std::move(fn)), keyed_(keyed), options_(options) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    const ElementKey first{.seed = options_.seed, .epoch = epoch, .stage = input().num_shuffles()};
    return std::make_unique<ParallelMapStream>(input().examples(epoch), fn_, options_, first);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  uint64_t num_shuffles() const override { return input().num_shuffles() + (keyed_ ? 1 : 0); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_parallel_map(std::move(inputs[0]), fn_, keyed_, options_);
  }

 private:
  KeyedMapFunction fn_;
  bool keyed_;
  MapOptions options_;
};

}  // namespace

SourcePtr make_parallel_map(SourcePtr input, KeyedMapFunction fn, bool keyed,
                            const MapOptions& options) {
  return std::make_shared<ParallelMapSource>(std::move(input), std::move(fn), keyed, options);
}

}  // namespace strata::data::detail
