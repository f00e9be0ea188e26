// `strata render`: templates, quoting, and what other programs make of the rendered files.
#include "tools/render/render.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/resolvers.h"
#include "strata/core/json.h"
#include "support/expect_error.h"
#include "support/odd_texts.h"
#include "support/source_path.h"
#include "support/temp_folder.h"
#include "tools/launched.h"
#include "tools/render/template.h"
#include "tools/render/yaml_quote.h"
#include "tools/shell_quote.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

struct Outcome {
  int status = -1;
  std::string output;
};

// At most a minute.
Outcome run_shell(const std::string& command) {
  FILE* const pipe = ::popen(("exec 2>&1; " + command).c_str(), "re");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 4096> chunk;
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), count);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output};
}

std::string template_text(const std::string& name) {
  return text_of(test::source_path("templates/render/" + name));
}

std::string rendered(Words words, const std::string& job_secret = "0123456789abcdef") {
  RenderCommand command = read_render_options(std::move(words));
  command.options.job_secret = job_secret;
  const RenderTarget target = command.options.target;
  return render(command.options,
                template_text(target == RenderTarget::kSlurm        ? "slurm.sh"
                              : target == RenderTarget::kKubernetes ? "kubernetes.yaml"
                                                                    : "compose.yaml"));
}

TEST(TemplateTest, ValuesSectionsAndLists) {
  const TemplateScope scope = {
      {{"a", "it's"},
       {"n", "3"},
       {"none", ""},
       {"zero", "0"},
       {"words", Words{"x", "y z"}},
       {"list", std::vector<TemplateScope>{{{{"b", "1"}}}, {{{"b", "2"}}}}}}};
  const std::string text =
      "{{a}} {{=n}} {{words}}\n  {{#none}}\nleft out\n  {{/none}}\n{{^none}}\nkept\n{{/none}}\n"
      "{{#zero}}\nleft out\n{{/zero}}\n{{#list}}\n- {{b}} of {{=n}}\n{{#n}}\n- "
      "more\n{{/n}}\n{{/list}}\n"
      "${x} {y} {{{=n}}}";
  EXPECT_EQ(fill_template(text, scope, Quoting::kShell),
            "'it'\\''s' 3 x 'y z'\nkept\n- 1 of 3\n- more\n- 2 of 3\n- more\n${x} {y} {3}\n");
  EXPECT_EQ(fill_template("{{a}} {{words}}", scope, Quoting::kYaml), "\"it's\" [\"x\", \"y z\"]\n");
}

TEST(TemplateTest, ErrorsQuoteTheLine) {
  const TemplateScope scope = {
      {{"a", "b c"}, {"list", std::vector<TemplateScope>{{{{"x", "1"}}}}}}};
  const auto expect = [&](const std::string& text, const std::string& message) {
    expect_error([&] { (void)fill_template(text, scope, Quoting::kYaml); },
                 "[strata render] template, line " + message);
  };
  expect("x\n{{b}}",
         "2: got the unknown name \"b\" (known here: a, list; --set NAME=VALUE adds one) in "
         "\"{{b}}\"");
  expect(
      "{{=a}}",
      "1: got \"b c\" for a, which has to be of letters, digits and ._-/:@,+= here in \"{{=a}}\"");
  expect("{{#a}}\nx", "1: got a section without {{/a}} in \"{{#a}}\"");
  expect("{{/a}}", "1: got {{/a}} without its beginning in \"{{/a}}\"");
  expect("{{a", "1: got {{ without }} in \"{{a\"");
  expect("{{list}}", "1: got a list, \"list\", as a value in \"{{list}}\"");
}

