// Against tests/golden/tf_strategies.json: what TensorFlow's MirroredStrategy prints for small
// cases. Where we mean to differ, the test says so and holds our value.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"
#include "support/source_path.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;
using nlohmann::json;

json cases_of(const std::string& name) {
  std::ifstream file(test::source_path("tests/golden/tf_strategies.json"));
  const json all = json::parse(file);
  json found = json::array();
  for (const json& each : all["cases"]) {
    if (each["case"] == name) found.push_back(each);
  }
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

/// Nested lists as a tensor.
Tensor tensor_of(const json& value, at::ScalarType dtype = at::kFloat) {
  std::vector<int64_t> shape;
  for (const json* part = &value; part->is_array(); part = &(*part)[0]) {
    shape.push_back(static_cast<int64_t>(part->size()));
    if (part->empty()) break;
  }
  std::vector<double> numbers;
  const std::function<void(const json&)> flatten = [&](const json& part) {
    if (!part.is_array()) return numbers.push_back(part.get<double>());
    for (const json& each : part) flatten(each);
  };
  flatten(value);
  return torch::tensor(numbers, torch::kDouble).reshape(shape).to(dtype);
}

PerReplica<Tensor> tensors_of(const json& values, at::ScalarType dtype = at::kFloat) {
  std::vector<Tensor> tensors;
  for (const json& each : values) tensors.push_back(tensor_of(each, dtype));
  return PerReplica<Tensor>(std::move(tensors));
}

::testing::AssertionResult same(const Tensor& got, const json& wanted) {
  const Tensor expected = tensor_of(wanted, at::kDouble);
  if (got.sizes() == expected.sizes() && got.to(at::kDouble).allclose(expected, 1e-6, 0)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << got << " instead of " << wanted;
}

/// What `fn` returns is what the case has in "out", or it throws where TensorFlow raises.
void expect_same(const json& each, const std::function<Tensor()>& fn) {
  SCOPED_TRACE(each.dump());
  if (each["out"].is_object()) {
    EXPECT_THROW(fn(), Error);
  } else {
    EXPECT_TRUE(same(fn(), each["out"]));
  }
}

/// The same for one tensor a replica.
void expect_same_on_each(const json& each, const std::function<PerReplica<Tensor>()>& fn) {
  SCOPED_TRACE(each.dump());
  if (each["out"].is_object()) {
    EXPECT_THROW(fn(), Error);
    return;
  }
  const PerReplica<Tensor> got = fn();
  for (int r = 0; r < got.size(); ++r)
    EXPECT_TRUE(same(got.get(r), each["out"][static_cast<size_t>(r)]));
}

ReduceOp op_of(const json& each) { return parse_reduce_op(each["op"].get<std::string>()); }

std::optional<int64_t> axis_of(const json& each) {
  return each.contains("axis") ? std::optional<int64_t>(each["axis"].get<int64_t>()) : std::nullopt;
}

class TensorFlowTest : public ::testing::Test {
 protected:
  TensorFlowTest() { set_logical_devices("cpu", 8); }

  MirroredStrategy& mirrored(size_t n) {
    auto& strategy = strategies_[n];
    if (!strategy)
      strategy =
          std::make_unique<MirroredStrategy>(MirroredOptions{.devices = cpus(static_cast<int>(n))});
    return *strategy;
  }
  MirroredStrategy& mirrored(const json& each) { return mirrored(each["in"].size()); }

  std::map<size_t, std::unique_ptr<MirroredStrategy>> strategies_;
};

TEST_F(TensorFlowTest, AverageLosses) {
  for (const json& each : cases_of("average_loss")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(
          [&](const Tensor& loss) {
            return each.contains("global_batch_size")
                       ? compute_average_loss(loss, each["global_batch_size"].get<int64_t>())
                       : compute_average_loss(loss);
          },
          tensors_of(each["in"]));
    });
  }
  for (const json& each : cases_of("average_loss_weighted")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(
          [&](const Tensor& loss) {
            return compute_average_loss(
                loss, {.sample_weight = tensor_of(each["weights"]), .global_batch_size = {}});
          },
          tensors_of(each["in"]));
    });
  }
  for (const json& each : cases_of("regularization_loss")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(scale_regularization_loss, tensors_of(each["in"]));
    });
  }
}

