// SLURM's short forms of lists.
#include <cctype>

#include "fuzz/fuzz_target.h"
#include "strata/cluster/slurm_resolver.h"

namespace {

// Without the digits behind the first of each number: long lists are slow, and say nothing new.
std::string with_short_numbers(std::string_view text) {
  std::string kept;
  int digits = 0;
  for (const char c : text) {
    digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits <= 1) kept += c;
  }
  return kept;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  std::string text(strata::fuzz::text_of(data, size));
  if (size % 32 != 31) text = with_short_numbers(text);
  (void)strata::fuzz::takes([&] { (void)expand_host_list(text); });
  (void)strata::fuzz::takes([&] { (void)expand_tasks_per_node(text); });
  return 0;
}