// As YAML 1.2 reads a double-quoted scalar; written from its grammar, and not from yaml_quote.cc.
std::string yaml_read(const std::string& scalar) {
  EXPECT_TRUE(scalar.size() >= 2 && scalar.front() == '"' && scalar.back() == '"') << scalar;
  std::string text;
  for (size_t i = 1; i + 1 < scalar.size(); ++i) {
    const auto byte = static_cast<unsigned char>(scalar[i]);
    EXPECT_TRUE(byte >= 0x20 && byte != 0x7F && byte != '"') << scalar;
    if (scalar[i] != '\\') {
      text += scalar[i];
      continue;
    }
    const char kind = scalar[++i];
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 0;
    if (digits == 0) {
      text += kind == 'n' ? '\n' : kind == 't' ? '\t' : kind;
      continue;
    }
    const unsigned code = std::stoul(scalar.substr(i + 1, digits), nullptr, 16);
    i += digits;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      text += static_cast<char>(0xE0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return text;
}

TEST(YamlQuotedTest, EveryTextIsReadBack) {
  for (const std::string& text : test::odd_texts(2000)) {
    EXPECT_EQ(yaml_read(yaml_quoted(text)), text) << yaml_quoted(text);
  }
  EXPECT_EQ(yaml_quoted("a\"b\\\n\x01\u0085\ufeff\u00e9"),
            "\"a\\\"b\\\\\\n\\x01\\x85\\uFEFF\u00e9\"");
  for (const char* text : {"\xff", "\xc3", "\xc3(", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                           "\xe0\x80\x80", "\x80"}) {
    EXPECT_THROW((void)yaml_quoted(text), Error);
  }
  EXPECT_THROW((void)yaml_quoted(std::string("a\0b", 3)), Error);
}

TEST(ShellQuotedTest, EveryShellReadsItBack) {
  const Words texts = test::odd_texts(500);
  std::string words, expected;
  for (const std::string& text : texts) {
    words += " " + shell_quoted(text);
    expected += "<" + text + ">";
  }
  const test::TempFolder folder;
  std::ofstream(folder.path() + "/script") << "printf '<%s>'" << words << "\n";
  for (const char* shell : {"/bin/sh", "/bin/bash"}) {
    if (::access(shell, X_OK) != 0) continue;
    const Outcome outcome = run_shell(str_cat(shell, " ", folder.path(), "/script"));
    EXPECT_EQ(outcome.output, expected);
  }
}

const Words kSlurm = {"slurm",
                      "-n",
                      "3",
                      "--ps",
                      "1",
                      "--evaluator",
                      "--tasks-per-node",
                      "2",
                      "--gpus-per-task",
                      "2",
                      "--time",
                      "4:00:00",
                      "--partition",
                      "gpu",
                      "--env",
                      "A=it's $HOME",
                      "--restarts",
                      "2",
                      "--",
                      "./train",
                      "--epochs",
                      "10"};
const Words kKubernetes = {"kubernetes",
                           "-n",
                           "3",
                           "--chief",
                           "--ps",
                           "2",
                           "--evaluator",
                           "--image",
                           "registry.example/train:1",
                           "--train-dir",
                           "/data/run",
                           "--storage",
                           "100Gi",
                           "--gpus-per-task",
                           "1",
                           "--cpus-per-task",
                           "4",
                           "--memory",
                           "16Gi",
                           "--tls",
                           "train-tls",
                           "--tensorboard",
                           "--env",
                           "A=$HOME \"x\"",
                           "--",
                           "/train",
                           "--dir=/data/run",
                           "a b"};
const Words kCompose = {"compose",  "-n",
                        "2",        "--ps",
                        "1",        "--image",
                        "train",    "--train-dir",
                        "/data",    "--gpus-per-task",
                        "1",        "--tensorboard",
                        "--env",    "A=$HOME",
                        "--script", "/train"};

// STRATA_WRITE_GOLDEN=1 writes them.
TEST(RenderTest, GoldenFiles) {
  const std::pair<const char*, Words> kFiles[] = {
      {"slurm.sh", kSlurm}, {"kubernetes.yaml", kKubernetes}, {"compose.yaml", kCompose}};
  for (const auto& [name, words] : kFiles) {
    const std::string path = test::source_path(str_cat("tests/golden/render/", name));
    if (std::getenv("STRATA_WRITE_GOLDEN") != nullptr) std::ofstream(path) << rendered(words);
    EXPECT_EQ(rendered(words), text_of(path)) << name;
  }
}

// The parameters of TensorFlow's own template make the same as ours.
TEST(RenderTest, TheTalksParametersAreUnderstood) {
  const Words ours = {
      "kubernetes",  "--name", "dist",     "--image",         "i",      "-n",
      "4",           "--ps",   "2",        "--gpus-per-task", "2",      "--tensorboard",
      "--train-dir", "/data",  "--script", "/train",          "--port", "5000"};
  const std::string expected = rendered(ours);
  EXPECT_EQ(rendered({"kubernetes", "--name", "dist", "--image", "i", "--worker_replicas", "4",
                      "--ps_replicas", "2", "--num_gpus_per_worker", "2", "--has_tensorboard",
                      "--train_dir", "/data", "--script", "/train", "--port", "5000"}),
            expected);
  EXPECT_EQ(rendered({"kubernetes",
                      "--set",
                      "name=dist",
                      "--set",
                      "image=i",
                      "--set",
                      "worker_replicas=4",
                      "--set",
                      "ps_replicas=2",
                      "--set",
                      "num_gpus_per_worker=2",
                      "--set",
                      "has_tensorboard=True",
                      "--set",
                      "has_eval=False",
                      "--set",
                      "train_dir=/data",
                      "--set",
                      "script=/train",
                      "--set",
                      "port=5000"}),
            expected);
  EXPECT_NE(expected.find("command: [\"/train\", \"/data\"]"), std::string::npos);
  const std::string arguments = rendered({"kubernetes", "--image", "i", "-n", "1", "--script",
                                          "/train", "--set", "cmdline_args=--a b"});
  EXPECT_NE(arguments.find("command: [\"/train\", \"--a\", \"b\"]"), std::string::npos)
      << arguments;
}

TEST(RenderTest, AUsersTemplateHasPlaceholdersOfItsOwn) {
  RenderCommand command =
      read_render_options({"slurm", "-n", "2", "--set", "account=it's", "--", "./train"});
  EXPECT_EQ(render(command.options, "account={{account}} {{=tasks}}\n"), "account='it'\\''s' 2\n");
  expect_error(
      [&] { (void)render(command.options, "{{=tasks}}\n"); },
      "[strata render] got --set account=..., which the template does not have; expected a "
      "parameter or a placeholder {{account}}");
}

TEST(RenderTest, ErrorsQuoteTheWord) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)rendered(std::move(words)); }, "[strata render] got " + message);
  };
  expect({"yarn", "-n", "1", "x"}, "yarn; expected slurm, kubernetes or compose first");
  expect({"-n", "1", "x"}, "no system; expected slurm, kubernetes or compose first");
  expect({"slurm", "x"}, "no number of workers; expected -n N");
  expect({"slurm", "-n", "1"},
         "no program; expected -- PROGRAM ARGUMENTS at the end, or --script PROGRAM");
  expect({"compose", "-n", "1", "x"}, "no image; expected --image NAME");
  expect({"slurm", "-n", "1", "--name", "A", "x"},
         "--name A; expected small letters, digits and -, 40 at most, a letter first");
  expect(
      {"slurm", "-n", "1", "--tensorboard", "--train-dir", "d", "x"},
      "--tensorboard for slurm, where no task serves it; run tensorboard --logdir on the training "
      "folder");
  expect({"kubernetes", "-n", "1", "--image", "i", "--storage", "1Gi", "x"},
         "storage, but no folder to mount it at; expected --train-dir /PATH");
  expect({"kubernetes", "-n", "1", "--image", "i", "--storage", "1Gi", "--claim", "c", "x"},
         "--claim and --storage; expected one of them");
  expect({"slurm", "-n", "1", "--env", "TF_CONFIG={}", "x"},
         "--env TF_CONFIG=..., which is each task's own");
  expect({"slurm", "-n", "1", "--env", "A-B=c", "x"},
         "--env A-B=...; expected a name of letters, digits and _");
  expect({"slurm", "-n", "1", "--set", "has_eval=perhaps", "x"},
         "has_eval=perhaps; expected True or False");
  expect({"slurm", "--set", "worker_replicas=two", "x"},
         "worker_replicas=two; expected a number from 0 up");
  expect({"slurm", "-n", "1", "--port", "65535", "x"},
         "--port 65535; expected a number from 1 to 65535");
  EXPECT_THROW((void)rendered({"slurm", "-n", "1", "--partition", "a b", "x"}), Error);
  EXPECT_THROW((void)rendered({"slurm", "-n", "1", "--time", "1\n#SBATCH --x", "x"}), Error);
}

