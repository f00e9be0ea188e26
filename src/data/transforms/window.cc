#include <deque>
#include <exception>
#include <limits>

#include "data/copy_rows.h"
#include "data/element_specs.h"
#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

/// Calls a function with the elements of each window. Its position is the input's before the next
/// window, and how many elements lie between (windows may have gaps).
class Windows {
 public:
  Windows(std::unique_ptr<ExampleStream> input, const WindowOptions& options)
      : input_(std::move(input)), options_(options) {}

  /// @return false: no window is left.
  bool next(std::vector<Example>& window) {
    const int64_t reach = (options_.size - 1) * options_.stride + 1;
    pass_gap();
    while (static_cast<int64_t>(buffer_.size()) < reach && read()) {
    }
    const auto held = static_cast<int64_t>(buffer_.size());
    if (held == 0 || (held < reach && options_.drop_remainder)) return false;
    window.clear();
    std::exception_ptr error;
    for (int64_t i = 0; i < std::min(held, reach); i += options_.stride) {
      const Slot& slot = buffer_[static_cast<size_t>(i)];
      if (!error) error = slot.error;
      window.push_back(slot.element);
    }
    const int64_t drop = std::min(options_.shift, held);
    buffer_.erase(buffer_.begin(), buffer_.begin() + drop);
    gap_ = options_.shift - drop;
    until_start_ -= drop;
    if (error) std::rethrow_exception(error);  // of each window that has this element
    return true;
  }

  Position position(const char* kind) const {
    if (buffer_.empty()) return Position(kind, {gap_}, {input_->position()});
    return Position(kind, {0}, {*buffer_.front().before});
  }

  void restore(const Position& position, const char* kind) {
    expect_position(position, kind, 1, 1);
    gap_ = position_number(position, 0, 0, options_.shift);
    input_->restore(position.children()[0]);
  }

 private:
  struct Slot {
    Example element = {};
    std::exception_ptr error = nullptr;             // instead of the element
    std::optional<Position> before = std::nullopt;  // of windows' first elements
  };

  void pass_gap() {
    if (gap_ > 0) input_->skip(gap_);
    gap_ = 0;
    if (buffer_.empty()) until_start_ = 0;
  }

  bool read() {
    if (ended_) return false;
    Slot slot;
    const bool starts = static_cast<int64_t>(buffer_.size()) == until_start_;
    if (starts) slot.before = input_->position();
    try {
      ended_ = !input_->next(slot.element);
    } catch (...) {
      slot.error = std::current_exception();
    }
    if (ended_) return false;
    buffer_.push_back(std::move(slot));
    if (starts) until_start_ += options_.shift;
    return true;
  }

  std::unique_ptr<ExampleStream> input_;
  const WindowOptions options_;
  std::deque<Slot> buffer_;  // from the next window's first element
  int64_t until_start_ = 0;  // buffer index of the first window that has not been read
  int64_t gap_ = 0;          // elements before the next window's first
  bool ended_ = false;
};

class WindowStream final : public ExampleStream {
 public:
  WindowStream(std::unique_ptr<ExampleStream> input, const WindowOptions& options)
      : windows_(std::move(input), options) {}

  bool next(Example& out) override {
    if (!windows_.next(window_)) return false;
    out = stack_examples(window_);
    window_.clear();
    return true;
  }
  Position position() const override { return windows_.position("window"); }
  void restore(const Position& position) override { windows_.restore(position, "window"); }

 private:
  Windows windows_;
  std::vector<Example> window_;
};

class WindowSource final : public TransformSource {
 public:
  WindowSource(SourcePtr input, const WindowOptions& options)
      : TransformSource(std::move(input)), options_(options) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<WindowStream>(input().examples(epoch), options_);
  }
  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (n < 0) return n;
    if (!options_.drop_remainder) return (n + options_.shift - 1) / options_.shift;
    const int64_t reach = (options_.size - 1) * options_.stride + 1;
    return n < reach ? 0 : (n - reach) / options_.shift + 1;
  }
  std::optional<ElementSpec> element_spec() const override {
    return batched_spec(input().element_spec(), options_.drop_remainder ? options_.size : -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_window(std::move(inputs[0]), options_);
  }

 private:
  WindowOptions options_;
};

/// The elements of what a function makes of each window.
class WindowMapStream final : public ExampleStream {
 public:
  WindowMapStream(std::unique_ptr<ExampleStream> input, const WindowOptions& options,
                  const WindowFunction& fn, uint64_t epoch)
      : windows_(std::move(input), options), fn_(fn), epoch_(epoch) {}

  bool next(Example& out) override {
    while (true) {
      if (stream_ != nullptr && stream_->next(out)) return true;
      stream_ = nullptr;
      if (!open()) return false;
    }
  }

  // The window being given is read again by a restore.
  Position position() const override {
    if (stream_ == nullptr) return windows_.position("window_map");
    return Position("window_map_in", {}, {before_, stream_->position()});
  }

  void restore(const Position& position) override {
    if (position.kind() != "window_map_in") return windows_.restore(position, "window_map");
    expect_position(position, "window_map_in", 0, 2);
    windows_.restore(position.children()[0], "window_map");
    STRATA_CHECK(open(), kInvalidArgument,
                 "[data] restore: the window's input has fewer elements than when the position "
                 "was saved; the source has changed");
    stream_->restore(position.children()[1]);
  }

 private:
  bool open() {
    Position before = windows_.position("window_map");
    std::vector<Example> window;
    if (!windows_.next(window)) return false;
    SourcePtr source = fn_(Dataset(make_elements(std::move(window)))).source();
    stream_ = source->examples(epoch_);
    source_ = std::move(source);
    before_ = std::move(before);
    return true;
  }

  Windows windows_;
  const WindowFunction& fn_;
  const uint64_t epoch_;
  Position before_;
  SourcePtr source_;  // before stream_, which refers to it
  std::unique_ptr<ExampleStream> stream_;
};

class WindowMapSource final : public TransformSource {
 public:
  WindowMapSource(SourcePtr input, const WindowOptions& options, WindowFunction fn)
      : TransformSource(std::move(input)), options_(options), fn_(std::move(fn)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<WindowMapStream>(input().examples(epoch), options_, fn_, epoch);
  }
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  uint64_t num_shuffles() const override { return input().num_shuffles() + 8; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_window(std::move(inputs[0]), options_, fn_);
  }

 private:
  WindowOptions options_;
  WindowFunction fn_;
};

}  // namespace

SourcePtr make_window(SourcePtr input, const WindowOptions& options) {
  return std::make_shared<WindowSource>(std::move(input), options);
}

SourcePtr make_window(SourcePtr input, const WindowOptions& options, WindowFunction fn) {
  return std::make_shared<WindowMapSource>(std::move(input), options, std::move(fn));
}

}  // namespace strata::data::detail