TEST_F(TensorFlowTest, SgdStep) {
  for (const json& each : cases_of("sgd_step")) {
    MirroredStrategy& strategy = mirrored(each["in"].get<size_t>());
    const Variable w = strategy.scope([] { return Variable(torch::tensor(1.0f)); });
    optimizers::SGD sgd({w}, {.learning_rate = 1.0});
    strategy.run([&] {
      sgd.minimize(
          compute_average_loss((1 + 2 * w.value()).reshape({1}), strategy.num_replicas_in_sync()));
    });
    EXPECT_TRUE(same(w.value(), each["out"]));
  }
}

TEST_F(TensorFlowTest, MeanMetric) {
  for (const json& each : cases_of("mean_metric")) {
    metrics::Mean mean = mirrored(each).scope([] { return metrics::Mean(); });
    mirrored(each).run([&](const Tensor& values) { mean.update(values); }, tensors_of(each["in"]));
    EXPECT_EQ(mean.result(), each["out"].get<double>());
  }
}

TEST_F(TensorFlowTest, Reduce) {
  for (const json& each : cases_of("reduce")) {
    if (each["op"] == "MEAN_IS_NAN") {
      EXPECT_TRUE(mirrored(each)
                      .reduce(ReduceOp::kMean, tensors_of(each["in"]), axis_of(each))
                      .isnan()
                      .item<bool>());
      continue;
    }
    expect_same(each, [&] {
      return mirrored(each).reduce(op_of(each), tensors_of(each["in"]), axis_of(each));
    });
  }
  for (const json& each : cases_of("reduce_integers")) {
    expect_same(each, [&] {
      return mirrored(each).reduce(op_of(each), tensors_of(each["in"], at::kLong));
    });
  }
  for (const json& each : cases_of("reduce_same")) {
    expect_same(each, [&] {
      return mirrored(each).reduce(op_of(each), tensor_of(each["in"][0]), axis_of(each));
    });
  }
}

TEST_F(TensorFlowTest, Gather) {
  for (const json& each : cases_of("gather")) {
    expect_same(each,
                [&] { return mirrored(each).gather(tensors_of(each["in"]), *axis_of(each)); });
  }
  for (const json& each : cases_of("all_gather")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(
          [&](const Tensor& value) { return replica().all_gather(value, *axis_of(each)); },
          tensors_of(each["in"]));
    });
  }
}

TEST_F(TensorFlowTest, AllReduceAndItsGradient) {
  for (const json& each : cases_of("all_reduce")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(
          [&](const Tensor& value) { return replica().all_reduce(op_of(each), value); },
          tensors_of(each["in"]));
    });
  }
  for (const json& each : cases_of("all_reduce_gradient")) {
    expect_same_on_each(each, [&] {
      return mirrored(each).run(
          [&](const Tensor& value) {
            const Tensor x = value.clone().requires_grad_();
            ((id() + 1) * replica().all_reduce(op_of(each), x * x)).backward();
            return x.grad();
          },
          tensors_of(each["in"]));
    });
  }
}

TEST_F(TensorFlowTest, MergeCall) {
  for (const json& each : cases_of("merge_call")) {
    const PerReplica<Tensor> sums = mirrored(each).run(
        [](const Tensor& value) {
          return replica().merge_call(
              [](Strategy& strategy, const PerReplica<Tensor>& values) {
                return strategy.reduce(ReduceOp::kSum, values);
              },
              value);
        },
        tensors_of(each["in"]));
    for (const Tensor& sum : sums) EXPECT_TRUE(same(sum, each["out"]));
  }
}

