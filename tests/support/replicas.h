#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "strata/core/error.h"

namespace strata {

/// "cpu:0" to "cpu:<n - 1>".
inline std::vector<std::string> cpus(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) names.push_back("cpu:" + std::to_string(i));
  return names;
}

/// Whether `fn` throws Error with `code`, whose text holds every one of `parts`.
inline ::testing::AssertionResult throws(ErrorCode code,
                                         std::initializer_list<std::string_view> parts,
                                         const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (error.code() != code) {
      return ::testing::AssertionFailure() << error_code_name(error.code()) << " instead of "
                                           << error_code_name(code) << ": " << error.what();
    }
    for (const std::string_view part : parts) {
      if (std::string_view(error.what()).find(part) == std::string_view::npos) {
        return ::testing::AssertionFailure() << "'" << part << "' is not in: " << error.what();
      }
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << "not a strata::Error: " << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

/// Runs fn(0) to fn(n - 1), each on a thread of its own, and waits for all.
inline void on_threads(int n, const std::function<void(int)>& fn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&fn, i] { fn(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace strata
