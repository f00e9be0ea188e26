// What TensorFlow 2.21's resolvers make of the same environments
// (tests/golden/cluster_resolver.py).
#include <gtest/gtest.h>

#include <fstream>

#include "strata/cluster/resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "support/source_path.h"

namespace strata::cluster {
namespace {

const std::vector<Json>& cases() {
  static const Json golden = [] {
    std::ifstream file(test::source_path("tests/golden/cluster_resolver.json"));
    return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }();
  return golden.at("cases").as_array();
}

template <typename Check>
void for_each(std::string_view kind, int at_least, Check check) {
  int count = 0;
  for (const Json& each : cases()) {
    if (each.at("kind").as_string() != kind) continue;
    SCOPED_TRACE(each.dump());
    ++count;
    check(each);
  }
  EXPECT_GE(count, at_least);
}

bool raises(const Json& out) { return out.is_object() && out.find("raises") != nullptr; }
bool differs(const Json& each) { return each.find("differs") != nullptr; }

Environment environment_of(const Json& each) {
  std::map<std::string, std::string, std::less<>> variables;
  for (const auto& [name, value] : each.at("env").as_object()) variables[name] = value.as_string();
  return Environment(variables);
}

std::optional<std::string> text_or_none(const Json* json) {
  return json == nullptr || json->is_null() ? std::nullopt : std::optional(json->as_string());
}
std::optional<int> number_or_none(const Json* json) {
  return json == nullptr || json->is_null() ? std::nullopt
                                            : std::optional(static_cast<int>(json->as_int()));
}
std::map<std::string, int> counts_of(const Json& json) {
  std::map<std::string, int> counts;
  for (const auto& [name, count] : json.as_object())
    counts[name] = static_cast<int>(count.as_int());
  return counts;
}

void expect_spec(const ClusterSpec& spec, const Json& out) {
  EXPECT_EQ(spec, ClusterSpec::from_json(out.at("dict")));
  EXPECT_EQ(spec.to_string(), out.at("text").as_string());
  std::vector<std::string> jobs;
  for (const Json& job : out.at("jobs").as_array()) jobs.push_back(job.as_string());
  EXPECT_EQ(spec.jobs(), jobs);
}

void expect_text(const std::function<std::string()>& call, const Json& out) {
  if (raises(out)) {
    EXPECT_THROW(call(), Error);
  } else {
    EXPECT_EQ(call(), out.is_null() ? "" : out.as_string());
  }
}

// Where we are stricter: a cluster where nobody trains, or where indices have gaps, cannot run.
bool cannot_run(const ClusterSpec& spec) {
  if (training_tasks(spec).empty()) return true;
  for (const std::string& job : spec.jobs()) {
    if (spec.task_indices(job).back() + 1 != spec.num_tasks(job)) return true;
  }
  return false;
}

void expect_roles(const ClusterSpec& spec, const TaskId& task, const Json& out) {
  if (raises(out.at("is_chief")) || cannot_run(spec)) {
    EXPECT_THROW(check_cluster(spec, task), Error);
    return;
  }
  EXPECT_NO_THROW(check_cluster(spec, task));
  EXPECT_EQ(is_chief(spec, task), out.at("is_chief").as_bool());
  if (task.job == kPs) {
    EXPECT_TRUE(raises(out.at("worker_count")) && raises(out.at("id_in_cluster")));
    EXPECT_THROW((void)worker_count(spec, task), Error);
    EXPECT_THROW((void)id_in_cluster(spec, task), Error);
    return;
  }
  // TensorFlow looks into the spec for an evaluator that need not be there.
  const bool outside = task.job == kEvaluator && !spec.has_job(kEvaluator);
  EXPECT_EQ(raises(out.at("worker_count")), outside);
  EXPECT_EQ(worker_count(spec, task), outside ? 1 : out.at("worker_count").as_int());
  EXPECT_EQ(id_in_cluster(spec, task), out.at("id_in_cluster").as_int());
  const std::string expected = out.at("leader").as_string();
  if (task.job == kEvaluator) {
    EXPECT_EQ(expected, "");
  } else {
    EXPECT_EQ(leader(spec), TaskId::parse(expected));
  }
}

TEST(ResolverGoldenTest, TfConfig) {
  for_each("tf_config", 60, [](const Json& each) {
    const Json& options = each.at("options");
    const TfConfigResolver resolver({.task_type = text_or_none(options.find("task_type")),
                                     .task_id = number_or_none(options.find("task_id")),
                                     .rpc_layer = text_or_none(options.find("rpc_layer")),
                                     .environment = environment_of(each)});
    const Json& out = each.at("out");
    // Ours fails as a whole where TensorFlow's fails when that part is asked for.
    if (differs(each) || raises(out.at("spec")) || raises(out.at("task_id"))) {
      EXPECT_THROW((void)resolver.resolve(), Error);
      return;
    }
    const Resolution resolution = resolver.resolve();
    expect_spec(resolution.spec, out.at("spec"));
    EXPECT_EQ(resolver.task_type(), text_or_none(&out.at("task_type")));
    EXPECT_EQ(resolver.task_id(), number_or_none(&out.at("task_id")));
    EXPECT_EQ(resolver.rpc_layer(), text_or_none(&out.at("rpc_layer")).value_or(""));
    expect_text([&] { return resolver.master(); }, out.at("master"));
    expect_text([&] { return resolver.master("worker", 1); }, out.at("master_worker_1"));
    if (resolution.spec.empty() || !resolution.task_type || !resolution.task_id) return;
    expect_roles(resolution.spec, *resolution.task(), out.at("roles"));
  });
}

TEST(ResolverGoldenTest, HostLists) {
  for_each("hosts", 20, [](const Json& each) {
    const std::string& list = each.at("in").as_string();
    if (raises(each.at("out")) && !differs(each)) {
      EXPECT_THROW((void)expand_host_list(list), Error);
    } else if (!differs(each)) {
      Json hosts = Json::array();
      for (const std::string& host : expand_host_list(list)) hosts.push_back(host);
      EXPECT_EQ(hosts, each.at("out"));
    }
  });
}

TEST(ResolverGoldenTest, TasksPerNode) {
  for_each("tasks", 10, [](const Json& each) {
    const std::string& list = each.at("in").as_string();
    if (raises(each.at("out"))) {
      EXPECT_THROW((void)expand_tasks_per_node(list), Error);
      return;
    }
    Json counts = Json::array();
    for (const int count : expand_tasks_per_node(list)) counts.push_back(count);
    EXPECT_EQ(counts, each.at("out"));
  });
}

SlurmResolver slurm_resolver(const Json& each) {
  const Json& options = each.at("options");
  const Json* jobs = options.find("jobs");
  return SlurmResolver(
      {.jobs = jobs == nullptr ? std::nullopt : std::optional(counts_of(*jobs)),
       .port_base = number_or_none(options.find("port_base")).value_or(SlurmOptions().port_base),
       .gpus_per_node = number_or_none(options.find("gpus_per_node")),
       .gpus_per_task = number_or_none(options.find("gpus_per_task")),
       .tasks_per_node = number_or_none(options.find("tasks_per_node")),
       .environment = environment_of(each)});
}

TEST(ResolverGoldenTest, Slurm) {
  for_each("slurm", 20, [](const Json& each) {
    if (differs(each)) return;  // slurm_resolver_test.cc
    const SlurmResolver resolver = slurm_resolver(each);
    const Json& out = each.at("out");
    if (raises(out)) {
      EXPECT_THROW((void)resolver.resolve(), Error);
      return;
    }
    const Resolution resolution = resolver.resolve();
    expect_spec(resolution.spec, out);
    EXPECT_EQ(resolution.task_type, out.at("task").as_array()[0].as_string());
    EXPECT_EQ(resolution.task_id, out.at("task").as_array()[1].as_int());
    EXPECT_EQ(resolver.num_accelerators(), counts_of(out.at("accelerators")));
    EXPECT_EQ(resolver.master(), out.at("master").as_string());
    std::string gpus;
    ASSERT_TRUE(resolution.visible_gpus.has_value());
    for (const std::string& gpu : *resolution.visible_gpus) gpus += (gpus.empty() ? "" : ",") + gpu;
    EXPECT_EQ(gpus, out.at("gpus").as_string());
  });
}

TEST(ResolverGoldenTest, Union) {
  for_each("union", 8, [](const Json& each) {
    const Json& options = each.at("options");
    const Json& out = each.at("out");
    std::vector<std::shared_ptr<const ClusterResolver>> parts;
    for (const Json& part : each.at("parts").as_array()) {
      const auto& fields = part.as_array();
      parts.push_back(std::make_shared<SimpleResolver>(
          ClusterSpec::from_json(fields[0]),
          SimpleOptions{.task_type = text_or_none(&fields[1]),
                        .task_id = number_or_none(&fields[2]),
                        .rpc_layer = text_or_none(&fields[3]).value_or("")}));
    }
    const auto resolver = [&] {
      return UnionResolver(parts, {.task_type = text_or_none(options.find("task_type")),
                                   .task_id = number_or_none(options.find("task_id")),
                                   .rpc_layer = text_or_none(options.find("rpc_layer"))});
    };
    if (raises(out)) {
      EXPECT_THROW((void)resolver().resolve(), Error);
      return;
    }
    expect_spec(resolver().cluster_spec(), out);
    EXPECT_EQ(resolver().task_type(), text_or_none(&out.at("task").as_array()[0]));
    EXPECT_EQ(resolver().task_id(), number_or_none(&out.at("task").as_array()[1]));
    EXPECT_EQ(resolver().rpc_layer(), text_or_none(&out.at("rpc_layer")).value_or(""));
    expect_text([&] { return resolver().master(); }, out.at("master"));
    expect_text([&] { return resolver().master("worker", 0); }, out.at("master_worker_0"));
  });
}

}  // namespace
}  // namespace strata::cluster
