#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/needed_elements.h"
#include "strata/core/error.h"
#include "strata/data/example.h"
#include "strata/data/iterator.h"
#include "strata/data/options.h"

// What every source and transform implements. A Source is immutable and shared; a Stream is one
// pass over it. Streams refer to their source: the owner of a stream keeps the source alive
// (Iterator does).
namespace strata::data::detail {

/// One pass over elements of type T: Example, or int64_t for row numbers of in-memory sources.
template <class T>
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// An element whose making throws is an element like others: the exception comes instead of it,
  /// and the next call continues behind it. So positions are exact behind errors, too.
  /// @return false at the end, and ever after.
  virtual bool next(T& out) = 0;

  /// Passes over up to `count` elements, if it can without making them; those whose making would
  /// throw count, and do not throw. @return how many there were.
  virtual int64_t skip(int64_t count) {
    T passed{};
    int64_t skipped = 0;
    for (; skipped < count; ++skipped) {
      try {
        if (!next(passed)) break;
      } catch (...) {
      }
    }
    return skipped;
  }

  /// Promises, before the first `next` or `skip`, that from here on `next` is called for these
  /// elements alone, and `skip` for the others: who works ahead need not make them.
  virtual void prune(const NeededElements&) {}

  /// Of the element after the last one that `next` gave or `skip` passed.
  virtual Position position() const = 0;

  /// Called on fresh streams only, at most once, with what `position` of an equal source's stream
  /// gave.
  virtual void restore(const Position& position) = 0;
};

using ExampleStream = Stream<Example>;
using IndexStream = Stream<int64_t>;

/// Elements that can be had by number at once.
class Rows {
 public:
  virtual ~Rows() = default;

  virtual int64_t size() const = 0;
  virtual Example row(int64_t index) const = 0;

  /// The rows of `indices`, stacked: fresh tensors.
  virtual Example gather(std::span<const int64_t> indices) const = 0;

  /// Changes with every write into the rows in place.
  virtual int64_t version() const = 0;

  /// Of one row.
  virtual std::optional<ElementSpec> spec() const { return std::nullopt; }
};

class BatchSlices;
class Source;
using SourcePtr = std::shared_ptr<const Source>;

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  virtual std::unique_ptr<ExampleStream> examples(uint64_t epoch) const = 0;

  /// Not null if every element is a row of it; then `indices` gives their numbers in order.
  virtual const Rows* rows() const { return nullptr; }
  virtual std::unique_ptr<IndexStream> indices(uint64_t epoch) const;

  virtual int64_t cardinality() const = 0;
  virtual std::optional<int64_t> batch_size() const { return std::nullopt; }
  virtual std::optional<ElementSpec> element_spec() const;

  /// How many random transforms the elements went through; tells a shuffle of a shuffle from the
  /// first.
  virtual uint64_t num_shuffles() const { return 0; }

  // The graph, for distributions: a dataset is rebuilt with other files, or another shard.

  /// The sources that this one is made of.
  virtual std::vector<SourcePtr> inputs() const { return {}; }
  /// The same made of others; called where `inputs` is not empty.
  virtual SourcePtr with_inputs(std::vector<SourcePtr> inputs) const;
  /// For sources that read files: how many. Then `shard_files` gives the source of files index,
  /// index + num_shards, ...
  virtual int64_t num_files() const { return 0; }
  virtual SourcePtr shard_files(int64_t num_shards, int64_t index) const;
  /// True of `shard(kShardHint, kShardHint)`; `shard_files` then fills in the hint.
  virtual bool is_shard_hint() const { return false; }
  /// The same, but of each batch that it gives there are these parts' rows alone, and the others
  /// are not made where that can be avoided. Null: to know these parts it takes whole batches.
  virtual SourcePtr with_slices(const BatchSlices& parts) const;
  /// What `with_options` set at this very source.
  virtual const Options* own_options() const { return nullptr; }

  /// The epoch of the next range-for.
  uint64_t take_next_epoch() const { return next_epoch_.fetch_add(1, std::memory_order_relaxed); }
  void raise_next_epoch(uint64_t at_least) const;

 private:
  mutable std::atomic<uint64_t> next_epoch_{0};
};

