#include <ATen/ThreadLocalState.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>

#include "data/pipeline.h"
#include "data/single_thread.h"
#include "data/source.h"
#include "strata/core/thread.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

// Of kAutotune; the memory budget ends it earlier.
constexpr size_t kFirstAutoSize = 2, kLargestAutoSize = 1024;

/// Reads its input on a thread of its own, at most `buffer_size` elements ahead of the consumer.
/// What it read carries the input's position right behind it: that, not the producer's, is where
/// the consumer is.
class PrefetchStream final : public ExampleStream {
 public:
  PrefetchStream(std::unique_ptr<ExampleStream> input, int64_t buffer_size)
      : pipeline_(Pipeline::current()),
        input_(std::move(input)),
        grows_(buffer_size == kAutotune),
        position_(input_->position()),
        buffer_size_(grows_ ? kFirstAutoSize : static_cast<size_t>(buffer_size)) {}

  ~PrefetchStream() {
    producer_.request_stop();
    if (producer_.joinable()) producer_.join();
    for (const Item& item : queue_) pipeline_.add_buffered(-item.bytes);
  }

  bool next(Example& out) override {
    if (ended_) return false;
    if (!producer_.joinable()) start();
    Item item = take();
    position_ = std::move(item.position);
    if (item.error) std::rethrow_exception(item.error);
    ended_ = item.end;
    if (ended_) return false;
    out = std::move(item.element);
    return true;
  }

  int64_t skip(int64_t count) override {
    if (producer_.joinable()) return ExampleStream::skip(count);
    const int64_t skipped = input_->skip(count);
    position_ = input_->position();
    return skipped;
  }

  // The input's own: a run may go on with another prefetch, or none.
  Position position() const override { return position_; }

  void restore(const Position& position) override {
    input_->restore(position);
    position_ = position;
  }

 private:
  struct Item {
    Example element;
    Position position;
    std::exception_ptr error = nullptr;
    bool end = false;
    int64_t bytes = 0;
  };

  void start() {
    producer_ =
        Thread("strata-prefetch", [this, state = at::ThreadLocalState()](std::stop_token stop) {
          const at::ThreadLocalStateGuard guard(state);
          const PipelineScope scope(pipeline_);
          use_single_thread();
          bool more = true;
          while (more && !stop.stop_requested()) {
            Item item = produce();
            more = !item.end;
            if (!put(std::move(item), stop)) return;
          }
        });
  }

  Item produce() {
    const WorkTimer timer(pipeline_);
    Item item;
    try {
      item.end = !input_->next(item.element);
      item.position = input_->position();
      item.bytes = bytes_of(item.element);
    } catch (...) {
      // Handed on in its place in the sequence; the consumer decides whether to go on behind it.
      item.error = std::current_exception();
      item.position = input_->position();
    }
    return item;
  }

  // @return false: the consumer is gone.
  bool put(Item item, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    // What others hold of the memory budget may go unseen; this queue's consumer always wakes us.
    const auto has_room = [&] {
      was_full_ = was_full_ || queue_.size() >= buffer_size_;
      return queue_.empty() || (queue_.size() < buffer_size_ && pipeline_.has_room());
    };
    if (!room_.wait(lock, stop, has_room)) return false;
    pipeline_.add_buffered(item.bytes);
    queue_.push_back(std::move(item));
    lock.unlock();
    filled_.notify_one();
    return true;
  }

  // Ends because the producer always puts: an element, an error or the end.
  Item take() {
    std::unique_lock lock(mutex_);
    if (queue_.empty()) {
      // Once full and now empty: elements come in fits, or are taken so.
      if (grows_ && was_full_ && buffer_size_ < kLargestAutoSize) buffer_size_ *= 2;
      was_full_ = false;
      const BlockedTimer timer;
      filled_.wait(lock, [&] { return !queue_.empty(); });
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
  Position position_;
  bool ended_ = false;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Item> queue_;
  size_t buffer_size_;
  bool was_full_ = false;
  std::condition_variable_any room_;
  std::condition_variable filled_;

  Thread producer_;  // last: joined before the rest goes
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

 private:
  int64_t buffer_size_;
};

}  // namespace

SourcePtr make_prefetch(SourcePtr input, int64_t buffer_size) {
  return std::make_shared<PrefetchSource>(std::move(input), buffer_size);
}

}  // namespace strata::data::detail
