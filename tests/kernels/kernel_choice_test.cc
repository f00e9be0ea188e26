#include "kernels/kernel_choice.h"

#include <gtest/gtest.h>

#include "core/cpu_isa.h"

namespace strata::kernels {
namespace {

using detail::kernel_choice_for;

constexpr int kZen4 = 0x19;
constexpr int kIntelCore = 6;

// By what a processor can do, not by who made it.
TEST(KernelChoiceTest, OurKernelsRunWhereTheyWin) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    for (const int family : {kZen4, kIntelCore}) {
      EXPECT_TRUE(kernel_choice_for(isa, family).own_products) << family;
      EXPECT_TRUE(kernel_choice_for(isa, family).own_convolutions) << family;
    }
  }
}

TEST(KernelChoiceTest, WithoutFusedMultiplyAddsTheyDoNot) {
  for (const int family : {kZen4, kIntelCore, 0x17, 0}) {
    EXPECT_FALSE(kernel_choice_for(CpuIsa::kBaseline, family).own_products) << family;
    EXPECT_FALSE(kernel_choice_for(CpuIsa::kBaseline, family).own_convolutions) << family;
  }
}

TEST(KernelChoiceTest, AnUnknownFamilyTakesTheRowOfItsInstructions) {
  constexpr int kUnknown = 0x7F;
  EXPECT_TRUE(kernel_choice_for(CpuIsa::kAvx512, kUnknown).own_products);
  EXPECT_STREQ(kernel_choice_for(CpuIsa::kAvx512, kUnknown).measured_on,
               "the nearest: another with AVX-512");
}

TEST(KernelChoiceTest, ThisProcessorsFollowsFromItsInstructions) {
  EXPECT_EQ(kernel_choice().own_products, best_cpu_isa() != CpuIsa::kBaseline);
  EXPECT_EQ(&kernel_choice(), &kernel_choice());
}

}  // namespace
}  // namespace strata::kernels
