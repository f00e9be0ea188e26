// optimizers::legacy against TensorFlow 2.15's (tests/golden/legacy_optimizers.json): gradients of rows,
// of whole variables, and of both in turn, on one device and cut over two; and touched_rows_only of
// today's optimizers.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "optim/golden.h"
#include "strata/optim/legacy_optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"
#include "support/replicas.h"

namespace strata::optimizers {
namespace {

using nlohmann::json;

at::Tensor doubles_of(const json& array) {
  return at::tensor(array["data"].get<std::vector<double>>(), at::kDouble)
      .view(array["shape"].get<std::vector<int64_t>>());
}

template <typename O, typename Options>
std::unique_ptr<Optimizer> with_options(const json& given, Options options) {
  options.learning_rate = given["learning_rate"].get<double>();
  Options::Rule::visit_options(
      [&](const char* key, auto& value) { value = given.value(key, value); }, options);
  return std::make_unique<O>(options);
}

std::unique_ptr<Optimizer> make_legacy(const std::string& name, const json& given) {
  if (name == "SGD") return with_options<legacy::SGD>(given, SGDOptions());
  if (name == "Adagrad") return with_options<legacy::Adagrad>(given, legacy::AdagradOptions());
  if (name == "RMSprop") return with_options<legacy::RMSprop>(given, legacy::RMSpropOptions());
  if (name == "Adadelta") return with_options<legacy::Adadelta>(given, AdadeltaOptions());
  if (name == "Adamax") return with_options<legacy::Adamax>(given, AdamaxOptions());
  EXPECT_EQ(name, "Ftrl");
  return with_options<legacy::Ftrl>(given, FtrlOptions());
}

/// Replica `replica`'s part of a gradient: every second row; `sizes` is the variable's.
at::Tensor part_of(const json& step, at::IntArrayRef sizes, int replica, int replicas) {
  const at::Tensor values = doubles_of(step["values"]);
  const at::Tensor mine =
      at::arange(values.size(0)).remainder(replicas).eq(replica).nonzero().squeeze(1);
  if (step["rows"].is_null()) {
    return at::zeros_like(values).index_copy_(0, mine, values.index_select(0, mine));
  }
  const at::Tensor rows = at::tensor(step["rows"].get<std::vector<int64_t>>(), at::kLong);
  return at::sparse_coo_tensor(rows.index_select(0, mine).unsqueeze(0),
                               values.index_select(0, mine), sizes);
}

/// The largest difference from the weights that TensorFlow has after any step.
double difference_of(Strategy& strategy, const json& test) {
  std::vector<Variable> table;
  strategy.scope([&] { table.emplace_back(doubles_of(test["table"])); });
  const auto optimizer = make_legacy(test["optimizer"], test["options"]);
  optimizer->build(table);
  double largest = 0;
  for (const json& step : test["steps"]) {
    strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      optimizer->apply_gradients(
          {part_of(step, table[0].value().sizes(), id, strategy.num_replicas_in_sync())});
    });
    const at::Tensor error = (table[0].value().detach() - doubles_of(step["table"])).abs();
    largest = std::max(largest, error.max().item<double>());
  }
  return largest;
}

void expect_tensorflows(int replicas) {
  const json golden = read_golden("legacy_optimizers.json");
  ASSERT_EQ(golden["cases"].size(), 45u);
  MirroredStrategy strategy({.devices = cpus(replicas), .seed = 1});
  for (const json& test : golden["cases"]) {
    EXPECT_LE(difference_of(strategy, test), 1e-9)
        << test["optimizer"] << test["options"] << test["kind"];
  }
}

TEST(LegacyOptimizersTest, OnOneDevice) { expect_tensorflows(1); }
TEST(LegacyOptimizersTest, CutOverTwoReplicas) { expect_tensorflows(2); }

/// Weights after two steps by gradients of rows 1 and 3, and then of row 3 alone.
template <typename O, typename Options>
at::Tensor table_after_rows(Options options) {
  MirroredStrategy strategy({.devices = cpus(2), .seed = 1});
  std::vector<Variable> table;
  strategy.scope([&] { table.emplace_back(at::ones({5, 2})); });
  O optimizer(table, options);
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{1, 3}, std::vector<int64_t>{3}}) {
    const at::Tensor indices = at::tensor(rows, at::kLong).unsqueeze(0);
    const at::Tensor values = at::ones({indices.size(1), 2});
    strategy.run([&] {
      optimizer.apply_gradients({at::sparse_coo_tensor(indices, values, {5, 2})});
    });
  }
  return table[0].value().detach().clone();
}

TEST(TouchedRowsOnlyTest, RowsWithoutAGradientStay) {
  const at::Tensor all = table_after_rows<Adam>(AdamOptions{.learning_rate = 0.1});
  const at::Tensor touched =
      table_after_rows<Adam>(AdamOptions{.learning_rate = 0.1, .touched_rows_only = true});
  EXPECT_TRUE(at::equal(touched[3], all[3]));
  EXPECT_FALSE(at::equal(touched[1], all[1]));  // its momentum moves it in the second step
  EXPECT_TRUE(at::equal(touched[0], at::ones({2})));

  const at::Tensor decayed = table_after_rows<AdamW>(
      AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.5, .touched_rows_only = true});
  EXPECT_TRUE(at::equal(decayed[0], at::ones({2})));  // decay is of what is touched, too
  EXPECT_FALSE(at::equal(decayed[3], touched[3]));
}

TEST(TouchedRowsOnlyTest, NotWithAccumulation) {
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"touched_rows_only", "gradient_accumulation_steps 2", "expected one of them"},
                     [] { Adam({.gradient_accumulation_steps = 2, .touched_rows_only = true}); }));
}

}  // namespace
}  // namespace strata::optimizers
