#include "kernels/kernel_choice.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/cpu_model.h"
#include "kernels/kernel_agreement.h"
#include "support/expect_error.h"

namespace strata::kernels {
namespace {

constexpr int kZen4Family = 0x19;
constexpr int kZen4Model = 0x11;
constexpr int kIntelCore = 6;
constexpr int kSapphireRapids = 0x8F;

KernelChoice zen4(const std::string& overrides) {
  return choose_kernels(CpuIsa::kAvx512, kZen4Family, kZen4Model, {.kernels = overrides});
}

bool products_and_convolutions(const KernelChoice& choice, bool own) {
  for (const KernelClassInfo& info : kKernelClasses) {
    const bool one = info.family() == "matmul" || info.family() == "convolution";
    if (one && choice[info.id] != own) return false;
  }
  return true;
}

TEST(KernelTableTest, HasARowForEachInstructionSetAndNamesThatDiffer) {
  std::set<CpuIsa> sets;
  std::set<std::string_view> names;
  for (const KernelRow& row : kernel_rows()) {
    sets.insert(row.isa);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_LE(row.first_model, row.last_model) << row.name;
  }
  EXPECT_EQ(sets.size(), static_cast<size_t>(kNumCpuIsas));
}

TEST(KernelTableTest, AnUnknownProcessorTakesTheNearestRow) {
  const auto name = [](CpuIsa isa, int family, int model) {
    return nearest_row(isa, family, model).name;
  };
  EXPECT_EQ(name(CpuIsa::kAvx512, kZen4Family, kZen4Model), "zen4-avx512");
  EXPECT_EQ(name(CpuIsa::kAvx512, kZen4Family, 0x7F), "zen4-avx512");
  EXPECT_EQ(name(CpuIsa::kAvx512, kZen4Family + 1, 0), "zen4-avx512");
  EXPECT_EQ(name(CpuIsa::kAvx512, kIntelCore, kSapphireRapids), "sapphire-rapids-avx512");
  EXPECT_EQ(name(CpuIsa::kAvx512, kIntelCore, 0x55), "sapphire-rapids-avx512");
  // The instruction set comes before the family.
  EXPECT_EQ(nearest_row(CpuIsa::kAvx2, kIntelCore, kSapphireRapids).isa, CpuIsa::kAvx2);
  EXPECT_EQ(name(CpuIsa::kBaseline, kZen4Family, kZen4Model), "baseline");
  const KernelRow& row = nearest_row(CpuIsa::kAvx512, kZen4Family, 0x7F);
  EXPECT_FALSE(is_exact(row, CpuIsa::kAvx512, kZen4Family, 0x7F));
  EXPECT_TRUE(is_exact(row, CpuIsa::kAvx512, kZen4Family, kZen4Model));
}

TEST(KernelChoiceTest, OurKernelsRunWhereTheyAreFaster) {
  for (const KernelRow& row : kernel_rows()) {
    const KernelChoice choice = choose_kernels(row.isa, row.family, row.first_model, {});
    EXPECT_EQ(choice.row->name, row.name);
    EXPECT_EQ(choice.name(), std::string(row.name) + "/" + std::to_string(kKernelArithmetic));
    for (const KernelClassInfo& info : kKernelClasses) {
      const double rate = row.rates[info.id];
      const bool wanted = rate == 0 ? info.by_default : rate >= 0.97;
      EXPECT_EQ(choice[info.id], wanted && row.isa >= info.least) << row.name << ' ' << info.name;
    }
  }
}

TEST(KernelChoiceTest, WithoutTheirInstructionsTheyCannot) {
  for (const char* overrides : {"", "strata", "matmul=strata,convolution=strata"}) {
    EXPECT_TRUE(products_and_convolutions(
        choose_kernels(CpuIsa::kBaseline, kZen4Family, kZen4Model, {.kernels = overrides}), false));
  }
}

TEST(KernelChoiceTest, OneVariableOverrides) {
  const KernelChoice none = zen4("libtorch");
  for (const bool own : none.own) EXPECT_FALSE(own);
  EXPECT_EQ(none.name(), "libtorch");
  EXPECT_TRUE(products_and_convolutions(zen4("strata"), true));
  EXPECT_EQ(zen4("convolution.strided=libtorch").name(),
            "zen4-avx512/3 convolution.strided=libtorch");

  const KernelChoice some = zen4("matmul=libtorch, convolution.pointwise=libtorch,relu=libtorch");
  EXPECT_FALSE(some[KernelClass::kMatmulSquare]);
  EXPECT_FALSE(some[KernelClass::kMatmulBatched]);
  EXPECT_FALSE(some[KernelClass::kConvPointwise]);
  EXPECT_TRUE(some[KernelClass::kConvWinograd]);
  EXPECT_FALSE(some[KernelClass::kRelu]);
  EXPECT_TRUE(some[KernelClass::kMaxPool]);
  EXPECT_EQ(some.name(),
            "zen4-avx512/3 matmul=libtorch convolution.pointwise=libtorch relu=libtorch");

  // The last counts; what the row says anyway changes no name.
  EXPECT_EQ(zen4("libtorch,measured").name(), "zen4-avx512/3");
  EXPECT_EQ(zen4("libtorch,matmul=strata,convolution=measured,relu=strata").name().substr(0, 13),
            "zen4-avx512/3");
  const KernelChoice row = zen4("row=sapphire-rapids-avx512");
  EXPECT_EQ(row.name(), "sapphire-rapids-avx512/3");
}

TEST(KernelChoiceTest, WrongValuesSayWhatIsExpected) {
  const auto expect = [](const KernelOverrides& overrides, const std::string& part) {
    expect_error_containing(
        [&] { choose_kernels(CpuIsa::kAvx512, kZen4Family, kZen4Model, overrides); },
        ErrorCode::kInvalidArgument, part);
  };
  expect({.kernels = "mkl"}, "STRATA_KERNELS: got 'mkl'; expected measured, libtorch, strata, or");
  expect({.kernels = "matmul=mkl"}, "expected matmul=measured, matmul=libtorch or matmul=strata");
  expect({.kernels = "products=strata"}, "expected row or one of matmul, convolution, attention");
  expect({.kernels = "strata,"}, "got ''");
  expect({.kernels = "row=zen4-avx2"}, "expected a row for this processor's instruction set: zen4");
  expect({.kernels = "", .matmul = "strange"}, "STRATA_MATMUL: got 'strange'; expected mkl");
  expect({.kernels = "", .conv = "mkl"}, "STRATA_CONV: got 'mkl'; expected mkldnn or strata");
}

TEST(KernelChoiceTest, OldVariablesAreAliases) {
  const KernelChoice choice = choose_kernels(CpuIsa::kAvx512, kZen4Family, kZen4Model,
                                             {.kernels = "", .matmul = "mkl", .conv = "mkldnn"});
  EXPECT_EQ(choice.name(), "zen4-avx512/3 matmul=libtorch convolution=libtorch");
  // The new one comes later.
  EXPECT_EQ(choose_kernels(CpuIsa::kAvx512, kZen4Family, kZen4Model,
                           {.kernels = "matmul=measured", .matmul = "mkl"})
                .name(),
            "zen4-avx512/3");
}

TEST(KernelChoiceTest, ThisProcessorsFollowsFromCpuid) {
  EXPECT_EQ(&kernel_choice(), &kernel_choice());
  EXPECT_EQ(kernel_choice().row->isa, best_cpu_isa());
#if defined(__x86_64__)
  EXPECT_GT(cpu_model().family, 0);
#endif
}

TEST(KernelChoiceTest, AProductsClassFollowsFromItsShape) {
  EXPECT_EQ(matmul_class(64, 10, 128, true), KernelClass::kMatmulSmall);
  EXPECT_EQ(matmul_class(64, 1024, 784, false), KernelClass::kMatmulWide);
  EXPECT_EQ(matmul_class(1024, 64, 784, false), KernelClass::kMatmulTall);
  EXPECT_EQ(matmul_class(512, 512, 512, false), KernelClass::kMatmulSquare);
  EXPECT_EQ(matmul_class(512, 512, 512, true), KernelClass::kMatmulTransposed);
}

TEST(KernelAgreementTest, OtherKernelsAreRefusedUnlessAllowed) {
  require_same_kernels("x has", "a/1", "a/1", false);
  require_same_kernels("x has", "", "a/1", false);
  require_same_kernels("x has", "a/1", "", false);
  require_same_kernels("x has", "b/1", "a/1", true);
  expect_error(
      [] { require_same_kernels("x has", "b/1", "a/1", false); }, ErrorCode::kFailedPrecondition,
      "x has the kernels 'b/1', and this process has 'a/1', which round otherwise; expected the "
      "same: set STRATA_KERNELS alike, or STRATA_KERNELS_MISMATCH=allow to go on with other bits");
}

}  // namespace
}  // namespace strata::kernels
