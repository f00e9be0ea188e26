#include "data/copy_rows.h"
#include "data/element_specs.h"
#include "data/row_stream.h"
#include "data/transforms/batching.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

/// Copies elements together.
class StackStream final : public BatchingStream<Example> {
 public:
  StackStream(const Source& input, uint64_t epoch, int64_t batch_size, bool drop_remainder)
      : BatchingStream("batch", input.examples(epoch), batch_size, drop_remainder) {}

 private:
  Example make(const std::vector<Example>& elements) override { return stack_examples(elements); }
};

/// Gathers the rows of an in-memory source.
class GatherStream final : public BatchingStream<int64_t> {
 public:
  GatherStream(const Source& input, uint64_t epoch, int64_t batch_size, bool drop_remainder)
      : BatchingStream("batch", input.indices(epoch), batch_size, drop_remainder),
        rows_(*input.rows()),
        guard_(rows_) {}

 private:
  Example make(const std::vector<int64_t>& rows) override {
    guard_.check();
    return rows_.gather(rows);
  }

  const Rows& rows_;
  RowsGuard guard_;
};

class BatchSource final : public TransformSource {
 public:
  BatchSource(SourcePtr input, int64_t batch_size, bool drop_remainder)
      : TransformSource(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    if (input().rows() != nullptr)
      return std::make_unique<GatherStream>(input(), epoch, batch_size_, drop_remainder_);
    return std::make_unique<StackStream>(input(), epoch, batch_size_, drop_remainder_);
  }

  int64_t cardinality() const override {
    return batched_cardinality(input().cardinality(), batch_size_, drop_remainder_);
  }
  std::optional<int64_t> batch_size() const override { return batch_size_; }
  std::optional<ElementSpec> element_spec() const override {
    return batched_spec(input().element_spec(), drop_remainder_ ? batch_size_ : -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_batch(std::move(inputs[0]), batch_size_, drop_remainder_);
  }

 private:
  int64_t batch_size_;
  bool drop_remainder_;
};

}  // namespace

SourcePtr make_batch(SourcePtr input, int64_t batch_size, bool drop_remainder) {
  return std::make_shared<BatchSource>(std::move(input), batch_size, drop_remainder);
}

}  // namespace strata::data::detail
