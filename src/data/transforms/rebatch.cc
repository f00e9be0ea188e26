#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <limits>

#include "data/element_specs.h"
#include "data/source.h"
#include "data/transforms/batch_rows.h"
#include "data/transforms/batch_slices.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

Example concatenated(const std::vector<Example>& parts) {
  if (parts.size() == 1) return parts.front();
  Example all;
  for (size_t f = 0; f < parts.front().fields.size(); ++f) {
    std::vector<at::Tensor> fields;
    fields.reserve(parts.size());
    for (const Example& part : parts) {
      STRATA_CHECK(part.fields.size() == parts.front().fields.size(), kInvalidArgument,
                   "[data] rebatch: got batches with ", parts.front().fields.size(), " and ",
                   part.fields.size(), " fields; expected the same number in all");
      fields.push_back(part.fields[f]);
    }
    all.fields.push_back(at::cat(fields));
  }
  return all;
}

class RebatchStream final : public ExampleStream {
 public:
  RebatchStream(std::unique_ptr<ExampleStream> input, const std::vector<int64_t>& sizes,
                bool drop_remainder)
      : batches_(std::move(input)), sizes_(sizes), drop_remainder_(drop_remainder) {}

  bool next(Example& out) override {
    int64_t missing = sizes_[turn_];
    // As in tf.data an empty batch needs no row: behind the last one there may be some.
    if (!(missing == 0 ? batches_.ensure_batch() : batches_.ensure_row())) return false;
    if (++turn_ == sizes_.size()) turn_ = 0;
    std::vector<Example> parts;
    if (missing == 0) parts.push_back(batches_.take(0));
    // What this throws costs the rows collected so far.
    while (missing > 0 && batches_.ensure_row()) {
      const int64_t count = std::min(missing, batches_.rows_left());
      parts.push_back(batches_.take(count));
      missing -= count;
    }
    if (missing > 0 && drop_remainder_) return false;
    out = concatenated(parts);
    return true;
  }

  Position position() const override {
    return Position("rebatch", {static_cast<int64_t>(turn_), batches_.row()}, {batches_.before()});
  }
  void restore(const Position& position) override {
    expect_position(position, "rebatch", 2, 1);
    turn_ = static_cast<size_t>(
        position_number(position, 0, 0, static_cast<int64_t>(sizes_.size()) - 1));
    batches_.restore(position.children()[0],
                     position_number(position, 1, 0, std::numeric_limits<int64_t>::max()));
  }

 private:
  BatchRows batches_;
  const std::vector<int64_t>& sizes_;
  const bool drop_remainder_;
  size_t turn_ = 0;
};

class RebatchSource final : public TransformSource {
 public:
  RebatchSource(SourcePtr input, std::vector<int64_t> sizes, bool drop_remainder)
      : TransformSource(std::move(input)),
        sizes_(std::move(sizes)),
        drop_remainder_(drop_remainder) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<RebatchStream>(input().examples(epoch), sizes_, drop_remainder_);
  }
  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    return n == 0 || n == Dataset::kInfinite ? n : Dataset::kUnknown;
  }
  std::optional<int64_t> batch_size() const override {
    return *std::max_element(sizes_.begin(), sizes_.end());
  }
  std::optional<ElementSpec> element_spec() const override {
    const int64_t rows = drop_remainder_ && sizes_.size() == 1 ? sizes_[0] : -1;
    return batched_spec(row_spec(input().element_spec()), rows);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_rebatch(std::move(inputs[0]), sizes_, drop_remainder_);
  }

 private:
  std::vector<int64_t> sizes_;
  bool drop_remainder_;
};

class SplitStream final : public ExampleStream {
 public:
  SplitStream(std::unique_ptr<ExampleStream> input, const BatchSlices& parts)
      : input_(std::move(input)),
        before_(input_->position()),
        parts_(parts),
        next_(parts_.size()) {}

  bool next(Example& out) override {
    if (next_ == parts_.size()) {
      Position before = input_->position();
      if (!input_->next(batch_)) return false;
      before_ = std::move(before);
      next_ = 0;
    }
    const auto [begin, end] = parts_.range(next_++, batch_.num_rows());
    out = rows_of(batch_, begin, end - begin);
    return true;
  }

  Position position() const override {
    if (next_ == parts_.size()) return Position("split", {0}, {input_->position()});
    return Position("split", {static_cast<int64_t>(next_)}, {before_});
  }
  void restore(const Position& position) override {
    expect_position(position, "split", 1, 1);
    const int64_t next = position_number(position, 0, 0, static_cast<int64_t>(parts_.size()) - 1);
    input_->restore(position.children()[0]);
    if (next == 0) return;
    before_ = position.children()[0];
    STRATA_CHECK(input_->next(batch_), kInvalidArgument,
                 "[data] restore: the batches to split have become fewer; the source has changed");
    next_ = static_cast<size_t>(next);
  }

 private:
  std::unique_ptr<ExampleStream> input_;
  Position before_;  // of the input before batch_
  const BatchSlices& parts_;
  Example batch_;
  size_t next_;  // of parts_, to be taken of batch_
};

class SplitSource final : public TransformSource {
 public:
  SplitSource(SourcePtr input, BatchSlices parts)
      : TransformSource(std::move(input)), parts_(std::move(parts)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<SplitStream>(input().examples(epoch), parts_);
  }
  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    return n < 0 ? n : n * static_cast<int64_t>(parts_.size());
  }
  std::optional<int64_t> batch_size() const override {
    const auto size = input().batch_size();
    if (!size) return size;
    const auto [begin, end] = parts_.range(0, *size);
    return end - begin;
  }
  std::optional<ElementSpec> element_spec() const override {
    return batched_spec(row_spec(input().element_spec()), -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return std::make_shared<SplitSource>(std::move(inputs[0]), parts_);
  }

 private:
  BatchSlices parts_;
};

}  // namespace

SourcePtr make_rebatch(SourcePtr input, std::vector<int64_t> sizes, bool drop_remainder) {
  return std::make_shared<RebatchSource>(std::move(input), std::move(sizes), drop_remainder);
}

SourcePtr make_split(SourcePtr input, const BatchSlices& parts) {
  SourcePtr own = parts.are_all() ? nullptr : input->with_slices(parts);
  if (!own) return std::make_shared<SplitSource>(std::move(input), parts);
  // What is left of a batch is cut as its parts were: balanced, the larger ones first.
  return std::make_shared<SplitSource>(std::move(own),
                                       BatchSlices(static_cast<int64_t>(parts.size())));
}

}  // namespace strata::data::detail
