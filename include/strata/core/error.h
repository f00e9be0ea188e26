#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "strata/core/export.h"
#include "strata/core/str_cat.h"

namespace strata {

/// TensorFlow's canonical codes, with its numbers. Retry on the code, never on the text.
enum class ErrorCode {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// "INVALID_ARGUMENT" and so on, as TensorFlow prints them.
STRATA_API std::string_view error_code_name(ErrorCode code);

/// The one exception type of the public surface. `what()` has the place, what was given, what was
/// expected and how to mend it: `[mirrored_strategy] reduce: got 3 values for 4 replicas; pass one
/// per replica`.
class STRATA_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// An outcome as a value, for crossing threads and (later) processes. Ok unless made from an error.
class STRATA_API Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message);

  /// The current exception as a status; call inside a catch block. The exception itself is kept, so
  /// that `throw_if_error` rethrows the caller's own type.
  static Status from_current_exception();

  bool ok() const noexcept { return code_ == ErrorCode::kOk; }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  /// @throws the kept exception, or Error(code, message), unless ok.
  void throw_if_error() const;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
  std::exception_ptr exception_;
};

namespace detail {
[[noreturn]] STRATA_API void throw_error(ErrorCode code, const std::string& message);
[[noreturn]] STRATA_API void throw_internal(const char* condition, const char* file, int line);
}  // namespace detail

}  // namespace strata

/// Checks the caller's arguments: throws Error(ErrorCode::`code`) with the rest concatenated.
#define STRATA_CHECK(condition, code, ...)                                                      \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::strata::detail::throw_error(::strata::ErrorCode::code, ::strata::str_cat(__VA_ARGS__)); \
  } while (false)

/// Checks strata's own invariants: throws Error(kInternal) that names the condition and the line.
#define STRATA_DCHECK(condition)                                        \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::strata::detail::throw_internal(#condition, __FILE__, __LINE__); \
  } while (false)

namespace strata {

/// An error after which the program ends with an exit code of its own, from which a launcher knows
/// what to do: `Preempted`, for example. `run_main` returns it.
class STRATA_API ExitError : public Error {
 public:
  ExitError(int exit_code, ErrorCode code, const std::string& message)
      : Error(code, message), exit_code_(exit_code) {}

  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace strata