// A SLURM of shell scripts: `srun` runs the ranks one after the other, on nodes n1, n2 and so on.
class FakeSlurmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "there is no /bin/bash";
    write("scontrol",
          "#!/bin/bash\n[ \"$1\" = show ] && { printf 'n1\\nn2\\nn3\\n'; exit; }\necho \"$@\" "
          ">>$D/queued\n");
    write("srun", R"sh(#!/bin/bash
while [ $# -gt 0 ] && [[ $1 == --* ]]; do
  case $1 in --ntasks=*) tasks=${1#*=};; --ntasks-per-node=*) each=${1#*=};; esac
  shift
done
status=0
for ((rank = 0; rank < tasks; ++rank)); do
  SLURM_PROCID=$rank SLURMD_NODENAME=n$((rank / each + 1)) "$@" || status=$?
done
exit $status
)sh");
    write("task",
          "#!/bin/bash\n{ printf '%s\\n' \"$TF_CONFIG\" \"${CUDA_VISIBLE_DEVICES-unset}\" "
          "\"${#STRATA_JOB_SECRET}\"; } >>$D/tasks\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() + "/" + name) << text;
    std::filesystem::permissions(folder_.path() + "/" + name, std::filesystem::perms::owner_all);
  }
  Outcome run(const Words& words) {
    write("job", rendered(words));
    const std::string d = folder_.path();
    EXPECT_EQ(run_shell("bash -n " + d + "/job").output, "");
    return run_shell(str_cat("D=", d, " PATH=", d,
                             ":$PATH SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-3]' timeout 60 bash ",
                             d, "/job"));
  }
  std::string file(const std::string& name) { return text_of(folder_.path() + "/" + name); }

  const test::TempFolder folder_;
};

