#include <limits>

#include "core/mutex.h"
#include "data/files/cache_file.h"
#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

/// What all iterators of a dataset cached in a file share: the file, once it is complete; until
/// then who writes. Every iterator reads the input for itself, and the one that makes the first
/// element that is not in the file puts it there.
class FileCache {
 public:
  explicit FileCache(std::string path) : path_(std::move(path)) {}

  /// Null while there is no complete file.
  std::shared_ptr<const CacheFile> file() {
    const MutexLock lock(mutex_);
    if (!file_ && !looked_) {
      file_ = CacheFile::open(path_);
      looked_ = true;
    }
    return file_;
  }

  void add(int64_t index, const Example& element) {
    const MutexLock lock(mutex_);
    if (file_ || index != (writer_ ? writer_->size() : 0)) return;
    if (!writer_) writer_ = std::make_unique<CacheFileWriter>(path_);
    write([&](CacheFileWriter& writer) { writer.add(element); });
  }

  /// The input has `count` elements.
  void end(int64_t count) {
    const MutexLock lock(mutex_);
    if (file_ || count != (writer_ ? writer_->size() : 0)) return;
    if (!writer_) writer_ = std::make_unique<CacheFileWriter>(path_);
    write([](CacheFileWriter& writer) { writer.finish(); });
    writer_ = nullptr;
    file_ = CacheFile::open(path_);
  }

 private:
  // After an error the next pass begins a new file.
  template <class Write>
  void write(Write&& write) STRATA_REQUIRES(mutex_) {
    try {
      write(*writer_);
    } catch (...) {
      writer_ = nullptr;
      throw;
    }
  }

  const std::string path_;
  Mutex mutex_;
  std::shared_ptr<const CacheFile> file_ STRATA_GUARDED_BY(mutex_);
  bool looked_ STRATA_GUARDED_BY(mutex_) = false;
  std::unique_ptr<CacheFileWriter> writer_ STRATA_GUARDED_BY(mutex_);
};

class FileCacheStream final : public ExampleStream {
 public:
  FileCacheStream(const Source& input, FileCache& cache)
      : input_source_(input), cache_(cache), file_(cache.file()) {}

  bool next(Example& out) override {
    if (file_) {
      if (next_ >= file_->size()) return false;
      out = file_->read(next_++, window_);
      return true;
    }
    open_input();
    const int64_t index = next_++;  // whatever is thrown
    if (!input_->next(out)) {
      next_ = index;
      cache_.end(next_);
      return false;
    }
    cache_.add(index, out);
    return true;
  }

  int64_t skip(int64_t count) override {
    if (!file_) return started() ? ExampleStream::skip(count) : skip_input(count);
    const int64_t skipped = std::min(count, file_->size() - next_);
    next_ += skipped;
    return skipped;
  }

  Position position() const override { return Position("file_cache", {next_}); }

  void restore(const Position& position) override {
    expect_position(position, "file_cache", 1, 0);
    const int64_t next = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
    STRATA_CHECK(skip(next) == next, kInvalidArgument, "[data] restore: got position ", next,
                 " in a cache with fewer elements; the source has changed");
  }

 private:
  bool started() const { return next_ > 0; }

  void open_input() {
    if (!input_) input_ = input_source_.examples(0);
  }
  // Leaves a gap, so this pass writes nothing.
  int64_t skip_input(int64_t count) {
    open_input();
    const int64_t skipped = input_->skip(count);
    next_ += skipped;
    return skipped;
  }

  const Source& input_source_;
  FileCache& cache_;
  const std::shared_ptr<const CacheFile> file_;  // null: from the input
  CacheFile::Window window_;
  std::unique_ptr<ExampleStream> input_;
  int64_t next_ = 0;
};

class FileCacheSource final : public TransformSource {
 public:
  FileCacheSource(SourcePtr input, std::string path)
      : TransformSource(std::move(input)), path_(path), cache_(std::move(path)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t) const override {
    return std::make_unique<FileCacheStream>(input(), cache_);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  std::optional<int64_t> batch_size() const override { return input().batch_size(); }
  std::optional<ElementSpec> element_spec() const override { return input().element_spec(); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_file_cache(std::move(inputs[0]), path_);
  }

 private:
  std::string path_;
  mutable FileCache cache_;
};

}  // namespace

SourcePtr make_file_cache(SourcePtr input, std::string path) {
  return std::make_shared<FileCacheSource>(std::move(input), std::move(path));
}

}  // namespace strata::data::detail
