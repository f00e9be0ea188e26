#include "data/source.h"

namespace strata::data::detail {
namespace {

template <class T>
class ShardStream final : public Stream<T> {
 public:
  ShardStream(std::unique_ptr<Stream<T>> input, int64_t num_shards, int64_t index)
      : input_(std::move(input)), num_shards_(num_shards), others_first_(index) {}

  bool next(T& out) override {
    pass_others();
    others_first_ = num_shards_ - 1;  // whatever is thrown
    if (input_->next(out)) return true;
    others_first_ = 0;
    return false;
  }

  Position position() const override {
    return Position("shard", {num_shards_, others_first_}, {input_->position()});
  }

  void restore(const Position& position) override {
    expect_position(position, "shard", 2, 1);
    position_number(position, 0, num_shards_, num_shards_);
    others_first_ = position_number(position, 1, 0, num_shards_ - 1);
    input_->restore(position.children()[0]);
  }

 private:
  void pass_others() {
    if (others_first_ > 0) input_->skip(others_first_);
    others_first_ = 0;
  }

  std::unique_ptr<Stream<T>> input_;
  int64_t num_shards_;
  int64_t others_first_;  // elements of other shards before our next one
};

class ShardSource final : public OrderSource<ShardSource> {
 public:
  ShardSource(SourcePtr input, int64_t num_shards, int64_t index)
      : OrderSource(std::move(input)), num_shards_(num_shards), index_(index) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return std::make_unique<ShardStream<T>>(open_stream<T>(input(), epoch), num_shards_, index_);
  }

  int64_t cardinality() const override {
    const int64_t n = input().cardinality();
    if (n < 0) return n;
    return n / num_shards_ + (index_ < n % num_shards_ ? 1 : 0);
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_shard(std::move(inputs[0]), num_shards_, index_);
  }

 private:
  int64_t num_shards_;
  int64_t index_;
};

/// Where a distribution will shard; until then all elements.
class ShardHintSource final : public OrderSource<ShardHintSource> {
 public:
  using OrderSource::OrderSource;

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return open_stream<T>(input(), epoch);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_shard(std::move(inputs[0]), kShardHint, kShardHint);
  }
  bool is_shard_hint() const override { return true; }
  SourcePtr shard_files(int64_t num_shards, int64_t index) const override {
    return make_shard(inputs()[0], num_shards, index);
  }
};

}  // namespace

SourcePtr make_shard(SourcePtr input, int64_t num_shards, int64_t index) {
  if (num_shards == kShardHint) return std::make_shared<ShardHintSource>(std::move(input));
  return std::make_shared<ShardSource>(std::move(input), num_shards, index);
}

}  // namespace strata::data::detail
