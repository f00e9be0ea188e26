#include "strata/summary/trace_recorder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/core/error.h"

namespace strata::summary {
namespace {

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

// The system's own ids of threads are used again.
uint64_t thread_id() {
  thread_local const uint64_t id = next_id();
  return id;
}

}  // namespace

// One a thread and recorder. The lock is free but for `take`.
struct TraceRecorder::Buffer {
  std::string thread;  // its name
  Mutex mutex;
  std::vector<TraceSpan> spans STRATA_GUARDED_BY(mutex);
  int64_t dropped STRATA_GUARDED_BY(mutex) = 0;
};

class TraceRecorder::Impl {
 public:
  explicit Impl(const TraceRecorderOptions& options)
      : start_(steady_ns()),
        wall_start_(std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count()),
        max_spans_(static_cast<size_t>(options.max_spans_per_thread)) {}

  int64_t now() const { return steady_ns() - start_; }

  void add(std::string_view name, int64_t begin, int64_t end) {
    Buffer& buffer = thread_buffer();
    const MutexLock lock(buffer.mutex);
    if (buffer.spans.size() < max_spans_) {
      buffer.spans.push_back({std::string(name), begin, end - begin});
    } else {
      ++buffer.dropped;
    }
  }

  Trace take() {
    Trace trace{.start_ns = wall_start_, .threads = {}, .dropped = 0};
    const MutexLock all(mutex_);
    for (const auto& [id, buffer] : buffers_) {
      TraceThread thread;
      const MutexLock lock(buffer->mutex);
      thread.name = buffer->thread;
      thread.spans.swap(buffer->spans);
      trace.dropped += std::exchange(buffer->dropped, 0);
      if (!thread.spans.empty()) trace.threads.push_back(std::move(thread));
    }
    return trace;
  }

 private:
  // The calling thread's buffer: the one it used last, or else a look-up.
  Buffer& thread_buffer() {
    struct Last {
      uint64_t recorder = 0;
      std::shared_ptr<Buffer> buffer;
    };
    thread_local Last last;
    if (last.recorder != id_) [[unlikely]] {
      const MutexLock lock(mutex_);
      std::shared_ptr<Buffer>& buffer = buffers_[thread_id()];
      if (!buffer) {
        buffer = std::make_shared<Buffer>();
        buffer->thread = thread_name();
      }
      last = {id_, buffer};
    }
    return *last.buffer;
  }

  const uint64_t id_ = next_id();
  const int64_t start_;
  const int64_t wall_start_;
  const size_t max_spans_;
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Buffer>> buffers_ STRATA_GUARDED_BY(mutex_);  // by thread
};

TraceRecorder::TraceRecorder(const TraceRecorderOptions& options) {
  STRATA_CHECK(options.max_spans_per_thread > 0, kInvalidArgument,
               "[summary] TraceRecorder: got max_spans_per_thread ", options.max_spans_per_thread,
               "; expected at least 1");
  impl_ = std::make_unique<Impl>(options);
}
TraceRecorder::~TraceRecorder() = default;

int64_t TraceRecorder::now() const { return impl_->now(); }

void TraceRecorder::add(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  STRATA_CHECK(end_ns >= begin_ns, kInvalidArgument, "[summary] TraceRecorder::add: ", name,
               ": got an end ", begin_ns - end_ns, " ns before its beginning; expected it behind");
  impl_->add(name, begin_ns, end_ns);
}

Trace TraceRecorder::take() { return impl_->take(); }

TraceRecorder::Scope::Scope(TraceRecorder* recorder, std::string_view name) : recorder_(recorder) {
  if (!recorder_) return;
  name_ = name;
  begin_ = recorder_->impl_->now();
}

TraceRecorder::Scope::~Scope() {
  if (recorder_) recorder_->impl_->add(name_, begin_, recorder_->impl_->now());
}

}  // namespace strata::summary
