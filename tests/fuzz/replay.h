#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace strata::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

/// Gives `target` its corpus, tests/fuzz/corpus/<name>/, and then mutations of it:
/// STRATA_FUZZ_INPUTS (2000) or as many as fit into two seconds, chosen by STRATA_FUZZ_SEED (1).
/// An input that takes more than a second of the processor's time fails, and so does one that
/// takes more memory than 512 MiB. What ends the process leaves its input in a file, which is
/// named: `strata_fuzz_<name> FILE` of the preset `fuzz` shows where it came from.
void replay(const char* name, Target target);

}  // namespace strata::fuzz

#define STRATA_REPLAY(suite, name)                    \
  extern "C" int fuzz_##name(const uint8_t*, size_t); \
  TEST(suite, TakesOrRefusesWhateverComes) { strata::fuzz::replay(#name, &fuzz_##name); }
