#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "strata/core/error.h"

namespace strata {

/// Fails unless `call` throws Error with just this code and text.
inline void expect_error(const std::function<void()>& call, ErrorCode code,
                         const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), message.c_str());
  }
}
inline void expect_error(const std::function<void()>& call, const std::string& message) {
  expect_error(call, ErrorCode::kInvalidArgument, message);
}

/// The same where part of the text is the system's, or holds a temporary path.
inline void expect_error_containing(const std::function<void()>& call, ErrorCode code,
                                    const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace strata
