// Tables on servers: what workers push and pull, and what the servers make of it.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <latch>
#include <limits>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "strata/ps/row_table.h"
#include "support/expect_error.h"
#include "tensor/update_rule.h"

namespace strata::ps {
namespace {

using test::PsCluster;

TableSpec flat_table(int64_t elements, int servers, const tensor::RuleOptions& rule) {
  return {.name = "weights",
          .dtype = at::kDouble,
          .rule = rule,
          .parts = cut_evenly(elements, sizeof(double), servers)};
}

TableSpec row_table(int64_t rows, int64_t width, const tensor::RuleOptions& rule) {
  return {.name = "users",
          .dtype = at::kDouble,
          .rule = rule,
          .rows = rows,
          .width = width,
          .initializer = {.kind = RowInitializer::Kind::kUniform, .a = -1, .b = 1, .seed = 5}};
}

at::Tensor doubles(int64_t elements) { return at::zeros({elements}, at::kDouble); }

/// One step of the rule, here.
struct Local {
  explicit Local(const tensor::RuleOptions& options) : rule(tensor::make_rule(options)) {}

  void step(at::Tensor& parameter, const at::Tensor& gradient, const PushOptions& push) {
    if (slots.empty()) {
      for (int i = 0; i < rule->num_slots(); ++i) {
        slots.push_back(at::full_like(parameter, rule->slot_initial_value(i)));
      }
    }
    tensor::UpdateSpan<double> span{.parameter = parameter.mutable_data_ptr<double>(),
                                    .gradient = gradient.const_data_ptr<double>(),
                                    .size = parameter.numel(),
                                    .gradient_scale = push.scale,
                                    .clip_value = push.clip_value,
                                    .weight_decay = push.weight_decay};
    for (size_t i = 0; i < slots.size(); ++i) span.slots[i] = slots[i].mutable_data_ptr<double>();
    rule->apply(span, {.learning_rate = push.learning_rate, .iteration = iteration++});
  }

  std::unique_ptr<tensor::UpdateRule> rule;
  std::vector<at::Tensor> slots;
  int64_t iteration = 0;
};

TEST(FlatTableTest, ServersMakeTheSameStepsAsOneProcess) {
  for (const int servers : {1, 2, 3}) {
    for (const int64_t elements : {1, 7, 1000, 300'000}) {
      const tensor::RuleOptions rule = tensor::AdamRule{};
      PsCluster cluster(servers, 1);
      PsCluster::expect_ok(cluster.run([&](Client& client, int) {
        at::Tensor values = at::randn({elements}, at::kDouble);
        at::Tensor expected = values.clone();
        const auto table = client.create_flat(flat_table(elements, servers, rule), values, true);
        Local local(rule);
        const PushOptions options = {.learning_rate = 0.1, .scale = 0.5, .clip_value = 1};
        for (int step = 0; step < 3; ++step) {
          const at::Tensor gradient = at::randn({elements}, at::kDouble);
          local.step(expected, gradient, options);
          const PushResult result = step % 2 == 0 ? table->push_pull(gradient, values, options)
                                                  : table->push(gradient, options);
          EXPECT_EQ(result.version, step + 1);
          EXPECT_TRUE(result.applied);
          if (step % 2 == 1) table->pull(values);
          EXPECT_TRUE(values.equal(expected)) << servers << " servers, " << elements;
        }
        EXPECT_TRUE(table->read_slot(0).equal(local.slots[0]));
        EXPECT_TRUE(table->read_slot(1).equal(local.slots[1]));
      }));
    }
  }
}

TEST(FlatTableTest, PartsGoWhereTheSpecSays) {
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    TableSpec spec = flat_table(100, 2, tensor::SGDRule{});
    spec.parts = {{0, 10, 1}, {10, 11, 0}, {11, 70, 1}, {70, 100, 0}};
    spec.no_weight_decay = {{5, 12, 0}, {90, 100, 0}};
    at::Tensor values = at::arange(100, at::kDouble);
    const at::Tensor before = values.clone();
    const auto table = client.create_flat(spec, values, true);
    table->push_pull(at::full({100}, 2.0, at::kDouble), values,
                     {.learning_rate = 0.5, .weight_decay = 0.1});
    for (int64_t i = 0; i < 100; ++i) {
      const bool decays = !((i >= 5 && i < 12) || i >= 90);
      const double start = before[i].item<double>();
      EXPECT_DOUBLE_EQ(values[i].item<double>(), start - (decays ? start * 0.05 : 0) - 1) << i;
    }
  }));
}

TEST(FlatTableTest, TheFirstWorkerBringsTheValuesForAll) {
  PsCluster cluster(2, 3);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = at::full({50}, worker + 1.0, at::kDouble);
    const auto table =
        client.create_flat(flat_table(50, 2, tensor::SGDRule{}), values, /*first=*/worker == 1);
    EXPECT_TRUE(values.equal(at::full({50}, 2.0, at::kDouble)));
  }));
}

