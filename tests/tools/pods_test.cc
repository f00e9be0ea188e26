// The pods of rendered manifests, started here: each on a host of its own, with the environment that Kubernetes would
// give it and the names that its DNS would have. No cluster is needed, and none is asked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "strata/core/json.h"
#include "suites/netns_testbed.h"
#include "support/source_path.h"
#include "support/temp_folder.h"
#include "tools/launch/child_process.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launched.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

/// As the kubelet does it: $(NAME) is a variable before it, $$ is $.
std::string expanded(const std::string& text, const std::map<std::string, std::string>& variables) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string two = text.substr(i, 2);
    const size_t end = text.find(')', i);
    if (two == "$$") {
      result += text[++i];
    } else if (two == "$(" && end != text.npos &&
               variables.contains(text.substr(i + 2, end - i - 2))) {
      result += variables.at(text.substr(i + 2, end - i - 2));
      i = end;
    } else {
      result += text[i];
    }
  }
  return result;
}

class PodsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = bench::NetworkTestbed::missing();
    if (!why.empty()) GTEST_SKIP() << why;
    ChildSpec spec = {
        .program = "/bin/sh",
        .arguments = {"-c",
                      "\"$0\" render kubernetes --name train --image i -n 3 --chief "
                      "--evaluator --env 'A=$(TASK_INDEX) $B' -- \"$1\" rounds 5 >$D/file && "
                      "python3 \"$2\" yaml $D/file >$D/json",
                      STRATA_COMMAND, STRATA_CLUSTER_TASK,
                      test::source_path("tests/tools/check_manifests.py")},
        .environment = {{"D", folder_.path()}},
        .cores = {}};
    ChildProcess child(spec, guard_);
    const ChildEnd end = end_of(child);
    if (end.code == 77 || end.code == 127) GTEST_SKIP() << "there is no Python with PyYAML";
    ASSERT_EQ(end.code, 0) << text_of(folder_.path() + "/file");
    manifests_ = Json::parse(text_of(folder_.path() + "/json"));
  }

  static ChildEnd end_of(ChildProcess& child) {
    std::optional<ChildEnd> end;
    EXPECT_TRUE(eventually([&] {
      end = child.reap();
      return end.has_value();
    }));
    return end.value_or(ChildEnd{.code = -1});
  }

  std::map<std::string, std::string> environment_of(const Json& container, int index) const {
    std::map<std::string, std::string> variables;
    for (const Json& each : container.at("env").as_array()) {
      std::string value;
      if (const Json* const text = each.find("value")) {
        value = expanded(text->as_string(), variables);
      } else if (const Json* const key = each.at("valueFrom").find("secretKeyRef")) {
        value = secret(key->at("name").as_string()).at(key->at("key").as_string()).as_string();
      } else {
        value = std::to_string(index);
      }
      variables[each.at("name").as_string()] = value;
    }
    return variables;
  }

  const Json& secret(const std::string& name) const {
    for (const Json& each : manifests_.as_array()) {
      if (each.at("kind").as_string() == "Secret" &&
          each.at("metadata").at("name").as_string() == name) {
        return each.at("stringData");
      }
    }
    throw Error(ErrorCode::kNotFound, name);
  }

  const test::TempFolder folder_;
  const OrphanReaper guard_;
  Json manifests_;
};

TEST_F(PodsTest, TheyMeetWorkAndEnd) {
  struct Pod {
    std::string name;
    std::unique_ptr<ChildProcess> process;
  };
  constexpr int kPods = 4;
  const bench::NetworkTestbed testbed(kPods);
  std::vector<Pod> pods;
  std::vector<ChildSpec> specs;
  std::ofstream hosts(folder_.path() + "/hosts");
  hosts << "127.0.0.1 localhost\n";
  for (const Json& each : manifests_.as_array()) {
    if (each.at("kind").as_string() != "Job") continue;
    const Json& pod = each.at("spec").at("template").at("spec");
    const Json& container = pod.at("containers").as_array()[0];
    for (int64_t i = 0; i < each.at("spec").at("completions").as_int(); ++i) {
      const int host = static_cast<int>(pods.size());
      ASSERT_LT(host, kPods);
      const std::string name = str_cat(each.at("metadata").at("name").as_string(), "-", i);
      hosts << testbed.address(host) << " " << name << "." << pod.at("subdomain").as_string()
            << "\n";
      pods.push_back({.name = name, .process = nullptr});
      ChildSpec& spec = specs.emplace_back();
      Words words = testbed.enter(host);
      const std::string begin = "mount --bind $HOSTS /etc/hosts && exec \"$@\" >$HOSTS.$NAME 2>&1";
      words.insert(words.end(), {"unshare", "--mount", "/bin/sh", "-c", begin, "sh"});
      spec.environment = environment_of(container, static_cast<int>(i));
      for (const Json& word : container.at("command").as_array()) {
        words.push_back(expanded(word.as_string(), spec.environment));
      }
      EXPECT_EQ(spec.environment.at("A"), "$(TASK_INDEX) $B");
      spec.environment["HOSTS"] = folder_.path() + "/hosts";
      spec.environment["NAME"] = name;
      spec.program = words[0];
      spec.arguments.assign(words.begin() + 1, words.end());
    }
  }
  hosts.close();
  ASSERT_EQ(pods.size(), size_t{kPods});
  for (size_t i = 0; i < pods.size(); ++i) {
    pods[i].process = std::make_unique<ChildProcess>(specs[i], guard_);
  }
  for (Pod& pod : pods) {
    const ChildEnd end = end_of(*pod.process);
    const std::string said = text_of(str_cat(folder_.path(), "/hosts.", pod.name));
    EXPECT_TRUE(end.well()) << pod.name << ": " << end.to_string() << "\n" << said;
    EXPECT_TRUE(contains(said, "done\n")) << pod.name << "\n" << said;
  }
}

}  // namespace
}  // namespace strata::tools
