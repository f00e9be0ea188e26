#include <algorithm>

#include "data/element_specs.h"
#include "data/row_stream.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {
namespace {

class ZipStream final : public ExampleStream {
 public:
  explicit ZipStream(std::vector<std::unique_ptr<ExampleStream>> inputs)
      : inputs_(std::move(inputs)) {}

  bool next(Example& out) override {
    std::vector<at::Tensor> fields;
    Example part;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      try {
        if (!inputs_[i]->next(part)) return false;
      } catch (...) {
        while (++i < inputs_.size()) inputs_[i]->skip(1);  // stay side by side
        throw;
      }
      for (auto& field : part.fields) fields.push_back(std::move(field));
    }
    out = Example(std::move(fields));
    return true;
  }

  int64_t skip(int64_t count) override {
    for (const auto& input : inputs_) count = std::min(count, input->skip(count));
    return count;
  }

  Position position() const override {
    std::vector<Position> children;
    children.reserve(inputs_.size());
    for (const auto& input : inputs_) children.push_back(input->position());
    return Position("zip", {}, std::move(children));
  }

  void restore(const Position& position) override {
    expect_position(position, "zip", 0, inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->restore(position.children()[i]);
  }

 private:
  std::vector<std::unique_ptr<ExampleStream>> inputs_;
};

class ZipSource final : public Source {
 public:
  explicit ZipSource(std::vector<SourcePtr> inputs) : inputs_(std::move(inputs)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    std::vector<std::unique_ptr<ExampleStream>> streams;
    streams.reserve(inputs_.size());
    for (const auto& input : inputs_) streams.push_back(input->examples(epoch));
    return std::make_unique<ZipStream>(std::move(streams));
  }

  int64_t cardinality() const override {
    int64_t shortest = Dataset::kInfinite;
    for (const auto& input : inputs_) {
      const int64_t n = input->cardinality();
      if (n == 0 || n == Dataset::kUnknown) return n;
      if (n != Dataset::kInfinite) shortest = shortest < 0 ? n : std::min(shortest, n);
    }
    return shortest;
  }

  std::optional<int64_t> batch_size() const override {
    const auto size = inputs_.front()->batch_size();
    for (const auto& input : inputs_) {
      if (input->batch_size() != size) return std::nullopt;
    }
    return size;
  }

  std::optional<ElementSpec> element_spec() const override { return joined_spec(inputs_); }
  uint64_t num_shuffles() const override { return most_shuffles(inputs_); }
  std::vector<SourcePtr> inputs() const override { return inputs_; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_zip(std::move(inputs));
  }

 private:
  std::vector<SourcePtr> inputs_;
};

/// Rows of several in-memory sources side by side.
class JoinedRows final : public Rows {
 public:
  explicit JoinedRows(std::vector<const Rows*> parts) : parts_(std::move(parts)) {
    size_ = parts_.front()->size();
    for (const Rows* part : parts_) size_ = std::min(size_, part->size());
  }

  int64_t size() const override { return size_; }
  Example row(int64_t index) const override {
    return join([&](const Rows& part) { return part.row(index); });
  }
  Example gather(std::span<const int64_t> indices) const override {
    return join([&](const Rows& part) { return part.gather(indices); });
  }
  int64_t version() const override {
    int64_t version = 0;
    for (const Rows* part : parts_) version += part->version();
    return version;
  }
  std::optional<ElementSpec> spec() const override {
    ElementSpec all;
    for (const Rows* part : parts_) {
      const auto spec = part->spec();
      if (!spec) return std::nullopt;
      all.insert(all.end(), spec->begin(), spec->end());
    }
    return all;
  }

 private:
  template <class Get>
  Example join(Get&& get) const {
    Example all;
    for (const Rows* part : parts_) {
      for (auto& field : get(*part).fields) all.fields.push_back(std::move(field));
    }
    return all;
  }

  std::vector<const Rows*> parts_;
  int64_t size_;
};

/// A zip of in-memory sources whose order nothing has changed yet: is one itself.
class JoinedSource final : public RowSource {
 public:
  explicit JoinedSource(std::vector<SourcePtr> inputs)
      : inputs_(std::move(inputs)), rows_(rows_of(inputs_)) {}

  const Rows* rows() const override { return &rows_; }
  std::vector<SourcePtr> inputs() const override { return inputs_; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_zip(std::move(inputs));
  }

 private:
  static std::vector<const Rows*> rows_of(const std::vector<SourcePtr>& inputs) {
    std::vector<const Rows*> parts;
    parts.reserve(inputs.size());
    for (const auto& input : inputs) parts.push_back(input->rows());
    return parts;
  }

  std::vector<SourcePtr> inputs_;
  JoinedRows rows_;
};

}  // namespace

SourcePtr make_zip(std::vector<SourcePtr> inputs) {
  const bool in_order = std::all_of(inputs.begin(), inputs.end(), [](const SourcePtr& input) {
    return dynamic_cast<const RowSource*>(input.get()) != nullptr;
  });
  if (in_order) return std::make_shared<JoinedSource>(std::move(inputs));
  return std::make_shared<ZipSource>(std::move(inputs));
}

}  // namespace strata::data::detail
