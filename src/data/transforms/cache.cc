#include <algorithm>
#include <exception>
#include <limits>

#include "core/mutex.h"
#include "data/copy_rows.h"
#include "data/pipeline.h"
#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

int64_t version_of(const Example& element) {
  int64_t version = 0;
  for (const auto& field : element.fields) version += field.defined() ? tensor_version(field) : 0;
  return version;
}
int64_t version_of(int64_t) { return 0; }

/// What all iterators of a cached dataset share: the elements of epoch 0, read as far as anybody
/// needed.
template <class T>
class CacheStore {
 public:
  explicit CacheStore(const Source& input) : input_(input) {}

  /// Element `index`, reading on to there. @return false: there are fewer.
  bool get(int64_t index, T& out) {
    const MutexLock lock(mutex_);
    if (!read_to(index + 1)) return false;
    Element& element = elements_[static_cast<size_t>(index)];
    if (element.error) std::rethrow_exception(std::exchange(element.error, nullptr));
    if (!element.there) retry(index);
    STRATA_CHECK(version_of(element.value) == element.version, kFailedPrecondition,
                 "[data] cache: element ", index,
                 " was changed in place after it was cached; expected it to stay as it is; clone() "
                 "before an in-place operation");
    out = element.value;
    return true;
  }

  /// How many elements there are, reading on until there are `count`.
  int64_t count_up_to(int64_t count) {
    const MutexLock lock(mutex_);
    if (read_to(count)) return count;
    return static_cast<int64_t>(elements_.size());
  }

 private:
  struct Element {
    T value;
    int64_t version;
    bool there = true;                   // false: making it failed; who asks again tries again
    std::exception_ptr error = nullptr;  // of that, until it was reported
  };

  bool read_to(int64_t count) STRATA_REQUIRES(mutex_) {
    if (static_cast<int64_t>(elements_.size()) >= count) return true;
    if (complete_) return false;
    // The stream outlives the iterator that comes here first, so it has threads of its own.
    if (!pipeline_) pipeline_.emplace(options_of(input_));
    const PipelineScope scope(*pipeline_);
    if (!stream_) stream_ = open_stream<T>(input_, 0);
    while (static_cast<int64_t>(elements_.size()) < count) {
      Element element{T{}, 0};
      try {
        if (!stream_->next(element.value)) {
          complete_ = true;
          stream_ = nullptr;
          return false;
        }
      } catch (...) {
        element.there = false;
        element.error = std::current_exception();
      }
      element.version = version_of(element.value);
      elements_.push_back(std::move(element));
    }
    return true;
  }

  // Makes an element that failed; throws what that throws.
  void retry(int64_t index) STRATA_REQUIRES(mutex_) {
    const PipelineScope scope(*pipeline_);
    const auto stream = open_stream<T>(input_, 0);
    stream->skip(index);
    Element element{T{}, 0};
    STRATA_CHECK(stream->next(element.value), kFailedPrecondition, "[data] cache: element ", index,
                 " failed, and no longer exists; expected the source to stay as it is");
    element.version = version_of(element.value);
    elements_[static_cast<size_t>(index)] = std::move(element);
  }

  Mutex mutex_;
  const Source& input_;
  std::optional<Pipeline> pipeline_ STRATA_GUARDED_BY(mutex_);
  std::unique_ptr<Stream<T>> stream_ STRATA_GUARDED_BY(mutex_);
  std::vector<Element> elements_ STRATA_GUARDED_BY(mutex_);
  bool complete_ STRATA_GUARDED_BY(mutex_) = false;
};

template <class T>
class CacheStream final : public Stream<T> {
 public:
  explicit CacheStream(CacheStore<T>& store) : store_(store) {}

  bool next(T& out) override {
    const int64_t index = next_++;  // whatever is thrown
    if (store_.get(index, out)) return true;
    next_ = index;
    return false;
  }
  int64_t skip(int64_t count) override {
    const int64_t wanted = std::min(count, std::numeric_limits<int64_t>::max() - next_);
    const int64_t skipped = store_.count_up_to(next_ + wanted) - next_;
    next_ += skipped;
    return skipped;
  }
  Position position() const override { return Position("cache", {next_}); }
  void restore(const Position& position) override {
    expect_position(position, "cache", 1, 0);
    next_ = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
  }

 private:
  CacheStore<T>& store_;
  int64_t next_ = 0;
};

class CacheSource final : public OrderSource<CacheSource> {
 public:
  explicit CacheSource(SourcePtr input)
      : OrderSource(std::move(input)), examples_(this->input()), indices_(this->input()) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      return std::make_unique<CacheStream<T>>(indices_);
    } else {
      return std::make_unique<CacheStream<T>>(examples_);
    }
  }

  int64_t cardinality() const override { return input().cardinality(); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_cache(std::move(inputs[0]));
  }
  // Another source would be another cache: who comes next would not find these elements.
  SourcePtr with_slices(const BatchSlices&) const override { return nullptr; }

 private:
  mutable CacheStore<Example> examples_;
  mutable CacheStore<int64_t> indices_;  // instead, over in-memory sources
};

}  // namespace

SourcePtr make_cache(SourcePtr input) { return std::make_shared<CacheSource>(std::move(input)); }

}  // namespace strata::data::detail
