#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <optional>
#include <stop_token>

#include "core/mutex.h"
#include "core/thread.h"
#include "data/pipeline.h"
#include "data/single_thread.h"
#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

using std::chrono::nanoseconds;

// Of kAutotune; the memory budget ends it earlier.
constexpr size_t kFirstAutoSize = 2, kLargestAutoSize = 1024;

// To hand an element over, two threads wake each other: some 10 us of each, in which they do not
// train. kAutotune has a thread from a mean of the first on (over kMeanOver elements, newer ones
// weigh more), and none any more when most of kFirstPatience elements took less than the second.
constexpr nanoseconds kWorthAThread = std::chrono::microseconds(50);
constexpr int kMeanOver = 16;
constexpr nanoseconds kCheap = std::chrono::microseconds(25);
constexpr int64_t kFirstPatience = 64, kMaxPatience = int64_t{1} << 30;

/// Reads its input on a thread of its own, at most `buffer_size` elements ahead of the consumer.
/// What it read carries the input's position right behind it: that, not the producer's, is where
/// the consumer is. With kAutotune the thread is there only while elements are worth one; else the
/// consumer makes them, with the same bits.
class PrefetchStream final : public ExampleStream {
 public:
  PrefetchStream(std::unique_ptr<ExampleStream> input, int64_t buffer_size)
      : pipeline_(Pipeline::current()),
        input_(std::move(input)),
        grows_(buffer_size == kAutotune),
        buffer_size_(grows_ ? kFirstAutoSize : static_cast<size_t>(buffer_size)) {}

  ~PrefetchStream() {
    producer_.request_stop();
    if (producer_.joinable()) producer_.join();
    for (const Item& item : queue_) pipeline_.add_buffered(-item.bytes);
  }

  bool next(Example& out) override {
    if (ended_) return false;
    Item item = next_item();
    if (item.error) std::rethrow_exception(item.error);
    ended_ = item.end;
    if (ended_) return false;
    out = std::move(item.element);
    return true;
  }

  int64_t skip(int64_t count) override {
    if (producer_.joinable()) return ExampleStream::skip(count);
    return input_->skip(count);
  }

  // The input's own: a run may go on with another prefetch, or none.
  Position position() const override {
    return producer_.joinable() ? position_ : input_->position();
  }

  void restore(const Position& position) override { input_->restore(position); }

 private:
  struct Item {
    Example element;
    Position position;
    std::exception_ptr error = nullptr;
    bool end = false;
    int64_t bytes = 0;
    nanoseconds time{0};  // to make it
  };

  Item next_item() {
    if (!producer_.joinable() && !grows_) start();
    if (producer_.joinable()) {
      if (std::optional<Item> item = take()) {
        position_ = std::move(item->position);
        return *std::move(item);
      }
      producer_.join();
    }
    const SingleThreadScope alone;
    Item item = produce();
    // One alone, which may just have lost its core to others, does not decide.
    mean_time_ += (std::min(item.time, kMeanOver * kWorthAThread) - mean_time_) / kMeanOver;
    if (mean_time_ > kWorthAThread && !item.end) start();
    return item;
  }

  void start() {
    position_ = input_->position();
    mean_time_ = {};
    {
      const MutexLock lock(mutex_);
      retired_ = false;
    }
    producer_ =
        Thread("strata-prefetch", [this, state = at::ThreadLocalState()](std::stop_token stop) {
          const at::ThreadLocalStateGuard guard(state);
          const PipelineScope scope(pipeline_);
          use_single_thread();
          bool more = true;
          while (more && !stop.stop_requested()) {
            Item item = produce();
            item.position = input_->position();
            item.bytes = bytes_of(item.element);
            const bool last = item.end || (grows_ && is_cheap_work(item.time));
            more = put(std::move(item), last, stop) && !last;
          }
        });
  }