TEST(FlatTableTest, PushesOfAllWorkersCount) {
  PsCluster cluster(2, 3);
  std::latch all(3);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = doubles(1000);
    const auto table =
        client.create_flat(flat_table(1000, 2, tensor::SGDRule{}), values, worker == 0);
    for (int step = 0; step < 20; ++step) {
      table->push(at::full({1000}, 1.0, at::kDouble), {.learning_rate = 1});
    }
    all.arrive_and_wait();
    table->pull(values);
    EXPECT_TRUE(values.equal(at::full({1000}, -60.0, at::kDouble)));
    EXPECT_EQ(table->version(), 60);
  }));
}

TEST(FlatTableTest, SixteenBitsAreEnoughForAPush) {
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    at::Tensor values = doubles(3000);
    const auto table = client.create_flat(flat_table(3000, 2, tensor::SGDRule{}), values, true);
    const at::Tensor gradient = at::randn({3000}, at::kDouble);
    table->push_pull(gradient, values, {.learning_rate = 1, .precision = PushPrecision::kFloat16});
    EXPECT_TRUE(values.equal(-gradient.to(at::kFloat).to(at::kHalf).to(at::kDouble)));
    values.zero_();
    table->write(values, 0);
    table->push_pull(gradient, values, {.learning_rate = 1, .precision = PushPrecision::kBFloat16});
    EXPECT_TRUE(values.equal(-gradient.to(at::kFloat).to(at::kBFloat16).to(at::kDouble)));
  }));
}

/// As in a replica, whose bits they have; and since some processors take a hundred times as long for them.
TEST(FlatTableTest, DenormalsAreZero) {
  for (const int64_t size : {10, 1 << 20}) {  // by one thread, and by two
    SCOPED_TRACE(size);
    PsCluster cluster(1, 1);
    PsCluster::expect_ok(cluster.run([&](Client& client, int) {
      TableSpec spec = flat_table(size, 1, tensor::SGDRule{});
      spec.dtype = at::kFloat;
      at::Tensor values = at::zeros({size}, at::kFloat);
      const auto table = client.create_flat(spec, values, true);
      table->push_pull(at::full({size}, 1e-39, at::kFloat), values, {.learning_rate = 1});
      EXPECT_EQ(values.ne(0).sum().item<int64_t>(), 0);
    }));
  }
}

TEST(FlatTableTest, APushThatIsNotFiniteIsRefusedAndChangesNothing) {
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    at::Tensor values = at::randn({100}, at::kDouble);
    const at::Tensor before = values.clone();
    const auto table = client.create_flat(flat_table(100, 2, tensor::AdamRule{}), values, true);
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      at::Tensor gradient = at::full({100}, 0.0, at::kDouble);
      gradient[3] = bad;
      gradient[77] = bad;
      expect_error(
          [&] { table->push(gradient, {}); }, ErrorCode::kInvalidArgument,
          "[ps] push to table 'weights': /job:ps/task:0: [ps] table 'weights': got a "
          "gradient that is not finite from /job:worker/task:0, element 3; nothing of this "
          "push was applied");
    }
    table->pull(values);
    EXPECT_TRUE(values.equal(before));
    EXPECT_EQ(table->counters()[0].rejected, 2);
    EXPECT_EQ(table->counters()[1].rejected, 2);
    EXPECT_EQ(table->version(), 0);
    expect_error_containing([&] { table->push(at::zeros({99}, at::kDouble), {}); },
                            ErrorCode::kInvalidArgument, "expected 100 contiguous elements");
    expect_error_containing([&] { table->push(at::zeros({100}), {}); }, ErrorCode::kInvalidArgument,
                            "CPUFloatType of shape [100]");
  }));
}

TEST(FlatTableTest, WorkersThatMakeOtherTablesAreTold) {
  PsCluster cluster(1, 2);
  std::latch made(1);
  const std::vector<Status> outcomes = cluster.run([&](Client& client, int worker) {
    at::Tensor values = doubles(10);
    if (worker == 1) made.wait();
    client.create_flat(flat_table(10, 1, tensor::SGDRule{.momentum = worker == 0 ? 0.9 : 0.5}),
                       values, true);
    made.count_down();
  });
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0].message();
  EXPECT_EQ(outcomes[1].code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(outcomes[1].message().find("\"momentum\":0.5"), std::string::npos)
      << outcomes[1].message();
  EXPECT_NE(outcomes[1].message().find("\"momentum\":0.9"), std::string::npos);
}