TEST_F(FakeSlurmTest, EachRankGetsItsTask) {
  Words words = kSlurm;
  words.erase(std::ranges::find(words, "--"), words.end());
  words.insert(words.end(), {"--", "task"});
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::istringstream lines(file("tasks"));
  const Words kTasks = {"worker:0", "worker:1", "worker:2", "ps:0", "evaluator:0"};
  const Words kGpus = {"0,1", "2,3", "0,1", "", "0,1"};
  for (size_t i = 0; i < kTasks.size(); ++i) {
    std::string config, gpus, secret;
    std::getline(lines, config);
    std::getline(lines, gpus);
    std::getline(lines, secret);
    const auto found = cluster::resolve_cluster(
        cluster::TfConfigResolver({.environment = cluster::Environment({{"TF_CONFIG", config}})}));
    ASSERT_TRUE(found.has_value()) << config;
    EXPECT_EQ(found->task.short_name(), kTasks[i]);
    EXPECT_EQ(found->spec, cluster::ClusterSpec({{"worker", {"n1:8888", "n1:8889", "n2:8888"}},
                                                 {"ps", {"n2:8889"}}}));
    EXPECT_EQ(gpus, kGpus[i]);
    EXPECT_EQ(secret, "64");
  }
}

TEST_F(FakeSlurmTest, WordsAndVariablesArriveByteByByte) {
  const Words texts = test::odd_texts(100);
  std::string expected;
  Words words = {"slurm", "-n", "1", "--env", "A=" + texts.back() + "'\"$\n`x`"};
  words.insert(words.end(), {"--", "bash", "-c", "printf '<%s>' \"$@\" \"$A\"", "bash"});
  for (const std::string& text : texts) {
    words.push_back(text);
    expected += "<" + text + ">";
  }
  expected += "<" + texts.back() + "'\"$\n`x`>";
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, expected);
}

TEST_F(FakeSlurmTest, PreemptionIsQueuedAgainAndFailuresAreStartedAgain) {
  Outcome outcome = run({"slurm", "-n", "1", "--", "bash", "-c", "exit 42"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(file("queued"), "requeue 7\n");
  outcome = run(
      {"slurm", "-n", "1", "--restarts", "2", "--", "bash", "-c", "echo x >>$D/starts; exit 5"});
  EXPECT_EQ(outcome.status, 5);
  EXPECT_EQ(file("starts"), "x\nx\nx\n");
  EXPECT_NE(outcome.output.find("train: ended with 5; start 3 of 3\n"), std::string::npos)
      << outcome.output;
}

// ---- What independent readers say, where they are installed.

Outcome check(const std::string& what, const std::string& text) {
  const test::TempFolder folder;
  std::ofstream(folder.path() + "/file.yaml") << text;
  return run_shell(str_cat("timeout 60 python3 ",
                           test::source_path("tests/tools/check_manifests.py"), " ", what, " ",
                           folder.path(), "/file.yaml"));
}

std::string undollared(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '$') ++i;
    result += text[i];
  }
  return result;
}