  /// Called by the producer: whether this element's consumer should make the next ones.
  bool is_cheap_work(nanoseconds time) {
    ++made_;
    cheap_ += time < kCheap ? 1 : 0;
    if (made_ < patience_) return false;
    // A few may be slow because others had the core meanwhile.
    const bool cheap = cheap_ * 16 >= made_ * 15;
    if (cheap && patience_ < kMaxPatience) patience_ *= 2;  // no coming and going
    made_ = cheap_ = 0;
    return cheap;
  }

  Item produce() {
    const WorkTimer timer(pipeline_);
    Item item;
    try {
      item.end = !input_->next(item.element);
    } catch (...) {
      // Handed on in its place in the sequence; the consumer decides whether to go on behind it.
      item.error = std::current_exception();
    }
    item.time = WorkTimer::Clock::now() - timer.begin();
    return item;
  }

  // @return false: the consumer has ended.
  bool put(Item item, bool last, const std::stop_token& stop) {
    MutexLock lock(mutex_);
    // What others hold of the memory budget may go unseen; this queue's consumer always wakes us.
    const auto has_room = [&]() STRATA_REQUIRES(mutex_) {
      was_full_ = was_full_ || queue_.size() >= buffer_size_;
      return queue_.empty() || (queue_.size() < buffer_size_ && pipeline_.has_room());
    };
    if (!room_.wait(lock, stop, has_room)) return false;
    pipeline_.add_buffered(item.bytes);
    queue_.push_back(std::move(item));
    retired_ = last;
    lock.unlock();
    filled_.notify_one();
    return true;
  }

  // Ends because the producer puts until it retires: an element, an error or the end.
  // @return nothing: it has retired.
  std::optional<Item> take() {
    MutexLock lock(mutex_);
    if (queue_.empty() && retired_) return std::nullopt;
    if (queue_.empty()) {
      // Once full and now empty: elements come in fits, or are taken so.
      if (grows_ && was_full_ && buffer_size_ < kLargestAutoSize) buffer_size_ *= 2;
      was_full_ = false;
      const BlockedTimer timer;
      filled_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return !queue_.empty(); });
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    pipeline_.add_buffered(-item.bytes);
    lock.unlock();
    room_.notify_one();
    return item;
  }

  Pipeline& pipeline_;
  std::unique_ptr<ExampleStream> input_;  // the producer's, once it runs
  const bool grows_;

  // The consumer's.
  Position position_;  // where it is while there is a producer
  nanoseconds mean_time_{0};
  bool ended_ = false;

  // The producer's.
  int64_t patience_ = kFirstPatience;
  int64_t made_ = 0;
  int64_t cheap_ = 0;

  Mutex mutex_;
  std::deque<Item> queue_ STRATA_GUARDED_BY(mutex_);
  size_t buffer_size_ STRATA_GUARDED_BY(mutex_);
  bool was_full_ STRATA_GUARDED_BY(mutex_) = false;
  bool retired_ STRATA_GUARDED_BY(mutex_) = false;  // no more comes into the queue
  std::condition_variable_any room_;
  ConditionVariable filled_;

  Thread producer_;  // last: joined before the rest is destroyed
};

class PrefetchSource final : public TransformSource {
 public:
  PrefetchSource(SourcePtr input, int64_t buffer_size)
      : TransformSource(std::move(input)), buffer_size_(buffer_size) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<PrefetchStream>(input().examples(epoch), buffer_size_);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  std::optional<int64_t> batch_size() const override { return input().batch_size(); }
  std::optional<ElementSpec> element_spec() const override { return input().element_spec(); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_prefetch(std::move(inputs[0]), buffer_size_);
  }
  SourcePtr with_slices(const BatchSlices& parts) const override {
    return with_slices_of_input(parts);
  }

 private:
  int64_t buffer_size_;
};

}  // namespace

SourcePtr make_prefetch(SourcePtr input, int64_t buffer_size) {
  return std::make_shared<PrefetchSource>(std::move(input), buffer_size);
}

}  // namespace strata::data::detail
