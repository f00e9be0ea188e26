#include "tools/devices/sums_report.h"

#include <algorithm>
#include <cstdio>

#include "core/join.h"
#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

using collective::SumTiming;

constexpr const char* kReference = "NCCL, any order";

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string size_of(int64_t bytes) {
  constexpr int64_t kMib = 1 << 20;
  return bytes % kMib == 0 ? str_cat(bytes / kMib, " MiB") : str_cat(bytes / 1024, " KiB");
}

// "1.25 ms (1.2-1.31)"
std::string time_of(const SumTiming::Size& size) {
  const bool small = size.median < 1e-3;
  const auto number = [&](double seconds) {
    return fixed(seconds * (small ? 1e6 : 1e3), small ? 1 : 2);
  };
  return str_cat(number(size.median), small ? " us (" : " ms (", number(size.low), "-",
                 number(size.high), ")");
}

const SumTiming::Size* reference_of(const std::vector<SumTiming>& timings, int64_t bytes) {
  for (const SumTiming& timing : timings) {
    if (timing.way != kReference) continue;
    for (const SumTiming::Size& size : timing.sizes) {
      if (size.bytes == bytes) return &size;
    }
  }
  return nullptr;
}

}  // namespace

std::string sums_report(const std::vector<std::string>& devices,
                        const std::vector<SumTiming>& timings) {
  std::string text = str_cat(
      "\nall-reduce of float32 between ", join(devices),
      ": median time of a call (quartiles), bytes / time, time against that of ", kReference, "\n");
  for (const SumTiming& timing : timings) {
    const std::string way = padded(timing.way, 21);
    if (!timing.why_not.empty()) text += str_cat(way, "none: ", timing.why_not, "\n");
    for (const SumTiming::Size& size : timing.sizes) {
      text += str_cat(way, padded(size_of(size.bytes), 9), padded(time_of(size), 27),
                      fixed(static_cast<double>(size.bytes) / size.median / 1e9, 2), " GB/s");
      const SumTiming::Size* const reference = reference_of(timings, size.bytes);
      if (reference != nullptr)
        text += str_cat("  ", fixed(size.median / reference->median, 2), "x");
      text += "\n";
    }
  }
  return text;
}

}  // namespace strata::tools
