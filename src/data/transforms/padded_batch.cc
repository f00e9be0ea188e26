#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "data/element_specs.h"
#include "data/transforms/batching.h"
#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

/// The shape that field `f` of all `elements` is padded to.
std::vector<int64_t> padded_shape(const std::vector<Example>& elements, size_t f,
                                  const std::vector<std::vector<int64_t>>& padded_shapes) {
  const at::Tensor& first = elements.front().fields[f];
  std::vector<int64_t> shape = padded_shapes.empty()
                                   ? std::vector<int64_t>(static_cast<size_t>(first.dim()), -1)
                                   : padded_shapes[f];
  for (size_t i = 0; i < elements.size(); ++i) {
    const at::Tensor& field = elements[i].fields[f];
    STRATA_CHECK(field.dim() == static_cast<int64_t>(shape.size()), kInvalidArgument,
                 "[data] padded_batch: got ", field.dim(), " dimensions in field ", f,
                 " of element ", i, " of the batch; expected ", shape.size());
    STRATA_CHECK(field.scalar_type() == first.scalar_type(), kInvalidArgument,
                 "[data] padded_batch: got ", first.scalar_type(), " and ", field.scalar_type(),
                 " in field ", f, " (elements 0 and ", i,
                 " of the batch); expected one dtype; convert in map() first");
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t longest = 0;
    for (const Example& element : elements)
      longest = std::max(longest, element.fields[f].size(static_cast<int64_t>(d)));
    if (shape[d] < 0) shape[d] = longest;
    STRATA_CHECK(longest <= shape[d], kInvalidArgument, "[data] padded_batch: got ", longest,
                 " elements along dimension ", d, " of field ", f, "; expected at most the ",
                 shape[d], " that it is padded to; crop in map() first");
  }
  return shape;
}

Example stack_padded(const std::vector<Example>& elements, const PaddedBatchOptions& options) {
  const size_t fields = elements.front().fields.size();
  for (const Example& element : elements)
    STRATA_CHECK(element.fields.size() == fields, kInvalidArgument, "[data] padded_batch: got ",
                 element.fields.size(), " and ", fields,
                 " fields in elements of one batch; expected the same number in all");
  STRATA_CHECK(options.padded_shapes.empty() || options.padded_shapes.size() == fields,
               kInvalidArgument, "[data] padded_batch: got ", options.padded_shapes.size(),
               " padded_shapes for ", fields, " fields; expected one a field");
  STRATA_CHECK(options.padding_values.size() <= 1 || options.padding_values.size() == fields,
               kInvalidArgument, "[data] padded_batch: got ", options.padding_values.size(),
               " padding_values for ", fields, " fields; expected one a field, or one for all");
  Example batch;
  for (size_t f = 0; f < fields; ++f) {
    std::vector<int64_t> shape = padded_shape(elements, f, options.padded_shapes);
    shape.insert(shape.begin(), static_cast<int64_t>(elements.size()));
    const at::Scalar value = options.padding_values.empty()       ? at::Scalar(0)
                             : options.padding_values.size() == 1 ? options.padding_values[0]
                                                                  : options.padding_values[f];
    at::Tensor out = at::full(shape, value, elements.front().fields[f].options());
    for (size_t i = 0; i < elements.size(); ++i) {
      const at::Tensor& field = elements[i].fields[f];
      at::Tensor to = out.select(0, static_cast<int64_t>(i));
      for (int64_t d = 0; d < field.dim(); ++d) to = to.narrow(d, 0, field.size(d));
      to.copy_(field);
    }
    batch.fields.push_back(std::move(out));
  }
  return batch;
}

class PaddedBatchStream final : public BatchingStream<Example> {
 public:
  PaddedBatchStream(const Source& input, uint64_t epoch, int64_t batch_size,
                    const PaddedBatchOptions& options)
      : BatchingStream("padded_batch", input, epoch,
                       {.batch_size = batch_size, .drop_remainder = options.drop_remainder}),
        options_(options) {}

 private:
  Example make(const std::vector<Example>& elements) override {
    return stack_padded(elements, options_);
  }

  const PaddedBatchOptions& options_;
};

class PaddedBatchSource final : public TransformSource {
 public:
  PaddedBatchSource(SourcePtr input, int64_t batch_size, const PaddedBatchOptions& options)
      : TransformSource(std::move(input)), batch_size_(batch_size), options_(options) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<PaddedBatchStream>(input(), epoch, batch_size_, options_);
  }
  int64_t cardinality() const override {
    return batched_cardinality(input().cardinality(), batch_size_, options_.drop_remainder);
  }
  std::optional<int64_t> batch_size() const override { return batch_size_; }
  std::optional<ElementSpec> element_spec() const override {
    auto spec = input().element_spec();
    if (!spec) return spec;
    for (size_t f = 0; f < spec->size(); ++f) {
      if (f < options_.padded_shapes.size()) (*spec)[f].shape = options_.padded_shapes[f];
    }
    return batched_spec(std::move(spec), options_.drop_remainder ? batch_size_ : -1);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_padded_batch(std::move(inputs[0]), batch_size_, options_);
  }

 private:
  int64_t batch_size_;
  PaddedBatchOptions options_;
};

}  // namespace

SourcePtr make_padded_batch(SourcePtr input, int64_t batch_size,
                            const PaddedBatchOptions& options) {
  return std::make_shared<PaddedBatchSource>(std::move(input), batch_size, options);
}

}  // namespace strata::data::detail
