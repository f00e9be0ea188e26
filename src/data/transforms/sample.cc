#include <algorithm>
#include <limits>

#include "data/element_specs.h"
#include "data/random.h"
#include "data/transforms/functions.h"

namespace strata::data::detail {
namespace {

std::vector<std::unique_ptr<ExampleStream>> open_all(const std::vector<SourcePtr>& inputs,
                                                     uint64_t epoch) {
  std::vector<std::unique_ptr<ExampleStream>> streams;
  streams.reserve(inputs.size());
  for (const SourcePtr& input : inputs) streams.push_back(input->examples(epoch));
  return streams;
}

class SampleStream final : public ExampleStream {
 public:
  SampleStream(const std::vector<SourcePtr>& inputs, uint64_t epoch,
               const std::vector<double>& cumulative, bool stop_on_empty, RandomStream random)
      : inputs_(open_all(inputs, epoch)),
        cumulative_(cumulative),
        stop_on_empty_(stop_on_empty),
        random_(random),
        ended_(inputs.size()) {}

  bool next(Example& out) override {
    while (!all_ended_) {
      const size_t drawn = draw();
      if (!ended_[drawn]) {
        if (inputs_[drawn]->next(out)) return true;
        ended_[drawn] = true;
        all_ended_ = stop_on_empty_ || none_left();
      }
    }
    return false;
  }

  Position position() const override {
    std::vector<Position> children;
    for (const auto& input : inputs_) children.push_back(input->position());
    return Position("sample", {draws_, all_ended_ ? 1 : 0}, std::move(children));
  }

  void restore(const Position& position) override {
    expect_position(position, "sample", 2, inputs_.size());
    draws_ = position_number(position, 0, 0, std::numeric_limits<int64_t>::max() - 1);
    all_ended_ = position_number(position, 1, 0, 1) == 1;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->restore(position.children()[i]);
  }

 private:
  size_t draw() {
    const double uniform =
        static_cast<double>(random_.bits(static_cast<uint64_t>(draws_++)) >> 11) * 0x1p-53;
    const auto above =
        std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * cumulative_.back());
    return static_cast<size_t>(std::min(above, cumulative_.end() - 1) - cumulative_.begin());
  }

  // Those that are never drawn do not count.
  bool none_left() const {
    for (size_t i = 0; i < ended_.size(); ++i) {
      if (!ended_[i] && cumulative_[i] > (i == 0 ? 0 : cumulative_[i - 1])) return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<ExampleStream>> inputs_;
  const std::vector<double>& cumulative_;
  const bool stop_on_empty_;
  const RandomStream random_;
  std::vector<bool> ended_;
  bool all_ended_ = false;
  int64_t draws_ = 0;
};

class SampleSource final : public Source {
 public:
  SampleSource(std::vector<SourcePtr> inputs, const SampleOptions& options)
      : inputs_(std::move(inputs)), options_(options) {
    double sum = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      sum += options_.weights.empty() ? 1 : options_.weights[i];
      cumulative_.push_back(sum);
    }
  }

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    const RandomStream random(options_.seed, options_.rerandomize_each_iteration ? epoch : 0,
                              most_shuffles(inputs_));
    return std::make_unique<SampleStream>(inputs_, epoch, cumulative_,
                                          options_.stop_on_empty_dataset, random);
  }

  int64_t cardinality() const override {
    int64_t sum = 0;
    bool unknown = options_.stop_on_empty_dataset, infinite = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!options_.weights.empty() && options_.weights[i] == 0) continue;
      const int64_t n = inputs_[i]->cardinality();
      infinite |= n == Dataset::kInfinite;
      unknown |= n == Dataset::kUnknown;
      if (n > 0) sum += n;
    }
    if (options_.stop_on_empty_dataset) return Dataset::kUnknown;
    if (infinite) return Dataset::kInfinite;
    return unknown ? Dataset::kUnknown : sum;
  }
  std::optional<int64_t> batch_size() const override {
    const auto size = inputs_.front()->batch_size();
    for (const SourcePtr& input : inputs_)
      if (input->batch_size() != size) return std::nullopt;
    return size;
  }
  std::optional<ElementSpec> element_spec() const override { return common_spec(inputs_); }
  uint64_t num_shuffles() const override { return most_shuffles(inputs_) + 1; }
  std::vector<SourcePtr> inputs() const override { return inputs_; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_sample(std::move(inputs), options_);
  }

 private:
  std::vector<SourcePtr> inputs_;
  SampleOptions options_;
  std::vector<double> cumulative_;  // weights, added up
};

