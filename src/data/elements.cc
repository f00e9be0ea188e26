#include <limits>

#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

class ElementsStream final : public ExampleStream {
 public:
  explicit ElementsStream(const std::vector<Example>& elements) : elements_(elements) {}

  bool next(Example& out) override {
    if (next_ == elements_.size()) return false;
    out = elements_[next_++];
    return true;
  }
  int64_t skip(int64_t count) override {
    const auto skipped = std::min(static_cast<size_t>(count), elements_.size() - next_);
    next_ += skipped;
    return static_cast<int64_t>(skipped);
  }
  Position position() const override { return Position("elements", {static_cast<int64_t>(next_)}); }
  void restore(const Position& position) override {
    expect_position(position, "elements", 1, 0);
    next_ = static_cast<size_t>(
        position_number(position, 0, 0, static_cast<int64_t>(elements_.size())));
  }

 private:
  const std::vector<Example>& elements_;
  size_t next_ = 0;
};

class ElementsSource final : public Source {
 public:
  explicit ElementsSource(std::vector<Example> elements) : elements_(std::move(elements)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t) const override {
    return std::make_unique<ElementsStream>(elements_);
  }
  int64_t cardinality() const override { return static_cast<int64_t>(elements_.size()); }

 private:
  std::vector<Example> elements_;
};

}  // namespace

SourcePtr make_elements(std::vector<Example> elements) {
  return std::make_shared<ElementsSource>(std::move(elements));
}

}  // namespace strata::data::detail
