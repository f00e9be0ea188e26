// An error of a server gets the line of the program at the client. Compiled with -g1.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "core/thread.h"
#include "standalone/programs.h"
#include "strategies/standalone/server.h"
#include "support/expect_error.h"

// Not strata's namespace: what is in that is strata's own.
namespace program {
namespace {

using at::Tensor;
using strata::ErrorCode;
using strata::expect_error_containing;
using strata::str_cat;

TEST(StandalonePlacesTest, ErrorsOfServersNameTheLine) {
  strata::standalone::StandaloneServer server({.keep = std::chrono::seconds(30)});
  const strata::Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  strata::MirroredStrategy strategy(strata::test::client_of({server.address()}));
  const int inverse = __LINE__ + 2;
  const auto refused =
      strata::function([](const Tensor& x) { return std::get<0>(at::linalg_inv_ex(x)); });
  const auto run_refused = [&] { strategy.run(refused, at::eye(3)); };
  expect_error_containing(run_refused, ErrorCode::kUnimplemented,
                          "(aten::linalg_inv_ex; called at ");
  expect_error_containing(run_refused, ErrorCode::kUnimplemented,
                          str_cat("places_test.cc:", inverse, " ("));
  expect_error_containing(run_refused, ErrorCode::kUnimplemented,
                          ") is no operator that a server runs");
  const int embedding = __LINE__ + 2;
  const auto looked_up = strata::function(
      [](const Tensor& table, const Tensor& rows) { return at::embedding(table, rows); });
  const auto run_looked_up = [&] {
    strategy.run(looked_up, at::ones({4, 2}), at::full({1}, 7, at::kLong));
  };
  expect_error_containing(run_looked_up, ErrorCode::kInvalidArgument,
                          "(aten::embedding; called at ");
  expect_error_containing(run_looked_up, ErrorCode::kInvalidArgument,
                          str_cat("places_test.cc:", embedding, " ("));
  strategy.close();
}

}  // namespace
}  // namespace program