TEST(RenderedYamlTest, AnIndependentReaderReadsTheSameTexts) {
  const Words texts = test::odd_texts(300);
  for (const char* target : {"kubernetes", "compose"}) {
    Words words = {target, "-n", "1", "--image", "i", "--env", "A=" + texts.back(), "--"};
    words.insert(words.end(), texts.begin(), texts.end());
    words[8] = words[8].empty() ? "program" : words[8];
    const Outcome outcome = check("yaml", rendered(words));
    if (outcome.status == 77 || outcome.status == 127) GTEST_SKIP() << "PyYAML: " << outcome.output;
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Json documents = Json::parse(outcome.output);
    std::string said;
    for (const Json& each : documents.as_array()) {
      const Json* found = nullptr;
      if (std::string(target) == "compose") {
        found = &each.at("services").at("worker-0").at("entrypoint");
      } else if (each.at("kind").as_string() == "Job") {
        found =
            &each.at("spec").at("template").at("spec").at("containers").as_array()[0].at("command");
      }
      if (found == nullptr) continue;
      const auto& read = found->as_array();
      ASSERT_EQ(read.size(), texts.size());
      for (size_t i = 1; i < texts.size(); ++i) {
        EXPECT_EQ(undollared(read[i].as_string()), texts[i]);
        // No variable is replaced in it: each '$' is doubled.
        EXPECT_EQ(std::ranges::count(read[i].as_string(), '$'),
                  2 * std::ranges::count(texts[i], '$'));
      }
      said += "checked";
    }
    EXPECT_EQ(said, "checked");
  }
}

TEST(KubernetesManifestTest, SchemasAccept) {
  const Outcome outcome = check("kubernetes", rendered(kKubernetes));
  if (outcome.status == 77 || outcome.status == 127) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output,
            "Service train\nSecret train-secret\nPersistentVolumeClaim train-storage\nJob "
            "train-chief\nJob train-worker\nJob train-ps\nJob train-evaluator\nService "
            "train-tensorboard\nDeployment train-tensorboard\n");
  // And refuse: the check itself can fail.
  std::string wrong = rendered(kKubernetes);
  wrong.replace(wrong.find("parallelism"), 11, "paralelism");
  EXPECT_EQ(check("kubernetes", wrong).status, 1);
}

// kubectl decodes with the types of its own, without a server.
TEST(KubernetesManifestTest, KubectlDecodes) {
  if (run_shell("kubectl version --client").status != 0) GTEST_SKIP() << "there is no kubectl";
  const test::TempFolder folder;
  std::string text = rendered(kKubernetes);
  int jobs = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n---\n"), text.size());
    const std::string document = text.substr(0, end);
    text.erase(0, std::min(end + 5, text.size()));
    if (document.find("kind: Job") == document.npos &&
        document.find("kind: Deployment") == document.npos) {
      continue;
    }
    std::ofstream(folder.path() + "/x.yaml") << document;
    const Outcome outcome = run_shell(
        str_cat("timeout 60 kubectl set env --local -f ", folder.path(), "/x.yaml A=b -o name"));
    EXPECT_EQ(outcome.status, 0) << outcome.output << document;
    ++jobs;
  }
  EXPECT_EQ(jobs, 5);
}

// A pod's TF_CONFIG, as Kubernetes makes it: its index in the place of $(TASK_INDEX).
TEST(KubernetesManifestTest, PodsFindTheirTasks) {
  const std::string text = rendered(kKubernetes);
  int pods = 0;
  for (size_t at = text.find("value: \"{"); at != text.npos; at = text.find("value: \"{", at + 1)) {
    const size_t end = text.find('\n', at);
    std::string config = yaml_read(text.substr(at + 7, end - at - 7));
    const std::string kVariable = "$(TASK_INDEX)";
    ASSERT_NE(config.find(kVariable), config.npos);
    config.replace(config.find(kVariable), kVariable.size(), "0");
    const auto found = cluster::resolve_cluster(
        cluster::TfConfigResolver({.environment = cluster::Environment({{"TF_CONFIG", config}})}));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->spec.task_address("worker", 1), "train-worker-1.train:8888");
    EXPECT_EQ(found->spec.num_tasks("worker"), 2);
    EXPECT_FALSE(found->spec.has_job("evaluator"));
    ++pods;
  }
  EXPECT_EQ(pods, 4);
}

}  // namespace
}  // namespace strata::tools
