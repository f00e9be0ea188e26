#include "strata/data/iterator.h"

#include <limits>

#include "data/pipeline.h"
#include "data/source.h"

namespace strata::data {

Iterator::Iterator(std::shared_ptr<const detail::Source> source, int64_t epoch)
    : source_(std::move(source)),
      pipeline_(std::make_unique<detail::Pipeline>(detail::options_of(*source_))),
      epoch_(epoch) {
  const detail::PipelineScope scope(*pipeline_);
  stream_ = source_->examples(static_cast<uint64_t>(epoch));
}

Iterator::~Iterator() = default;
Iterator::Iterator(Iterator&&) noexcept = default;

Iterator& Iterator::operator=(Iterator&& other) noexcept {
  stream_ = std::move(other.stream_);  // the old stream is destroyed before what it refers to
  pipeline_ = std::move(other.pipeline_);
  source_ = std::move(other.source_);
  epoch_ = other.epoch_;
  ended_ = other.ended_;
  return *this;
}

std::optional<Example> Iterator::next() {
  if (ended_) return std::nullopt;
  std::optional<Example> element(std::in_place);
  const detail::PipelineScope scope(*pipeline_);
  const detail::WorkTimer timer(*pipeline_);
  const auto count = [&](const Example* given) {
    pipeline_->count_next(given, detail::WorkTimer::Clock::now() - timer.begin());
  };
  try {
    ended_ = !stream_->next(*element);
  } catch (...) {
    count(nullptr);
    throw;
  }
  if (ended_) element.reset();
  count(element ? &*element : nullptr);
  return element;
}

IteratorStats Iterator::stats() const { return pipeline_->stats(); }

Position Iterator::position() const {
  return Position("iterator", {epoch_}, {stream_->position()});
}

void Iterator::restore(const Position& position) {
  detail::expect_position(position, "iterator", 1, 1);
  const int64_t epoch =
      detail::position_number(position, 0, 0, std::numeric_limits<int64_t>::max() - 1);
  const detail::PipelineScope scope(*pipeline_);
  auto stream = source_->examples(static_cast<uint64_t>(epoch));
  stream->restore(position.children()[0]);
  stream_ = std::move(stream);
  epoch_ = epoch;
  ended_ = false;
  source_->raise_next_epoch(static_cast<uint64_t>(epoch) + 1);
}

}  // namespace strata::data
