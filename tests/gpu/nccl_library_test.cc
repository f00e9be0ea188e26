// How NCCL's library is found, and what is said where it is not usable.
#include "collective/nccl/nccl_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "collective/nccl/nccl_types.h"
#include "strata/core/str_cat.h"
#include "support/expect_error.h"

namespace strata::collective::nccl {
namespace {

constexpr const char* kFakeLibrary = STRATA_FAKE_NCCL_LIBRARY;

std::string why_not(const std::string& path) {
  Library library{};
  std::string why;
  EXPECT_FALSE(open(path, library, why));
  return why;
}

TEST(NcclLibraryTest, SaysWhatIsMissing) {
  EXPECT_NE(why_not("/nonexistent/libnccl.so.2").find("/nonexistent/libnccl.so.2: cannot open"),
            std::string::npos);
  EXPECT_EQ(why_not("libm.so.6"), "libm.so.6 does not say its version: it is no NCCL");
  const std::string unfinished = STRATA_UNFINISHED_NCCL_LIBRARY;
  EXPECT_EQ(why_not(unfinished), str_cat(unfinished, " has no ncclGetUniqueId"));
  ::setenv("STRATA_FAKE_NCCL", "version=21705", 1);
  EXPECT_EQ(why_not(kFakeLibrary),
            str_cat(kFakeLibrary, " is NCCL 2.17.5, and strata needs 2.18.0 or later"));
  ::unsetenv("STRATA_FAKE_NCCL");
}

TEST(NcclLibraryTest, TakesVersionsFromTheOldestOn) {
  ::setenv("STRATA_FAKE_NCCL", "version=21805", 1);
  Library library{};
  std::string why;
  EXPECT_TRUE(open(kFakeLibrary, library, why)) << why;
  EXPECT_EQ(library.version, 21805);
  ::unsetenv("STRATA_FAKE_NCCL");
}

// In a process of its own, since a process looks once.
void print_what_require_throws() {
  ::setenv(kLibraryVariable, "/nonexistent/libnccl.so.2", 1);
  std::string why;
  if (find(&why) != nullptr) std::exit(1);
  try {
    require("some_caller");
  } catch (const Error& error) {
    std::cerr << error.what();
    std::exit(error.code() == ErrorCode::kUnimplemented ? 0 : 1);
  }
  std::exit(1);
}

TEST(NcclLibraryDeathTest, RequireSaysHowToGetIt) {
  EXPECT_EXIT(
      print_what_require_throws(), testing::ExitedWithCode(0),
      "\\[some_caller\\] NCCL is missing: /nonexistent/libnccl.so.2: cannot open.*; install "
      "PyTorch with CUDA, which brings it \\(pip install torch\\), or set STRATA_NCCL=PATH to "
      "the file of NCCL's library");
}

TEST(NcclLibraryTest, OpensTheOneThatTheEnvironmentNames) {
  ::setenv(kLibraryVariable, kFakeLibrary, 1);
  const Library* const library = find();
  ASSERT_NE(library, nullptr);
  ::setenv(kLibraryVariable, "/nonexistent/libnccl.so.2", 1);
  EXPECT_EQ(&require("nccl_library_test"), library);  // once a process
  EXPECT_EQ(library->version, NCCL_VERSION_CODE);

  ncclUniqueId id;
  check(library->get_unique_id(&id), "ncclGetUniqueId", "nccl_library_test");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  check(library->comm_init_rank_config(&comm, 1, id, 0, &config), "ncclCommInitRankConfig",
        "nccl_library_test");
  int ranks = 0;
  check(library->comm_count(comm, &ranks), "ncclCommCount", "nccl_library_test");
  EXPECT_EQ(ranks, 1);
  expect_error(
      [&] {
        check(library->broadcast(nullptr, nullptr, 1, ncclInt8, 3, comm, nullptr), "ncclBroadcast",
              "nccl_library_test", comm);
      },
      ErrorCode::kUnavailable,
      "[nccl_library_test] ncclBroadcast: invalid argument: ncclBroadcast: rank 3 of 1; set "
      "NCCL_DEBUG=INFO for NCCL's own account");
  check(library->comm_destroy(comm), "ncclCommDestroy", "nccl_library_test");
}

TEST(NcclTypesTest, AreNcclsOwn) {
  const std::pair<at::ScalarType, ncclDataType_t> types[] = {
      {at::kFloat, ncclFloat32},     {at::kDouble, ncclFloat64}, {at::kHalf, ncclFloat16},
      {at::kBFloat16, ncclBfloat16}, {at::kChar, ncclInt8},      {at::kByte, ncclUint8},
      {at::kInt, ncclInt32},         {at::kLong, ncclInt64}};
  for (const auto& [dtype, type] : types) EXPECT_EQ(data_type(dtype, "test"), type);
  const std::pair<ReduceOp, ncclRedOp_t> ops[] = {{ReduceOp::kSum, ncclSum},
                                                  {ReduceOp::kMean, ncclAvg},
                                                  {ReduceOp::kMin, ncclMin},
                                                  {ReduceOp::kMax, ncclMax}};
  for (const auto& [op, expected] : ops) EXPECT_EQ(reduction(op), expected);
  expect_error(
      [] { data_type(at::kBool, "test"); },
      "[test] got dtype Bool; expected a float of 16 to 64 bits, int8, uint8, int32 or int64");
}

}  // namespace
}  // namespace strata::collective::nccl
