#include "keras/training/fit_loop.h"

namespace strata::keras::detail {

std::optional<DistributedDataset::Element> BatchFeed::next_one(bool epoch_begins) {
  if (peeked_) return std::exchange(peeked_, std::nullopt);
  if (!iterator_) iterator_.emplace(data_.iterator(pass_));
  auto parts = iterator_->next();
  if (!parts && continuous_ && epoch_begins) {
    iterator_.emplace(data_.iterator(++pass_));
    parts = iterator_->next();
  }
  return parts;
}

BatchFeed::Parts BatchFeed::next(int64_t count, bool epoch_begins) {
  Parts all;
  while (static_cast<int64_t>(all.size()) < count) {
    auto parts = next_one(epoch_begins && all.empty());
    if (!parts) break;
    all.push_back(std::move(*parts));
  }
  return all;
}

std::optional<DistributedDataset::Element> BatchFeed::peek() {
  if (!peeked_) {
    if (!iterator_) iterator_.emplace(data_.iterator(pass_));
    peeked_position_ = position();
    peeked_ = next_one(/*epoch_begins=*/true);
  }
  return peeked_;
}

void BatchFeed::start(int64_t pass) {
  if (peeked_ && pass == pass_) return;
  peeked_.reset();
  pass_ = pass;
  iterator_.emplace(data_.iterator(pass));
}

std::string BatchFeed::position() const {
  if (peeked_) return peeked_position_;
  return iterator_ ? str_cat(pass_, " ", iterator_->position().to_string()) : str_cat(pass_, " ");
}

void BatchFeed::restore(const std::string& position) {
  const size_t space = position.find(' ');
  STRATA_CHECK(space != std::string::npos && space > 0, kDataLoss, "[keras] fit: got '", position,
               "' as the place in the input; expected '<pass> <position>'");
  pass_ = std::stoll(position.substr(0, space));
  peeked_.reset();
  iterator_.emplace(data_.iterator(pass_));
  if (space + 1 < position.size()) {
    iterator_->restore(data::Position::from_string(position.substr(space + 1)));
  }
}

}  // namespace strata::keras::detail
