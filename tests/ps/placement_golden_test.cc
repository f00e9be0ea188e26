// Where TensorFlow 2.21 puts the same variables (tests/golden/tf_placement.py).
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/ps/device_setter.h"
#include "strata/ps/placement.h"
#include "support/source_path.h"

namespace strata::ps {
namespace {

const std::vector<Json>& cases() {
  static const Json golden = [] {
    std::ifstream file(test::source_path("tests/golden/tf_placement.json"));
    return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }();
  return golden.at("cases").as_array();
}

template <typename Check>
void for_each(std::string_view kind, int at_least, Check check) {
  int count = 0;
  for (const Json& each : cases()) {
    if (each.at("kind").as_string() != kind) continue;
    SCOPED_TRACE(each.dump().substr(0, 1000));
    ++count;
    check(each);
  }
  EXPECT_GE(count, at_least);
}

bool differs(const Json& each) { return each.find("differs") != nullptr; }

std::vector<int64_t> shape_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& size : json.as_array()) shape.push_back(size.as_int());
  return shape;
}

c10::ScalarType dtype_of(const std::string& name) {
  static const std::map<std::string, c10::ScalarType> dtypes = {
      {"float32", c10::ScalarType::Float}, {"float64", c10::ScalarType::Double},
      {"float16", c10::ScalarType::Half},  {"bfloat16", c10::ScalarType::BFloat16},
      {"int64", c10::ScalarType::Long},    {"int8", c10::ScalarType::Char}};
  return dtypes.at(name);
}

VariableSpec variable_of(const Json& json) {
  return {.name = "v",
          .shape = shape_of(json.at("shape")),
          .dtype = dtype_of(json.at("dtype").as_string()),
          .device = json.at("device").as_string()};
}

PlacementStrategy strategy_of(const Json& name, int num_servers) {
  if (name.is_null()) return nullptr;
  if (name.as_string() == "greedy") return greedy(num_servers);
  if (name.as_string() == "elements")
    return GreedyLoadBalancingStrategy(num_servers, element_count_load);
  return GreedyLoadBalancingStrategy(num_servers, [](const VariableSpec&) { return 1.0; });
}

ReplicaDeviceSetterOptions setter_options(const Json& json) {
  ReplicaDeviceSetterOptions options;
  if (const Json* cluster = json.find("cluster"))
    options.cluster = cluster::ClusterSpec::from_json(*cluster);
  if (const Json* tasks = json.find("ps_tasks"))
    options.ps_tasks = static_cast<int>(tasks->as_int());
  if (const Json* device = json.find("ps_device")) options.ps_device = device->as_string();
  if (const Json* device = json.find("worker_device")) options.worker_device = device->as_string();
  if (const Json* merge = json.find("merge_devices")) options.merge_devices = merge->as_bool();
  const int servers = options.cluster && options.cluster->has_job("ps")
                          ? options.cluster->num_tasks("ps")
                          : options.ps_tasks;
  options.ps_strategy = strategy_of(json.at("strategy"), servers);
  return options;
}

TEST(PlacementGoldenTest, ReplicaDeviceSetter) {
  for_each("setter", 80, [](const Json& each) {
    ReplicaDeviceSetter device = replica_device_setter(setter_options(each.at("options")));
    const Json::Array& expected = each.at("out").at("variables").as_array();
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string got = device(variable_of(each.at("variables").as_array()[i]));
      EXPECT_EQ(got == expected[i].as_string(), !differs(each))
          << got << ", TensorFlow: " << expected[i].as_string();
    }
    const Json::Array& computed = each.at("out").at("computed").as_array();
    for (size_t i = 0; i < computed.size(); ++i) {
      const std::string got = device.compute_device(each.at("computed").as_array()[i].as_string());
      EXPECT_EQ(got == computed[i].as_string(), !differs(each))
          << got << ", TensorFlow: " << computed[i].as_string();
    }
  });
}

