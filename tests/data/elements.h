#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/data/dataset.h"

namespace strata::data {

/// Everything about an element, as text: "Long[2](0,1) Float[](0.5)".
std::string describe(const Example& element);

/// The first `limit` elements of an epoch, described.
std::vector<std::string> describe(const Dataset& dataset, int64_t epoch = 0, int64_t limit = 1000);
std::vector<std::string> describe_rest(Iterator& iterator, int64_t limit = 1000);

/// The values of field 0 of each element, as integers.
std::vector<std::vector<int64_t>> rows_of(const Dataset& dataset, int64_t epoch = 0,
                                          int64_t limit = 1000);

/// The same, all in one.
std::vector<int64_t> values_of(const Dataset& dataset, int64_t epoch = 0, int64_t limit = 1000);

at::Tensor longs(std::vector<int64_t> values);
at::Tensor floats(std::vector<float> values, std::vector<int64_t> sizes);

/// What happened, without where: libtorch's errors tell of the calls, too.
inline std::string first_line(const std::exception& error) {
  const std::string what = error.what();
  return what.substr(0, what.find('\n'));
}

/// 0 .. n-1 as int64 scalars from a generator, whose elements are no rows of anything.
Dataset counting_generator(int64_t n);

/// Expects `call` to throw an Error of `code` whose message holds every part.
void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                  const std::function<void()>& call);

}  // namespace strata::data
