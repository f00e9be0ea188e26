#include <limits>

#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

class GeneratorStream final : public ExampleStream {
 public:
  explicit GeneratorStream(Generator generator) : generator_(std::move(generator)) {}

  bool next(Example& out) override {
    if (ended_) return false;
    ended_ = true;  // if it throws, too, as a Python generator
    ++given_;
    std::optional<Example> element = generator_();
    if (!element) {
      --given_;
      return false;
    }
    ended_ = false;
    out = std::move(*element);
    return true;
  }

  Position position() const override { return Position("generator", {given_}); }

  void restore(const Position& position) override {
    expect_position(position, "generator", 1, 0);
    const int64_t given = position_number(position, 0, 0, std::numeric_limits<int64_t>::max());
    skip(given);
    STRATA_CHECK(given_ == given, kInvalidArgument, "[data] restore: the generator ended after ",
                 given_, " elements; expected the ", given,
                 " that it gave when the position was saved; a generator must repeat itself");
  }

 private:
  Generator generator_;
  int64_t given_ = 0;
  bool ended_ = false;
};

class GeneratorSource final : public Source {
 public:
  explicit GeneratorSource(GeneratorFactory factory) : factory_(std::move(factory)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t) const override {
    Generator generator = factory_();
    STRATA_CHECK(
        generator != nullptr, kInvalidArgument,
        "[data] from_generator: got an empty function from the factory; expected a generator");
    return std::make_unique<GeneratorStream>(std::move(generator));
  }
  int64_t cardinality() const override { return Dataset::kUnknown; }

 private:
  GeneratorFactory factory_;
};

}  // namespace

SourcePtr make_generator(GeneratorFactory factory) {
  return std::make_shared<GeneratorSource>(std::move(factory));
}

}  // namespace strata::data::detail