void write(Variable& variable, const std::string& method, const Tensor& value) {
  if (method == "assign") variable.assign(value);
  if (method == "assign_add") variable.assign_add(value);
  if (method == "assign_sub") variable.assign_sub(value);
}

TEST_F(TensorFlowTest, Variables) {
  const std::map<std::string, VariableAggregation> aggregations = {
      {"NONE", VariableAggregation::kNone},
      {"SUM", VariableAggregation::kSum},
      {"MEAN", VariableAggregation::kMean},
      {"ONLY_FIRST_REPLICA", VariableAggregation::kOnlyFirstReplica}};
  for (const bool by_replicas : {true, false}) {
    for (const json& each : cases_of(by_replicas ? "write_by_replicas" : "write_outside")) {
      SCOPED_TRACE(each.dump());
      const bool on_read = each["synchronization"] == "ON_READ";
      MirroredStrategy& strategy = mirrored(each);
      Variable variable = strategy.scope([&] {
        return Variable(torch::tensor(1.0f),
                        {.trainable = false,
                         .synchronization = on_read ? VariableSynchronization::kOnRead
                                                    : VariableSynchronization::kOnWrite,
                         .aggregation = aggregations.at(each["aggregation"].get<std::string>())});
      });
      const auto method = each["method"].get<std::string>();
      const auto act = [&] {
        if (by_replicas) {
          strategy.run([&](const Tensor& value) { write(variable, method, value); },
                       tensors_of(each["in"]));
        } else {
          write(variable, method, torch::tensor(8.0f));
        }
      };
      if (!by_replicas && on_read && each["aggregation"] == "NONE") {
        // TensorFlow writes every copy too, and raises because `assign` returns the value, which
        // cannot be read.
        EXPECT_TRUE(each["out"].is_object());
        act();
        EXPECT_EQ(variable.on_replica(1).item<double>(), method == "assign"       ? 8
                                                         : method == "assign_add" ? 9
                                                                                  : -7);
        continue;
      }
      if (each["out"].is_object()) {
        EXPECT_THROW(act(), Error);
        continue;
      }
      act();
      const PerReplica<Tensor> local = strategy.run([&] { return variable.value().clone(); });
      for (int r = 0; r < 2; ++r)
        EXPECT_TRUE(same(local.get(r), each["out"][0][static_cast<size_t>(r)]));
      if (each["out"][1].is_object()) {
        EXPECT_THROW(variable.value(), Error);
      } else {
        EXPECT_TRUE(same(variable.value(), each["out"][1]));
      }
    }
  }
  // CentralStorageStrategy: the same numbers on one copy; without an aggregation it raises.
  CentralStorageStrategy central({.compute_devices = cpus(2)});
  for (const json& each : cases_of("write_by_replicas")) {
    if (each["synchronization"] == "ON_READ") continue;
    SCOPED_TRACE(each.dump());
    const auto aggregation = aggregations.at(each["aggregation"].get<std::string>());
    Variable variable = central.scope([&] {
      return Variable(torch::tensor(1.0f), {.trainable = false, .aggregation = aggregation});
    });
    const auto act = [&] {
      central.run([&](const Tensor& value) { write(variable, each["method"], value); },
                  tensors_of(each["in"]));
    };
    if (aggregation == VariableAggregation::kNone) {
      EXPECT_TRUE(
          throws(ErrorCode::kFailedPrecondition, {"one copy", "give it an aggregation"}, act));
      continue;
    }
    act();
    EXPECT_TRUE(same(variable.value(), each["out"][1]));
    EXPECT_TRUE(variable.on_replica(1).is_alias_of(variable.value()));
  }
  for (const json& each : cases_of("integer_on_read_sum")) {
    Variable variable = mirrored(2).scope([] {
      return Variable(torch::tensor(1), {.synchronization = VariableSynchronization::kOnRead,
                                         .aggregation = VariableAggregation::kSum});
    });
    variable.assign(torch::tensor(each["in"].get<int64_t>()));
    EXPECT_TRUE(same(variable.value(), each["out"]));
  }
}

