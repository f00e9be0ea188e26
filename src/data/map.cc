#include "data/functions.h"

namespace strata::data::detail {
namespace {

class MapStream final : public ExampleStream {
 public:
  MapStream(std::unique_ptr<ExampleStream> input, const MapFunction& fn)
      : input_(std::move(input)), fn_(fn) {}

  bool next(Example& out) override {
    Example element;
    if (!input_->next(element)) return false;
    out = fn_(std::move(element));
    return true;
  }
  int64_t skip(int64_t count) override { return input_->skip(count); }
  Position position() const override { return Position("map", {}, {input_->position()}); }
  void restore(const Position& position) override {
    expect_position(position, "map", 0, 1);
    input_->restore(position.children()[0]);
  }

 private:
  std::unique_ptr<ExampleStream> input_;
  const MapFunction& fn_;
};

class MapSource final : public Source {
 public:
  MapSource(SourcePtr input, MapFunction fn) : input_(std::move(input)), fn_(std::move(fn)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<MapStream>(input_->examples(epoch), fn_);
  }
  int64_t cardinality() const override { return input_->cardinality(); }
  uint64_t num_shuffles() const override { return input_->num_shuffles(); }

 private:
  SourcePtr input_;
  MapFunction fn_;
};

}  // namespace

SourcePtr make_map(SourcePtr input, MapFunction fn) {
  return std::make_shared<MapSource>(std::move(input), std::move(fn));
}

}  // namespace strata::data::detail
