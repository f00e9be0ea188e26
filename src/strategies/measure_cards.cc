#include "strategies/measure_cards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <string>

#include "collective/cards/card_communicator.h"
#include "strata/core/error.h"
#include "strategies/cards_of_process.h"
#include "tensor/stream_event.h"

namespace strata::detail {
namespace {

using collective::CardCommunicator;
using collective::SumTiming;
using Clock = std::chrono::steady_clock;

constexpr int kMostCalls = 1000;

struct Way {
  const char* name;
  const char* implementation;
  collective::Order order;
};

constexpr Way kWays[] = {{"copies, fixed order", "AUTO", collective::Order::kFixed},
                         {"NCCL, fixed order", "NCCL", collective::Order::kFixed},
                         {"NCCL, any order", "NCCL", collective::Order::kAny}};

class Measurement {
 public:
  Measurement(CardCommunicator& cards, int64_t bytes) : cards_(cards) {
    for (const c10::Device& device : cards.devices()) {
      values_.push_back(at::zeros({bytes / static_cast<int64_t>(sizeof(float))},
                                  at::TensorOptions(at::kFloat).device(device)));
      tensor::current_stream(device).synchronize();  // ready for any other
    }
  }

  /// Seconds from the first of `calls` until the last has ended on all cards.
  double seconds_of(int calls) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) cards_.all_reduce(values_, ReduceOp::kSum, "measurement");
    for (const c10::Stream& stream : cards_.streams()) stream.synchronize();
    const std::chrono::duration<double> took = Clock::now() - begin;
    cards_.status().throw_if_error();
    return took.count();
  }

 private:
  CardCommunicator& cards_;
  std::vector<at::Tensor> values_;
};

SumTiming::Size measure(CardCommunicator& cards, int64_t bytes,
                        const MeasureCardsOptions& options) {
  const at::NoGradGuard no_grad;
  Measurement measurement(cards, bytes);
  measurement.seconds_of(1);  // makes connections, and takes memory
  const double alone = std::max(measurement.seconds_of(1), 1e-9);
  const auto calls =
      static_cast<int>(std::clamp<double>(options.sample_time.count() / alone, 1, kMostCalls));
  std::vector<double> seconds;
  for (int i = 0; i < options.samples; ++i)
    seconds.push_back(measurement.seconds_of(calls) / calls);
  std::ranges::sort(seconds);
  const auto quantile = [&](double part) {
    return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1))];
  };
  return {.bytes = bytes, .median = quantile(0.5), .low = quantile(0.25), .high = quantile(0.75)};
}

}  // namespace

std::vector<SumTiming> measure_cards(const std::vector<LogicalDevice>& devices,
                                     const MeasureCardsOptions& options) {
  STRATA_DCHECK(options.samples > 0);
  std::vector<SumTiming> timings;
  for (const Way& way : kWays) {
    SumTiming& timing = timings.emplace_back(SumTiming{.way = way.name});
    std::shared_ptr<CardCommunicator> cards;
    try {
      cards = cards_of_process(devices, {.order = way.order,
                                         .timeout = std::chrono::minutes(1),
                                         .implementation = way.implementation});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFailedPrecondition) throw;  // else there is no NCCL
      timing.why_not = error.what();
      continue;
    }
    STRATA_CHECK(cards, kInvalidArgument, "[measure_cards] got ", devices.size(),
                 " devices; expected two GPUs or more");
    for (const int64_t bytes : options.bytes) {
      timing.sizes.push_back(measure(*cards, bytes, options));
    }
  }
  return timings;
}

}  // namespace strata::detail