class ChooseStream final : public ExampleStream {
 public:
  ChooseStream(const std::vector<SourcePtr>& inputs, std::unique_ptr<ExampleStream> choices,
               uint64_t epoch, bool stop_on_empty)
      : inputs_(open_all(inputs, epoch)),
        choices_(std::move(choices)),
        stop_on_empty_(stop_on_empty),
        ended_(inputs.size()) {}

  bool next(Example& out) override {
    Example choice;
    while (!stopped_ && choices_->next(choice)) {
      const size_t chosen = number_of(choice);
      if (!ended_[chosen]) {
        if (inputs_[chosen]->next(out)) return true;
        ended_[chosen] = true;
      }
      stopped_ = stop_on_empty_ || std::find(ended_.begin(), ended_.end(), false) == ended_.end();
    }
    return false;
  }

  Position position() const override {
    std::vector<Position> children{choices_->position()};
    for (const auto& input : inputs_) children.push_back(input->position());
    return Position("choose", {stopped_ ? 1 : 0}, std::move(children));
  }

  void restore(const Position& position) override {
    expect_position(position, "choose", 1, inputs_.size() + 1);
    stopped_ = position_number(position, 0, 0, 1) == 1;
    choices_->restore(position.children()[0]);
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->restore(position.children()[i + 1]);
  }

 private:
  size_t number_of(const Example& choice) const {
    STRATA_CHECK(
        choice.size() == 1 && choice[0].scalar_type() == at::kLong && choice[0].numel() == 1,
        kInvalidArgument,
        "[data] choose_from_datasets: got a choice that is no int64 scalar; expected the "
        "number of a dataset");
    const int64_t number = choice[0].item<int64_t>();
    STRATA_CHECK(number >= 0 && number < static_cast<int64_t>(inputs_.size()), kInvalidArgument,
                 "[data] choose_from_datasets: got choice ", number, " among ", inputs_.size(),
                 " datasets; expected 0 up to their number, excluded");
    return static_cast<size_t>(number);
  }

  std::vector<std::unique_ptr<ExampleStream>> inputs_;
  std::unique_ptr<ExampleStream> choices_;
  const bool stop_on_empty_;
  std::vector<bool> ended_;
  bool stopped_ = false;
};

class ChooseSource final : public Source {
 public:
  ChooseSource(std::vector<SourcePtr> inputs, SourcePtr choices, bool stop_on_empty)
      : inputs_(std::move(inputs)), choices_(std::move(choices)), stop_on_empty_(stop_on_empty) {}

  std::unique_ptr<ExampleStream> examples(uint64_t epoch) const override {
    return std::make_unique<ChooseStream>(inputs_, choices_->examples(epoch), epoch,
                                          stop_on_empty_);
  }
  int64_t cardinality() const override {
    return choices_->cardinality() == 0 ? 0 : Dataset::kUnknown;
  }
  std::optional<ElementSpec> element_spec() const override { return common_spec(inputs_); }
  uint64_t num_shuffles() const override {
    return std::max(most_shuffles(inputs_), choices_->num_shuffles());
  }
  std::vector<SourcePtr> inputs() const override {
    std::vector<SourcePtr> all = inputs_;
    all.push_back(choices_);
    return all;
  }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    SourcePtr choices = std::move(inputs.back());
    inputs.pop_back();
    return make_choose(std::move(inputs), std::move(choices), stop_on_empty_);
  }

 private:
  std::vector<SourcePtr> inputs_;
  SourcePtr choices_;
  bool stop_on_empty_;
};

}  // namespace

SourcePtr make_sample(std::vector<SourcePtr> inputs, const SampleOptions& options) {
  return std::make_shared<SampleSource>(std::move(inputs), options);
}

SourcePtr make_choose(std::vector<SourcePtr> inputs, SourcePtr choices, bool stop_on_empty) {
  return std::make_shared<ChooseSource>(std::move(inputs), std::move(choices), stop_on_empty);
}

}  // namespace strata::data::detail