TEST_F(TensorFlowTest, Packs) {
  for (const json& each : cases_of("packs")) {
    const std::vector<int64_t> borders =
        detail::pack_borders(each["in"][0].get<int64_t>(), each["in"][1].get<int>());
    std::vector<int64_t> sizes;
    for (size_t i = 0; i + 1 < borders.size(); ++i) sizes.push_back(borders[i + 1] - borders[i]);
    EXPECT_EQ(sizes, each["out"].get<std::vector<int64_t>>());
  }
}

TEST_F(TensorFlowTest, SparseSlices) {
  for (const json& each : cases_of("slices")) {
    const auto slices_of = [](const json& part) {
      return torch::sparse_coo_tensor(tensor_of(part["indices"], at::kLong).unsqueeze(0),
                                      tensor_of(part["values"]), {4, 2});
    };
    std::vector<Tensor> slices;
    for (const json& part : each["in"]) slices.push_back(slices_of(part));
    const Tensor result = mirrored(each).reduce(op_of(each), PerReplica<Tensor>(std::move(slices)));
    EXPECT_TRUE(result.is_sparse());
    // TensorFlow leaves equal indices apart, libtorch adds them: the same slices.
    EXPECT_TRUE(result.to_dense().equal(slices_of(each["out"]).to_dense())) << result;
  }
}

using Steps = std::vector<std::vector<std::vector<int64_t>>>;

TEST_F(TensorFlowTest, RowsOfEachReplica) {
  // TensorFlow cuts each batch by ceil(rows / replicas), so late replicas may be empty though there
  // are rows for all. We balance (rule 40): sizes differ by at most one, larger ones first.
  const std::map<std::string, Steps> actual = {
      {"distribute [4,4,3] false", {{{0, 1}, {2}, {3}}}},
      {"distribute [10,10,4] false", {{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}}}},
      // TensorFlow leaves out a step that drop_remainder makes incomplete; we train on every batch
      // there is.
      {"distribute_from_function [6,2,2] true", {{{0, 1}, {2, 3}}, {{4, 5}, {}}}},
  };
  size_t differences = 0;
  for (const std::string way : {"distribute", "distribute_from_function"}) {
    for (const json& each : cases_of(way)) {
      SCOPED_TRACE(each.dump());
      const auto in = each["in"].get<std::vector<int64_t>>();
      MirroredStrategy& strategy = mirrored(static_cast<size_t>(in[2]));
      const auto dataset = data::Dataset::range(in[0]).batch(
          in[1], {.drop_remainder = each["drop_remainder"].get<bool>()});
      const DistributedDataset distributed =
          way == "distribute"
              ? strategy.distribute(dataset)
              : strategy.distribute_from_function([&](const InputContext&) { return dataset; });
      Steps steps;
      for (const PerReplica<data::Example>& element : distributed) {
        steps.emplace_back();
        for (const data::Example& part : element) {
          const Tensor rows = part[0].contiguous();
          steps.back().emplace_back(rows.data_ptr<int64_t>(),
                                    rows.data_ptr<int64_t>() + rows.numel());
        }
      }
      const auto other =
          actual.find(str_cat(way, " ", each["in"].dump(), " ", each["drop_remainder"].dump()));
      if (other == actual.end()) {
        EXPECT_EQ(steps, each["out"].get<Steps>());
      } else {
        ++differences;
        EXPECT_EQ(steps, other->second);
        EXPECT_NE(steps, each["out"].get<Steps>()) << "no difference any more";
      }
    }
  }
  EXPECT_EQ(differences, actual.size());
}

TEST_F(TensorFlowTest, PerReplicaBatchSizes) {
  for (const json& each : cases_of("per_replica_batch_size")) {
    const InputContext context{.num_replicas_in_sync = each["in"][1].get<int>()};
    expect_same(each, [&] {
      return torch::tensor(context.get_per_replica_batch_size(each["in"][0].get<int64_t>()));
    });
  }
}

}  // namespace
}  // namespace strata