/// The options set at `source` and below; what is nearer to the user, and then the first input,
/// wins.
Options options_of(const Source& source);

template <class T>
std::unique_ptr<Stream<T>> open_stream(const Source& source, uint64_t epoch);

template <>
inline std::unique_ptr<ExampleStream> open_stream<Example>(const Source& source, uint64_t epoch) {
  return source.examples(epoch);
}

template <>
inline std::unique_ptr<IndexStream> open_stream<int64_t>(const Source& source, uint64_t epoch) {
  return source.indices(epoch);
}

/// Views of single rows, in the order of `source.indices(epoch)`.
std::unique_ptr<ExampleStream> open_row_stream(const Source& source, uint64_t epoch);

/// A source made from one other.
class TransformSource : public Source {
 public:
  explicit TransformSource(SourcePtr input) : input_(std::move(input)) {}

  std::vector<SourcePtr> inputs() const override { return {input_}; }
  uint64_t num_shuffles() const override { return input_->num_shuffles(); }

 protected:
  const Source& input() const { return *input_; }
  /// `with_slices` of those that give their input's elements whatever is in them.
  SourcePtr with_slices_of_input(const BatchSlices& parts) const {
    SourcePtr input = input_->with_slices(parts);
    return input ? with_inputs({std::move(input)}) : nullptr;
  }

 private:
  SourcePtr input_;
};

/// A transform that decides which elements come, and in which order, not what is in them: over
/// in-memory sources it moves row numbers. Derived has `template <class T> unique_ptr<Stream<T>>
/// open(epoch) const`.
template <class Derived>
class OrderSource : public TransformSource {
 public:
  using TransformSource::TransformSource;

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    if (rows() != nullptr) return open_row_stream(*this, epoch);
    return derived().template open<Example>(epoch);
  }
  std::unique_ptr<IndexStream> indices(uint64_t epoch) const override {
    return derived().template open<int64_t>(epoch);
  }
  const Rows* rows() const override { return input().rows(); }
  std::optional<int64_t> batch_size() const override { return input().batch_size(); }
  std::optional<ElementSpec> element_spec() const override { return input().element_spec(); }
  SourcePtr with_slices(const BatchSlices& parts) const override {
    return this->with_slices_of_input(parts);
  }

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
};

/// Checks that `position` is `kind`'s, with so many numbers and children. @throws Error
/// kInvalidArgument.
void expect_position(const Position& position, const char* kind, size_t numbers, size_t children);

/// A number out of a position, checked to lie in lowest..highest.
int64_t position_number(const Position& position, size_t index, int64_t lowest, int64_t highest);

// One factory a transform; arguments are checked by Dataset. Those that take functions are in
// functions.h.
SourcePtr make_slices(const Example& tensors, const char* call);
SourcePtr make_single(const Example& tensors);
SourcePtr make_range(int64_t start, int64_t stop, int64_t step);
SourcePtr make_cache(SourcePtr input);
SourcePtr make_file_cache(SourcePtr input, std::string path);
SourcePtr make_shuffle(SourcePtr input, int64_t buffer_size, uint64_t seed, bool reshuffle);
SourcePtr make_repeat(SourcePtr input, int64_t count);
SourcePtr make_take(SourcePtr input, int64_t count);
SourcePtr make_skip(SourcePtr input, int64_t count);
SourcePtr make_shard(SourcePtr input, int64_t num_shards, int64_t index);
SourcePtr make_batch(SourcePtr input, int64_t batch_size, bool drop_remainder);
SourcePtr make_unbatch(SourcePtr input);
SourcePtr make_rebatch(SourcePtr input, std::vector<int64_t> sizes, bool drop_remainder);
/// These parts of each batch, in turn. Rows of other parts are not made where that can be avoided.
SourcePtr make_split(SourcePtr input, const BatchSlices& parts);
SourcePtr make_zip(std::vector<SourcePtr> inputs);
SourcePtr make_concatenate(SourcePtr first, SourcePtr second);
SourcePtr make_enumerate(SourcePtr input, int64_t start);
SourcePtr make_ignore_errors(SourcePtr input);
SourcePtr make_prefetch(SourcePtr input, int64_t buffer_size);
SourcePtr make_options(SourcePtr input, const Options& options);

}  // namespace strata::data::detail
