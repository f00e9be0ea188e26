#include "core/cpu_isa.h"

#include <gtest/gtest.h>

#include <string>

#include "strata/core/error.h"

namespace strata {
namespace {

using detail::chosen_cpu_isa;

TEST(CpuIsaTest, TheWidestUnlessOneIsNamed) {
  const CpuIsa widest = chosen_cpu_isa(nullptr);
  EXPECT_EQ(chosen_cpu_isa(""), widest);
  EXPECT_TRUE(cpu_supports(widest));
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (cpu_supports(isa)) {
      EXPECT_GE(widest, isa);
    }
  }
  EXPECT_EQ(chosen_cpu_isa("baseline"), CpuIsa::kBaseline);
  if (cpu_supports(CpuIsa::kAvx2)) {
    EXPECT_EQ(chosen_cpu_isa("avx2"), CpuIsa::kAvx2);
  }
}

TEST(CpuIsaTest, OtherNamesAreErrors) {
  for (const char* name : {"AVX2", "sse", "avx512 "}) {
    try {
      chosen_cpu_isa(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("expected baseline, avx2 or avx512"),
                std::string::npos);
    }
  }
}

TEST(CpuIsaTest, OneThatTheProcessorLacksIsAnError) {
  const auto old = [](CpuIsa isa) { return isa == CpuIsa::kBaseline; };
  EXPECT_EQ(chosen_cpu_isa(nullptr, old), CpuIsa::kBaseline);
  for (const char* name : {"avx2", "avx512"}) {
    try {
      chosen_cpu_isa(name, old);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace strata
