#pragma once

#include <exception>
#include <iostream>

#include "strata/core/error.h"

namespace strata::tools {

constexpr int kUsageError = 2;  // docs/errors.md

/// The exit status of `command`. What it throws becomes a line on standard error: 2 for arguments
/// that are wrong, else 1.
template <typename Command>
int exit_status_of(const char* program, Command&& command) {
  try {
    return command();
  } catch (const Error& error) {
    std::cerr << program << ": " << error_code_name(error.code()) << ": " << error.what() << '\n';
    return error.code() == ErrorCode::kInvalidArgument ? kUsageError : 1;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace strata::tools
