#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "collective/cards/sum_timing.h"
#include "strata/runtime/devices.h"

namespace strata::detail {

struct MeasureCardsOptions {
  std::vector<int64_t> bytes = {1 << 20, 25 << 20, 100 << 20};
  int samples = 15;
  /// A sample is of as many calls as take so long, or one.
  std::chrono::duration<double> sample_time = std::chrono::milliseconds(5);
};

/// Times all-reduces of float32 between this process's GPUs, as strategies make them of gradients: in
/// the fixed order by copies and by NCCL, and in any order by NCCL.
/// @param devices  Two GPUs or more. Between logical ones of one card there is no NCCL.
/// @throws Error  As CardCommunicator's calls. c10::OutOfMemoryError: a card has no room for two values.
/// Cost: a few seconds; nothing else should use the cards meanwhile.
std::vector<collective::SumTiming> measure_cards(const std::vector<LogicalDevice>& devices,
                                                 const MeasureCardsOptions& options = {});

}  // namespace strata::detail