Partitioner partitioner_of(const Json& name, const Json& args) {
  if (name.is_null()) return nullptr;
  const auto argument = [&](std::string_view key, int64_t otherwise) {
    const Json* value = args.find(key);
    return value == nullptr ? otherwise : value->as_int();
  };
  if (name.as_string() == "FixedShards")
    return FixedShardsPartitioner(args.at("num_shards").as_int());
  if (name.as_string() == "MinSize") {
    const MinSizePartitionerOptions defaults;
    return MinSizePartitioner(
        {.min_shard_bytes = argument("min_shard_bytes", defaults.min_shard_bytes),
         .max_shards = argument("max_shards", defaults.max_shards)});
  }
  MaxSizePartitionerOptions options{.max_shard_bytes = args.at("max_shard_bytes").as_int()};
  if (const Json* most = args.find("max_shards")) options.max_shards = most->as_int();
  return MaxSizePartitioner(options);
}

TEST(PlacementGoldenTest, Partitioners) {
  for_each("partition", 55, [](const Json& each) {
    const Json& out = each.at("out");
    if (out.is_object() || differs(each)) {
      EXPECT_THROW(partitioner_of(each.at("partitioner"), each.at("args")), Error);
      return;
    }
    const Partitioner partitioner = partitioner_of(each.at("partitioner"), each.at("args"));
    const Json::Array& variables = each.at("variables").as_array();
    for (size_t i = 0; i < variables.size(); ++i) {
      EXPECT_EQ(partitioner(variable_of(variables[i])), out.as_array()[i].as_int())
          << variables[i].dump();
    }
  });
}

TEST(PlacementGoldenTest, PartsOfParameterServerStrategy) {
  for_each("strategy", 7, [](const Json& each) {
    std::vector<VariableSpec> variables;
    for (const Json& shape : each.at("shapes").as_array())
      variables.push_back({.name = str_cat("v", variables.size()), .shape = shape_of(shape)});
    PlacementOptions options{.partitioner =
                                 partitioner_of(each.at("partitioner"), each.at("args"))};
    if (!options.partitioner) options.strategy = round_robin;
    const auto num_servers = static_cast<int>(each.at("servers").as_int());
    const Placement placement = place(variables, num_servers, options);

    size_t next = 0;
    for (size_t i = 0; i < variables.size(); ++i) {
      const Json::Array& parts = each.at("out").as_array()[i].as_array();
      int64_t begin = 0;
      for (size_t p = 0; p < parts.size(); ++p, ++next) {
        VariableSpec part{.name = "", .shape = shape_of(parts[p].at("shape"))};
        const int64_t end = begin + num_elements(part);
        const Piece expected{.variable = i,
                             .begin = begin,
                             .end = end,
                             .server = static_cast<int>(parts[p].at("task").as_int())};
        ASSERT_LT(next, placement.pieces.size());
        EXPECT_EQ(placement.pieces[next], expected) << i << ", part " << p;
        if (parts.size() > 1) {
          EXPECT_EQ(part_name(variables[i].name, static_cast<int64_t>(p)),
                    parts[p].at("name").as_string());
        }
        begin = end;
      }
    }
    EXPECT_EQ(next, placement.pieces.size());
  });
}

TEST(PlacementGoldenTest, KerasInceptionV3IsSpreadEvenly) {
  for_each("inception_v3", 1, [](const Json& each) {
    std::vector<VariableSpec> variables;
    for (const Json& shape : each.at("shapes").as_array())
      variables.push_back({.name = str_cat("v", variables.size()), .shape = shape_of(shape)});
    EXPECT_EQ(variables.size(), 378);
    for (const int num_servers : {1, 2, 4, 12, 32, 64, 116})
      EXPECT_LE(place(variables, num_servers).imbalance(), 1.001) << num_servers;
  });
}

}  // namespace
}  // namespace strata::ps
