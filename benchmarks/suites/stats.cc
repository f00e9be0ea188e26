#include "suites/stats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "strata/core/str_cat.h"

namespace strata::bench {

std::string size_name(int64_t bytes) {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (bytes % 1'000'000 == 0) return str_cat(bytes / 1'000'000, "MB");
  if (bytes >= kMiB) return str_cat(bytes / kMiB, "MiB");
  return bytes >= kKiB ? str_cat(bytes / kKiB, "KiB") : str_cat(bytes, "B");
}

Estimate estimate(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  Estimate result;
  result.median = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
  // The median lies below the k-th smallest value with probability P(Binomial(n, 1/2) < k). Take
  // the largest k that keeps this at 5 % a side.
  double probability = std::pow(0.5, static_cast<double>(n)), below = probability;
  size_t k = 0;
  while (below <= 0.05 && k + 1 < n / 2) {
    ++k;
    probability *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += probability;
  }
  const size_t first = k > 0 ? k - 1 : 0;
  result.low = values[first];
  result.high = values[n - 1 - first];
  return result;
}

JsonLine& JsonLine::add(const std::string& key, const std::string& value) {
  text_ += (text_.empty() ? "{\"" : ", \"") + key + "\": \"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  text_ += '"';
  return *this;
}

JsonLine& JsonLine::add(const std::string& key, double value) {
  char number[32];
  std::snprintf(number, sizeof(number), "%.6g", value);
  text_ += (text_.empty() ? "{\"" : ", \"") + key + "\": " + number;
  return *this;
}

void JsonLine::print() const { std::cout << text_ << "}" << std::endl; }

}  // namespace strata::bench
