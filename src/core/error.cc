#include "strata/core/error.h"

#include <array>
#include <new>
#include <utility>

namespace strata {

std::string_view error_code_name(ErrorCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {"OK",
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
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(message), code_(code) {}

Status::Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

Status Status::from_current_exception() {
  Status status;
  status.exception_ = std::current_exception();
  try {
    throw;
  } catch (const Error& error) {
    status.code_ = error.code();
    status.message_ = error.what();
  } catch (const std::bad_alloc&) {
    status.code_ = ErrorCode::kResourceExhausted;
    status.message_ = "out of memory";
  } catch (const std::exception& error) {
    status.code_ = ErrorCode::kUnknown;
    status.message_ = error.what();
  } catch (...) {
    status.code_ = ErrorCode::kUnknown;
    status.message_ = "an exception that is not a std::exception";
  }
  return status;
}

void Status::throw_if_error() const {
  if (ok()) return;
  if (exception_) std::rethrow_exception(exception_);
  throw Error(code_, message_);
}

namespace detail {

void throw_error(ErrorCode code, const std::string& message) { throw Error(code, message); }

void throw_internal(const char* condition, const char* file, int line) {
  throw Error(ErrorCode::kInternal,
              str_cat("[strata] internal error at ", file, ":", line, ": expected ", condition,
                      "; this is a bug in strata, please report it"));
}

}  // namespace detail
}  // namespace strata
