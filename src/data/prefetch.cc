#include <ATen/ThreadLocalState.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>

#include "data/single_thread.h"
#include "data/source.h"
#include "strata/core/thread.h"

namespace strata::data::detail {
namespace {

/// Reads its input on a thread of its own, at most `buffer_size` elements ahead of the consumer.
/// What it read carries the input's position right behind it: that, not the producer's, is where
/// the consumer is.
class PrefetchStream final : public ExampleStream {
 public:
  PrefetchStream(std::unique_ptr<ExampleStream> input, size_t buffer_size)
      : input_(std::move(input)), buffer_size_(buffer_size), position_(input_->position()) {}

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

  Position position() const override { return Position("prefetch", {}, {position_}); }

  void restore(const Position& position) override {
    expect_position(position, "prefetch", 0, 1);
    input_->restore(position.children()[0]);
    position_ = position.children()[0];
  }

 private:
  struct Item {
    Example element;
    Position position;
    std::exception_ptr error = nullptr;
    bool end = false;
  };

  void start() {
    producer_ =
        Thread("strata-prefetch", [this, state = at::ThreadLocalState()](std::stop_token stop) {
          const at::ThreadLocalStateGuard guard(state);
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
    Item item;
    try {
      item.end = !input_->next(item.element);
      item.position = input_->position();
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
    if (!room_.wait(lock, stop, [&] { return queue_.size() < buffer_size_; })) return false;
    queue_.push_back(std::move(item));
    lock.unlock();
    filled_.notify_one();
    return true;
  }

  // Ends because the producer always puts: an element, an error or the end.
  Item take() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !queue_.empty(); });
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  std::unique_ptr<ExampleStream> input_;  // the producer's, once it runs
  const size_t buffer_size_;

  // The consumer's.
  Position position_;
  bool ended_ = false;

  std::mutex mutex_;
  std::deque<Item> queue_;  // guarded by mutex_
  std::condition_variable_any room_;
  std::condition_variable filled_;

  Thread producer_;  // last: joined before the rest goes
};

class PrefetchSource final : public Source {
 public:
  PrefetchSource(SourcePtr input, int64_t buffer_size)
      : input_(std::move(input)), buffer_size_(buffer_size) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<PrefetchStream>(input_->examples(epoch),
                                            static_cast<size_t>(buffer_size_));
  }
  int64_t cardinality() const override { return input_->cardinality(); }
  std::optional<int64_t> batch_size() const override { return input_->batch_size(); }
  uint64_t num_shuffles() const override { return input_->num_shuffles(); }

 private:
  SourcePtr input_;
  int64_t buffer_size_;
};

}  // namespace

SourcePtr make_prefetch(SourcePtr input, int64_t buffer_size) {
  return std::make_shared<PrefetchSource>(std::move(input), buffer_size);
}

}  // namespace strata::data::detail
