#include <limits>

#include "data/element_specs.h"
#include "data/row_view.h"
#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class UnbatchStream final : public ExampleStream {
 public:
  explicit UnbatchStream(std::unique_ptr<ExampleStream> input)
      : input_(std::move(input)), before_(input_->position()) {}

  bool next(Example& out) override {
    if (!ensure_row()) return false;
    std::vector<at::Tensor> row;
    row.reserve(batch_.fields.size());
    for (const auto& field : batch_.fields) row.push_back(row_view(field, row_));
    out = Example(std::move(row));
    ++row_;
    return true;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      try {
        if (!ensure_row()) break;
      } catch (...) {  // a batch that fails counts as one row
        ++skipped;
        continue;
      }
      const int64_t step = std::min(count - skipped, rows_ - row_);
      row_ += step;
      skipped += step;
    }
    return skipped;
  }

  Position position() const override { return Position("unbatch", {row_}, {before_}); }

  void restore(const Position& position) override {
    expect_position(position, "unbatch", 1, 1);
    const int64_t row = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
    input_->restore(position.children()[0]);
    before_ = position.children()[0];
    if (row == 0) return;
    STRATA_CHECK(fetch() && row <= rows_, kInvalidArgument, "[data] restore: got row ", row,
                 " of a batch with ", rows_, " rows; the source has changed");
    row_ = row;
  }

 private:
  // Continues to the next batch that has a row left.
  bool ensure_row() {
    while (row_ == rows_) {
      if (ended_ || !fetch()) return false;
    }
    return true;
  }

  bool fetch() {
    Position before = input_->position();
    try {
      if (!input_->next(batch_)) {
        ended_ = true;
        return false;
      }
      rows_ = row_ = 0;
      rows_ = batch_.num_rows();
    } catch (...) {
      rows_ = row_ = 0;
      before_ = input_->position();
      throw;
    }
    before_ = std::move(before);
    return true;
  }

  std::unique_ptr<ExampleStream> input_;
  Position before_;  // of the input before batch_
  Example batch_;
  int64_t rows_ = 0;
  int64_t row_ = 0;
  bool ended_ = false;
};

class UnbatchSource final : public TransformSource {
 public:
  using TransformSource::TransformSource;

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<UnbatchStream>(input().examples(epoch));
  }
  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    return n == 0 || n == Dataset::kInfinite ? n : Dataset::kUnknown;
  }
  std::optional<ElementSpec> element_spec() const override {
    return row_spec(input().element_spec());
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_unbatch(std::move(inputs[0]));
  }
};

}  // namespace

SourcePtr make_unbatch(SourcePtr input) {
  return std::make_shared<UnbatchSource>(std::move(input));
}

}  // namespace strata::data::detail