TEST(RowTableTest, RowsComeInTheOrderOfTheIds) {
  for (const int servers : {1, 2, 3}) {
    PsCluster cluster(servers, 1);
    PsCluster::expect_ok(cluster.run([&](Client& client, int) {
      const auto table = client.create_rows(row_table(1001, 6, tensor::SGDRule{}));
      const at::Tensor all = table->read();
      EXPECT_EQ(all.sizes(), at::IntArrayRef({1001, 6}));
      const at::Tensor ids = at::randint(1001, {5, 40}, at::kLong);
      const PulledRows rows = table->pull(ids);
      EXPECT_TRUE(rows.gather().equal(all.index_select(0, ids.flatten()).view({5, 40, 6})));
      const PulledRows none = table->pull(at::zeros({0}, at::kLong));
      EXPECT_EQ(none.gather().sizes(), at::IntArrayRef({0, 6}));
    }));
  }
}

TEST(RowTableTest, TheFirstValuesDoNotDependOnTheServers) {
  at::Tensor first;
  for (const int servers : {1, 2, 3}) {
    PsCluster cluster(servers, 1);
    PsCluster::expect_ok(cluster.run([&](Client& client, int) {
      const at::Tensor all = client.create_rows(row_table(100, 3, tensor::SGDRule{}))->read();
      if (!first.defined()) first = all;
      EXPECT_TRUE(all.equal(first));
    }));
  }
}

TEST(RowTableTest, OnlyPushedRowsChange) {
  for (const int servers : {1, 2}) {
    PsCluster cluster(servers, 1);
    PsCluster::expect_ok(cluster.run([&](Client& client, int) {
      const tensor::RuleOptions rule = tensor::AdagradRule{};
      const auto table = client.create_rows(row_table(50, 4, rule));
      const at::Tensor before = table->read();
      const PulledRows rows = table->pull(at::tensor({7, 3, 7, 49, 0}, at::kLong));
      EXPECT_EQ(rows.ids.numel(), 4);
      const at::Tensor gradient = at::randn({4, 4}, at::kDouble);
      const PushOptions options = {.learning_rate = 0.5};
      table->push(rows, gradient, options);
      at::Tensor expected = rows.values.clone();
      Local local(rule);
      local.step(expected, gradient, options);
      const at::Tensor after = table->read();
      EXPECT_TRUE(after.index_select(0, rows.ids).equal(expected));
      EXPECT_TRUE(table->read_slot(0).index_select(0, rows.ids).equal(local.slots[0]));
      for (int64_t row = 0; row < 50; ++row) {
        const bool pushed = row == 7 || row == 3 || row == 49 || row == 0;
        EXPECT_EQ(after[row].equal(before[row]), !pushed) << row;
      }
    }));
  }
}

TEST(RowTableTest, WhatIsReadCanBeWrittenToAnotherNumberOfServers) {
  at::Tensor values;
  at::Tensor slot;
  for (const int servers : {4, 1, 3}) {
    PsCluster cluster(servers, 1);
    PsCluster::expect_ok(cluster.run([&](Client& client, int) {
      const auto table = client.create_rows(row_table(33, 2, tensor::AdagradRule{}));
      if (values.defined()) {
        table->write(values, 1);
        table->write_slot(0, slot);
      } else {
        table->push(table->pull(at::arange(33)), at::randn({33, 2}, at::kDouble), {});
        values = table->read();
        slot = table->read_slot(0);
      }
      EXPECT_TRUE(table->read().equal(values));
      EXPECT_TRUE(table->read_slot(0).equal(slot));
      table->pull(at::arange(3));
      EXPECT_EQ(table->version(), 1);
    }));
  }
}

TEST(RowTableTest, BadIdsAndGradientsAreNamed) {
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    const auto table = client.create_rows(row_table(50, 4, tensor::SGDRule{}));
    expect_error(
        [&] {
          table->pull(at::tensor({1, 50}, at::kLong));
        },
        ErrorCode::kOutOfRange, "[ps] pull of table 'users': got row 50; it has rows 0 to 49");
    expect_error(
        [&] {
          table->pull(at::tensor({1, -1}, at::kLong));
        },
        ErrorCode::kOutOfRange, "[ps] pull of table 'users': got row -1; it has rows 0 to 49");
    const at::Tensor before = table->read();
    const PulledRows rows = table->pull(at::tensor({4, 6, 9}, at::kLong));
    expect_error_containing(
        [&] {
          table->push(rows, at::zeros({2, 4}, at::kDouble), {});
        },
        ErrorCode::kInvalidArgument, "of shape [2, 4]; expected");
    at::Tensor gradient = at::zeros({3, 4}, at::kDouble);
    gradient[1][2] = std::numeric_limits<double>::infinity();
    expect_error(
        [&] { table->push(rows, gradient, {}); }, ErrorCode::kInvalidArgument,
        "[ps] push to table 'users': /job:ps/task:0: [ps] table 'users': got a gradient "
        "that is not finite from /job:worker/task:0, row 6, column 2; nothing of this push "
        "was applied");
    EXPECT_TRUE(table->read().equal(before));
  }));
}

}  // namespace
}  // namespace strata::ps
