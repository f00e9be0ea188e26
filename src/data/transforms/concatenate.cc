#include "data/element_specs.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class ConcatenateStream final : public ExampleStream {
 public:
  ConcatenateStream(const Source& first, const Source& second, uint64_t epoch)
      : second_(second), epoch_(epoch), current_(first.examples(epoch)) {}

  bool next(Example& out) override {
    if (current_->next(out)) return true;
    if (in_second_) return false;
    go_on();
    return current_->next(out);
  }

  int64_t skip(int64_t count) override {
    const int64_t skipped = current_->skip(count);
    if (skipped == count || in_second_) return skipped;
    go_on();
    return skipped + current_->skip(count - skipped);
  }

  Position position() const override {
    return Position("concatenate", {in_second_ ? 1 : 0}, {current_->position()});
  }

  void restore(const Position& position) override {
    expect_position(position, "concatenate", 1, 1);
    if (position_number(position, 0, 0, 1) == 1) go_on();
    current_->restore(position.children()[0]);
  }

 private:
  void go_on() {
    current_ = nullptr;  // whose threads go first
    current_ = second_.examples(epoch_);
    in_second_ = true;
  }

  const Source& second_;
  uint64_t epoch_;
  std::unique_ptr<ExampleStream> current_;
  bool in_second_ = false;
};

class ConcatenateSource final : public Source {
 public:
  ConcatenateSource(SourcePtr first, SourcePtr second)
      : inputs_{std::move(first), std::move(second)} {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<ConcatenateStream>(*inputs_[0], *inputs_[1], epoch);
  }

  int64_t cardinality() const override {
    const int64_t a = inputs_[0]->cardinality(), b = inputs_[1]->cardinality();
    if (a == Dataset::kInfinite || b == Dataset::kInfinite) return Dataset::kInfinite;
    return a < 0 || b < 0 ? Dataset::kUnknown : a + b;
  }
  std::optional<int64_t> batch_size() const override {
    const auto size = inputs_[0]->batch_size();
    return size == inputs_[1]->batch_size() ? size : std::nullopt;
  }
  std::optional<ElementSpec> element_spec() const override { return common_spec(inputs_); }
  uint64_t num_shuffles() const override { return most_shuffles(inputs_); }
  std::vector<SourcePtr> inputs() const override { return inputs_; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_concatenate(std::move(inputs[0]), std::move(inputs[1]));
  }

 private:
  std::vector<SourcePtr> inputs_;
};

}  // namespace

SourcePtr make_concatenate(SourcePtr first, SourcePtr second) {
  return std::make_shared<ConcatenateSource>(std::move(first), std::move(second));
}

}  // namespace strata::data::detail
