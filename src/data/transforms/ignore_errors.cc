#include <limits>

#include "data/pipeline.h"
#include "data/source.h"
#include "strata/core/log.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class IgnoreErrorsStream final : public ExampleStream {
 public:
  explicit IgnoreErrorsStream(std::unique_ptr<ExampleStream> input)
      : pipeline_(Pipeline::current()), input_(std::move(input)) {}

  bool next(Example& out) override {
    std::optional<Position> stuck_at;  // where the last error left the input
    while (true) {
      try {
        return input_->next(out);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInternal ||
            error.code() == ErrorCode::kFailedPrecondition)
          throw;
        if (!progressed(stuck_at)) throw;
        STRATA_VLOG(2) << "[data] ignore_errors: " << error.what();
      } catch (const std::exception& error) {
        if (!progressed(stuck_at)) throw;
        STRATA_VLOG(2) << "[data] ignore_errors: " << error.what();
      }
      ++ignored_;
      pipeline_.add_ignored_errors(1);
    }
  }
  Position position() const override {
    return Position("ignore_errors", {ignored_}, {input_->position()});
  }
  void restore(const Position& position) override {
    expect_position(position, "ignore_errors", 1, 1);
    ignored_ = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
    pipeline_.add_ignored_errors(ignored_);
    input_->restore(position.children()[0]);
  }

 private:
  // An input that fails at the same place again would do so for ever.
  bool progressed(std::optional<Position>& stuck_at) const {
    Position now = input_->position();
    const bool moved = !stuck_at || !(*stuck_at == now);
    stuck_at = std::move(now);
    return moved;
  }

  Pipeline& pipeline_;
  std::unique_ptr<ExampleStream> input_;
  int64_t ignored_ = 0;
};

class IgnoreErrorsSource final : public TransformSource {
 public:
  using TransformSource::TransformSource;

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<IgnoreErrorsStream>(input().examples(epoch));
  }
  int64_t cardinality() const override {
    return input().cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  std::optional<int64_t> batch_size() const override { return input().batch_size(); }
  std::optional<ElementSpec> element_spec() const override { return input().element_spec(); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_ignore_errors(std::move(inputs[0]));
  }
};

}  // namespace

SourcePtr make_ignore_errors(SourcePtr input) {
  return std::make_shared<IgnoreErrorsSource>(std::move(input));
}

}  // namespace strata::data::detail
