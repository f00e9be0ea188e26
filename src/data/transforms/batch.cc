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
  using BatchingStream::BatchingStream;

 private:
  Example make(const std::vector<Example>& elements) override { return stack_examples(elements); }
};

/// Gathers the rows of an in-memory source.
class GatherStream final : public BatchingStream<int64_t> {
 public:
  GatherStream(const char* kind, const Source& input, uint64_t epoch, const Batching& batching)
      : BatchingStream(kind, input, epoch, batching), rows_(*input.rows()), guard_(rows_) {}

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
  BatchSource(SourcePtr input, Batching batching)
      : TransformSource(std::move(input)), batching_(std::move(batching)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    constexpr const char* kKind = "batch";
    if (input().rows() != nullptr)
      return std::make_unique<GatherStream>(kKind, input(), epoch, batching_);
    return std::make_unique<StackStream>(kKind, input(), epoch, batching_);
  }

  int64_t cardinality() const override {
    return batched_cardinality(input().cardinality(), batching_.batch_size,
                               batching_.drop_remainder);
  }
  std::optional<int64_t> batch_size() const override { return full_rows(); }
  std::optional<ElementSpec> element_spec() const override {
    return batched_spec(input().element_spec(), batching_.drop_remainder ? full_rows() : -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return std::make_shared<BatchSource>(std::move(inputs[0]), batching_);
  }
  SourcePtr with_slices(const BatchSlices& parts) const override {
    STRATA_DCHECK(batching_.parts.are_all());
    Batching partial = batching_;
    partial.parts = parts;
    return std::make_shared<BatchSource>(inputs()[0], std::move(partial));
  }

 private:
  /// Of a batch that is not the last.
  int64_t full_rows() const { return batching_.parts.count_rows(batching_.batch_size); }

  Batching batching_;
};

}  // namespace

SourcePtr make_batch(SourcePtr input, int64_t batch_size, bool drop_remainder) {
  return std::make_shared<BatchSource>(
      std::move(input), Batching{.batch_size = batch_size, .drop_remainder = drop_remainder});
}

}  // namespace strata::data::detail
