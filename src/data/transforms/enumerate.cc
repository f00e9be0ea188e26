#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class EnumerateStream final : public ExampleStream {
 public:
  EnumerateStream(std::unique_ptr<ExampleStream> input, int64_t start)
      : input_(std::move(input)), start_(start) {}

  bool next(Example& out) override {
    const int64_t number = given_++;  // whatever is thrown
    if (!input_->next(out)) {
      given_ = number;
      return false;
    }
    out.fields.insert(out.fields.begin(), at::scalar_tensor(start_ + number, at::kLong));
    return true;
  }
  int64_t skip(int64_t count) override {
    const int64_t skipped = input_->skip(count);
    given_ += skipped;
    return skipped;
  }
  Position position() const override {
    return Position("enumerate", {given_}, {input_->position()});
  }
  void restore(const Position& position) override {
    expect_position(position, "enumerate", 1, 1);
    given_ = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
    input_->restore(position.children()[0]);
  }

 private:
  std::unique_ptr<ExampleStream> input_;
  int64_t start_;
  int64_t given_ = 0;
};

class EnumerateSource final : public TransformSource {
 public:
  EnumerateSource(SourcePtr input, int64_t start)
      : TransformSource(std::move(input)), start_(start) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<EnumerateStream>(input().examples(epoch), start_);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  std::optional<ElementSpec> element_spec() const override {
    auto spec = input().element_spec();
    if (spec) spec->insert(spec->begin(), {.shape = {}, .dtype = at::kLong});
    return spec;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_enumerate(std::move(inputs[0]), start_);
  }

 private:
  int64_t start_;
};

}  // namespace

SourcePtr make_enumerate(SourcePtr input, int64_t start) {
  return std::make_shared<EnumerateSource>(std::move(input), start);
}

}  // namespace strata::data::detail
