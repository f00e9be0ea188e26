#include "strata/core/error.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(ErrorTest, EveryCodeHasTensorFlowsNameAndNumber) {
  const char* names[] = {"OK",
                         "CANCELLED",
                         "UNKNOWN",
                         "INVALID_ARGUMENT",
                         "DEADLINE_EXCEEDED",
                         "NOT_FOUND",
                         "ALREADY_EXISTS",
                         "PERMISSION_DENIED",
                         "RESOURCE_EXHAUSTED",
                         "FAILED_PRECONDITION",
                         "ABORTED",
                         "OUT_OF_RANGE",
                         "UNIMPLEMENTED",
                         "INTERNAL",
                         "UNAVAILABLE",
                         "DATA_LOSS",
                         "UNAUTHENTICATED"};
  for (int code = 0; code < 17; ++code) {
    EXPECT_EQ(error_code_name(static_cast<ErrorCode>(code)), names[code]);
  }
  EXPECT_EQ(error_code_name(static_cast<ErrorCode>(99)), "UNKNOWN");
}

TEST(ErrorTest, CheckThrowsTheCodeAndTheConcatenatedMessage) {
  try {
    STRATA_CHECK(1 + 1 == 3, kOutOfRange, "[core] sum: got ", 2, "; expected ", 3);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_STREQ(error.what(), "[core] sum: got 2; expected 3");
  }
}

TEST(ErrorTest, DcheckNamesTheConditionAndTheFile) {
  try {
    STRATA_DCHECK(2 < 1);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("2 < 1"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("error_test.cc"), std::string::npos);
  }
}

TEST(StatusTest, KeepsTheCallersOwnExceptionType) {
  Status status;
  try {
    throw std::out_of_range("theirs");
  } catch (...) {
    status = Status::from_current_exception();
  }
  EXPECT_EQ(status.code(), ErrorCode::kUnknown);
  EXPECT_EQ(status.message(), "theirs");
  EXPECT_THROW(status.throw_if_error(), std::out_of_range);
}

TEST(StatusTest, KnowsErrorAndThingsThatAreNoException) {
  Status status;
  try {
    throw Error(ErrorCode::kAborted, "gone");
  } catch (...) {
    status = Status::from_current_exception();
  }
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_EQ(status.message(), "gone");
  try {
    throw 7;
  } catch (...) {
    status = Status::from_current_exception();
  }
  EXPECT_EQ(status.code(), ErrorCode::kUnknown);
  EXPECT_FALSE(status.ok());
}

TEST(StatusTest, OkThrowsNothingAndAMadeOneThrowsError) {
  EXPECT_NO_THROW(Status().throw_if_error());
  const Status status(ErrorCode::kNotFound, "no such device");
  EXPECT_THROW(status.throw_if_error(), Error);
}

}  // namespace
}  // namespace strata
