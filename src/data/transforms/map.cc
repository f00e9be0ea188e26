#include "data/transforms/functions.h"
#include "data/transforms/map_position.h"

namespace strata::data::detail {
namespace {

/// Maps on the thread that asks.
class MapStream final : public ExampleStream {
 public:
  MapStream(std::unique_ptr<ExampleStream> input, const KeyedMapFunction& fn, bool keyed,
            const ElementKey& first)
      : input_(std::move(input)), fn_(fn), keyed_(keyed), key_(first) {}

  bool next(Example& out) override {
    if (!given_.empty()) pass_given();
    const ElementKey key = key_;
    ++key_.index;  // whatever is thrown
    Example element;
    if (!input_->next(element)) {
      key_ = key;
      return false;
    }
    out = fn_(std::move(element), key);
    return true;
  }

  int64_t skip(int64_t count) override {
    if (!given_.empty()) return ExampleStream::skip(count);
    const int64_t skipped = input_->skip(count);
    key_.index += static_cast<uint64_t>(skipped);
    return skipped;
  }

  void prune(const NeededElements& needed) override {
    if (given_.empty()) input_->prune(needed);
  }

  Position position() const override {
    return MapPosition{
        .first = static_cast<int64_t>(key_.index), .ahead = given_, .counted = keyed_}
        .to_position(input_->position());
  }

  void restore(const Position& position) override {
    const auto saved = MapPosition::from_position(position);
    STRATA_CHECK(saved.counted || !keyed_, kInvalidArgument,
                 "[data] restore: got a position of a map without keys; expected one of a map "
                 "whose function takes an ElementKey; restore into a dataset built by the same "
                 "transforms as the one that was saved");
    input_->restore(position.children()[0]);
    STRATA_CHECK(input_->skip(saved.since) == saved.since, kInvalidArgument,
                 "[data] restore: the map's input has fewer elements than when the position was "
                 "saved; the source has changed");
    key_.index = static_cast<uint64_t>(saved.first + saved.since);
    given_ = saved.ahead;
  }

 private:
  // What a map that was free to change the order had given already.
  void pass_given() {
    while (!given_.empty() && given_.front().first == static_cast<int64_t>(key_.index)) {
      const auto [begin, end] = given_.front();
      input_->skip(end - begin);
      key_.index = static_cast<uint64_t>(end);
      given_.erase(given_.begin());
    }
  }

  std::unique_ptr<ExampleStream> input_;
  const KeyedMapFunction& fn_;
  bool keyed_;
  ElementKey key_;  // of the next element
  std::vector<EmittedSet::Interval> given_;
};

class MapSource final : public TransformSource {
 public:
  MapSource(SourcePtr input, KeyedMapFunction fn, bool keyed, const MapOptions& options)
      : TransformSource(std::move(input)), fn_(std::move(fn)), keyed_(keyed), options_(options) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    const ElementKey first{.seed = options_.seed, .epoch = epoch, .stage = input().num_shuffles()};
    return std::make_unique<MapStream>(input().examples(epoch), fn_, keyed_, first);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  uint64_t num_shuffles() const override { return input().num_shuffles() + (keyed_ ? 1 : 0); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_map(std::move(inputs[0]), fn_, keyed_, options_);
  }

 private:
  KeyedMapFunction fn_;
  bool keyed_;
  MapOptions options_;
};

}  // namespace

SourcePtr make_map(SourcePtr input, KeyedMapFunction fn, bool keyed, const MapOptions& options) {
  if (options.num_parallel_calls != 0)
    return make_parallel_map(std::move(input), std::move(fn), keyed, options);
  return std::make_shared<MapSource>(std::move(input), std::move(fn), keyed, options);
}

}  // namespace strata::data::detail
