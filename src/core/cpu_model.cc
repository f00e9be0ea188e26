#include "core/cpu_model.h"

#include <array>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace strata {
namespace {

#if defined(__x86_64__)

std::string brand() {
  constexpr unsigned kFirst = 0x80000002;
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* const part = words.data() + size_t{4} * i;
    if (__get_cpuid(kFirst + i, part, part + 1, part + 2, part + 3) == 0) return "";
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words.data(), sizeof words);
  std::string_view name(text);
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return std::string(name);
}

CpuModel find_model() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return {};
  const auto bits = [eax](int first, unsigned mask) {
    return static_cast<int>(eax >> first & mask);
  };
  CpuModel found{.family = bits(8, 0xF), .model = bits(4, 0xF), .name = brand()};
  if (found.family == 6 || found.family == 0xF) found.model += bits(16, 0xF) << 4;
  if (found.family == 0xF) found.family += bits(20, 0xFF);
  return found;
}

#else

CpuModel find_model() { return {}; }

#endif

}  // namespace

const CpuModel& cpu_model() {
  static const CpuModel found = find_model();
  return found;
}

}  // namespace strata
