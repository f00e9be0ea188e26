#include <algorithm>
#include <limits>

#include "data/element_specs.h"
#include "data/row_view.h"
#include "data/source.h"
#include "data/transforms/batch_rows.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class UnbatchStream final : public ExampleStream {
 public:
  explicit UnbatchStream(std::unique_ptr<ExampleStream> input) : batches_(std::move(input)) {}

  bool next(Example& out) override {
    if (!batches_.ensure_row()) return false;
    const Example& batch = batches_.batch();
    std::vector<at::Tensor> row;
    row.reserve(batch.fields.size());
    for (const auto& field : batch.fields) row.push_back(row_view(field, batches_.row()));
    out = Example(std::move(row));
    batches_.advance(1);
    return true;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      try {
        if (!batches_.ensure_row()) break;
      } catch (...) {  // a batch that fails counts as one row
        ++skipped;
        continue;
      }
      const int64_t step = std::min(count - skipped, batches_.rows_left());
      batches_.advance(step);
      skipped += step;
    }
    return skipped;
  }

  Position position() const override {
    return Position("unbatch", {batches_.row()}, {batches_.before()});
  }
  void restore(const Position& position) override {
    expect_position(position, "unbatch", 1, 1);
    batches_.restore(position.children()[0],
                     position_number(position, 0, 0, std::numeric_limits<int64_t>::max()));
  }

 private:
  BatchRows batches_;
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
