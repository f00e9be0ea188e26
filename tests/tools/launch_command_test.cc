// `strata launch` as users run it: clusters that meet, signals, nobody left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>

#include "strata/cluster/resolvers.h"
#include "support/expect_error.h"
#include "support/source_path.h"
#include "tools/launch/child_process.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launch/port_reservation.h"
#include "tools/launched.h"
#include "wire/tcp/socket_transport.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

class LaunchCommandTest : public testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out;
    std::string err;
  };

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  bool there(const std::string& name) const { return std::filesystem::exists(path(name)); }
  pid_t pid_in(const std::string& name) const { return std::atoi(text_of(path(name)).c_str()); }

  Result launch(const Words& words, const std::function<void(pid_t)>& meanwhile = {}) {
    Words all = {STRATA_COMMAND, "launch"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all, meanwhile);
  }

  // At most half a minute. @param meanwhile  Gets the process's pid.
  Result run(const Words& words, const std::function<void(pid_t)>& meanwhile = {}) {
    ChildSpec spec = {.program = "/bin/sh",
                      .arguments = {"-c", "exec \"$@\" >$D/out 2>$D/err", "sh"},
                      .environment = {{"D", folder_.path()}, {"TMPDIR", folder_.path()}},
                      .cores = {}};
    spec.arguments.insert(spec.arguments.end(), words.begin(), words.end());
    ChildProcess child(spec, guard_);
    if (meanwhile) meanwhile(child.pid());
    std::optional<ChildEnd> end;
    EXPECT_TRUE(eventually([&] {
      end = child.reap();
      return end.has_value();
    }));
    return {end ? end->status() : -1, text_of(path("out")), text_of(path("err"))};
  }

  const test::TempFolder folder_;
  const OrphanReaper guard_;
};

void expect_all_done(const std::string& out, const Words& tasks) {
  for (const std::string& task : tasks) {
    EXPECT_TRUE(contains(out, str_cat("[", task, "] done\n")) ||
                contains(out, str_cat("[", task, "]  done\n")))
        << task << "\n"
        << out;
  }
}

TEST_F(LaunchCommandTest, AClusterMeetsWorksAndEnds) {
  const Result result = launch({"-n", "3", STRATA_CLUSTER_TASK, "rounds", "20"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_all_done(result.out, {"worker:0", "worker:1", "worker:2"});
}

TEST_F(LaunchCommandTest, AClusterWithAllRoles) {
  const Result result =
      launch({"-n", "2", "--chief", "--evaluator", "--", STRATA_CLUSTER_TASK, "rounds", "5"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "[chief:0]     done\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "[worker:0]    done\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "[evaluator:0] done\n")) << result.out;
}

TEST_F(LaunchCommandTest, TwoAtOnceDoNotCollide) {
  Result other;
  const Result result = launch({"-n", "3", STRATA_CLUSTER_TASK, "rounds", "10", "10"}, [&](pid_t) {
    for (int i = 0; i < 2; ++i) {
      ChildProcess second({.program = STRATA_COMMAND,
                           .arguments = {"launch", "-n", "3", STRATA_CLUSTER_TASK, "rounds", "10"},
                           .environment = {},
                           .cores = {}},
                          guard_);
      std::optional<ChildEnd> end;
      EXPECT_TRUE(eventually([&] {
        char text[4096];
        (void)!::read(second.out(), text, sizeof text);
        end = second.reap();
        return end.has_value();
      }));
      EXPECT_TRUE(end && end->well());
    }
  });
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(LaunchCommandTest, AWrongCommandLineEndsWithTwo) {
  EXPECT_EQ(launch({}).status, 2);
  EXPECT_EQ(launch({"-n", "0", "true"}).status, 2);
  EXPECT_EQ(launch({"-n", "2", "--bogus", "--", "true"}).status, 2);
  EXPECT_EQ(launch({"-n", "2", "--", "/no/such/program"}).status, 1);
  EXPECT_EQ(launch({"--help"}).status, 0);
}

TEST_F(LaunchCommandTest, AReaderThatIsGoneEndsAll) {
  const std::string script = "\"$0\" launch -n 2 -- seq 1000000 | head -n 1; exit ${PIPESTATUS[0]}";
  EXPECT_EQ(run({"/bin/bash", "-c", script, STRATA_COMMAND}).status, 128 + SIGPIPE);
}

TEST_F(LaunchCommandTest, ATaskThatDiesIsNamedByAll) {
  // Worker 1 waits for the others to hold, and is killed.
  const std::string script =
      "case $TF_CONFIG in *'\"index\":1}'*) echo $$ >$D/new; mv $D/new $D/pid;; esac; exec \"$0\" "
      "hold";
  const Result result =
      launch({"-n", "3", "/bin/sh", "-c", script, STRATA_CLUSTER_TASK}, [&](pid_t) {
        EXPECT_TRUE(eventually([&] {
          const std::string out = text_of(path("out"));
          return contains(out, "[worker:0] holding") && contains(out, "[worker:1] holding") &&
                 contains(out, "[worker:2] holding");
        }));
        ::kill(pid_in("pid"), SIGKILL);
      });
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "strata launch: worker:1 failed with SIGKILL (Killed) after"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "worker:0 failed as well, with exit code 1: error UNAVAILABLE"))
      << result.err;
}

TEST_F(LaunchCommandTest, AnElasticClusterGoesOnWithWhoWasStartedAgain) {
  const std::string script =
      "case $TF_CONFIG in *'\"index\":1}'*) echo $$ >$D/new; mv $D/new $D/pid;; esac; exec \"$0\" "
      "rejoin 30 10";
  const Result result = launch(
      {"-n", "3", "--restarts", "1", "--elastic", "/bin/sh", "-c", script, STRATA_CLUSTER_TASK},
      [&](pid_t) {
        EXPECT_TRUE(eventually([&] { return contains(text_of(path("out")), "1] round 3"); }));
        ::kill(pid_in("pid"), SIGKILL);
      });
  EXPECT_EQ(result.status, 0) << result.err;
  expect_all_done(result.out, {"worker:0", "worker:1", "worker:2"});
  EXPECT_TRUE(contains(result.out, "[worker:1] generation 2\n")) << result.out;
  EXPECT_TRUE(contains(result.err, "starting it again (restart 1 of 1)\n")) << result.err;
}

TEST_F(LaunchCommandTest, AClusterIsStartedAgainAtItsOwnAddresses) {
  const std::string script =
      "echo \"$TF_CONFIG\" >>$D/configs; test -e $D/failed || { touch $D/failed; exit 1; }; exec "
      "\"$0\" rounds 3";
  const Result result =
      launch({"-n", "1", "--restarts", "1", "/bin/sh", "-c", script, STRATA_CLUSTER_TASK});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string configs = text_of(path("configs"));
  const size_t half = configs.size() / 2;
  EXPECT_EQ(configs.substr(0, half), configs.substr(half));
}

TEST_F(LaunchCommandTest, SignalsArePassedOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::filesystem::remove(path("out"));
    const Result result = launch({"-n", "2", STRATA_CLUSTER_TASK, "hold"}, [&](pid_t launcher) {
      EXPECT_TRUE(eventually([&] {
        const std::string out = text_of(path("out"));
        return contains(out, "[worker:0] holding") && contains(out, "[worker:1] holding");
      }));
      ::kill(launcher, signal);
    });
    EXPECT_EQ(result.status, 128 + signal);
    EXPECT_TRUE(contains(result.err, str_cat("got ", signal_name(signal), ": ending")))
        << result.err;
  }
}

TEST_F(LaunchCommandTest, NobodyOutlivesALauncherThatIsKilled) {
  const std::string script = "sh -c 'echo $$ >$D/$1.new; mv $D/$1.new $D/$1; exec sleep 600' sh $$";
  std::vector<pid_t> pids;
  const Result result =
      launch({"-n", "2", "--tls", "/bin/sh", "-c", script + "; true"}, [&](pid_t launcher) {
        EXPECT_TRUE(eventually([&] {
          pids.clear();
          for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
            const std::string name = entry.path().filename();
            if (name.find_first_not_of("0123456789") != std::string::npos) continue;
            pids.push_back(std::atoi(name.c_str()));
            pids.push_back(pid_in(name));
          }
          return pids.size() == 4;
        }));
        ::kill(launcher, SIGKILL);
      });
  EXPECT_EQ(result.status, 128 + SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
  // The certificates' secrets, too.
  EXPECT_TRUE(eventually([&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("strata-tls-")) return false;
    return true;
  }));
}

TEST_F(LaunchCommandTest, AnEncryptedCluster) {
  if (!wire::socket_transport_has_tls()) return;
  const Result result = launch({"-n", "2", "--tls", "/bin/sh", "-c",
                                "ls $STRATA_TLS_DIR | tr '\\n' ' '; echo; exec \"$0\" rounds 5",
                                STRATA_CLUSTER_TASK});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  expect_all_done(result.out, {"worker:0", "worker:1"});
  EXPECT_TRUE(contains(result.out,
                       "[worker:0] authority.key authority.pem worker-0.key worker-0.pem "
                       "worker-1.key worker-1.pem \n"))
      << result.out;
}

// The shell's part of docs/clusters.md, with a program that meets the others.
TEST_F(LaunchCommandTest, WhatTheDocumentSaysWorks) {
  std::filesystem::create_symlink(STRATA_COMMAND, path("strata"));
  std::ofstream(path("train")) << "#!/bin/sh\nexec " << STRATA_CLUSTER_TASK << " rounds 3\n";
  std::filesystem::permissions(path("train"), std::filesystem::perms::owner_all);
  const PortReservation ports(2);
  std::istringstream document(text_of(test::source_path("docs/clusters.md")));
  int blocks = 0;
  for (std::string line; std::getline(document, line);) {
    if (line != "<!-- run by tests/tools/launch_command_test.cc -->") continue;
    std::getline(document, line);
    ASSERT_EQ(line, "```sh");
    std::string script = "set -e\n";
    while (std::getline(document, line) && line != "```") script += line + "\n";
    script = std::regex_replace(script, std::regex(":2222"), str_cat(":", ports[0]));
    script = std::regex_replace(script, std::regex(":2223"), str_cat(":", ports[1]));
    if (!wire::socket_transport_has_tls() && contains(script, "certs")) continue;
    SCOPED_TRACE(script);
    const Result result = run({"/bin/sh", "-c", "cd $D; PATH=$D:$PATH; " + script + "wait"});
    EXPECT_EQ(result.status, 0) << result.err << result.out;
    EXPECT_TRUE(contains(result.out, "done\n")) << result.out;
    ++blocks;
  }
  EXPECT_GE(blocks, 2);
}

/// "[worker:0] secret=XYZ" -> "XYZ", for each task that printed it.
Words secrets_in(const std::string& out) {
  Words secrets;
  const std::regex line("\\[[a-z]+:[0-9]\\] *secret=(.*)");
  for (std::sregex_iterator found(out.begin(), out.end(), line), end; found != end; ++found) {
    secrets.push_back((*found)[1]);
  }
  return secrets;
}

const char* const kPrintSecret =
    "echo secret=$STRATA_JOB_SECRET; cat /proc/$PPID/cmdline | tr '\\0' ' '";

TEST_F(LaunchCommandTest, EachRunHasASecretOfItsOwn) {
  const Words run = {"-n", "2", "--ps", "1", "--evaluator", "/bin/sh", "-c", kPrintSecret};
  const Result first = launch(run);
  const Result second = launch(run);
  const Words one = secrets_in(first.out);
  const Words other = secrets_in(second.out);
  ASSERT_EQ(one.size(), 4U) << first.out;
  ASSERT_EQ(other.size(), 4U) << second.out;
  EXPECT_EQ(std::ranges::count(one, one[0]), 4);
  EXPECT_EQ(one[0].size(), 64U);
  EXPECT_EQ(one[0].find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one[0], other[0]);
  // Neither the launcher's arguments have it (each task prints them) nor its own lines.
  const std::string printed = std::regex_replace(first.out, std::regex("secret=.*"), "");
  EXPECT_TRUE(contains(printed, " launch -n 2 ")) << printed;
  EXPECT_FALSE(contains(printed + first.err, one[0]));
}

TEST_F(LaunchCommandTest, TheUserMayChooseTheSecretOrNone) {
  const Words print = {"/bin/sh", "-c",
                       "echo secret=$STRATA_JOB_SECRET-$STRATA_JOB_SECRET_FILE-"
                       "${STRATA_JOB_SECRET+set}"};
  const auto launched = [&](Words words) {
    words.insert(words.end(), print.begin(), print.end());
    const Result result = launch(words);
    EXPECT_EQ(result.status, 0) << result.err;
    const Words secrets = secrets_in(result.out);
    return secrets.empty() ? result.out : secrets[0];
  };
  EXPECT_EQ(launched({"-n", "1", "--no-secret"}), "--");
  EXPECT_EQ(launched({"-n", "1", "--env", "STRATA_JOB_SECRET_FILE=/a/file"}), "-/a/file-");
  std::ofstream(path("key")) << "of a file, long enough\n";
  std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
  ::setenv("STRATA_JOB_SECRET_FILE", path("key").c_str(), 1);
  EXPECT_EQ(launched({"-n", "1"}), str_cat("-", path("key"), "-"));
  std::filesystem::permissions(path("key"), std::filesystem::perms::all);
  const Result open = launch({"-n", "1", "true"});
  ::unsetenv("STRATA_JOB_SECRET_FILE");
  EXPECT_NE(open.status, 0);
  EXPECT_TRUE(contains(open.err, str_cat("chmod 600 ", path("key")))) << open.err;
  ::setenv("STRATA_JOB_SECRET", "chosen, long enough", 1);
  EXPECT_EQ(launched({"-n", "1"}), "chosen, long enough--set");
  ::unsetenv("STRATA_JOB_SECRET");
  const Result dry = launch({"-n", "1", "--dry-run", "true"});
  EXPECT_FALSE(contains(dry.out, "SECRET")) << dry.out;
}

// A stranger on the same machine, without certificates anywhere.
TEST_F(LaunchCommandTest, AClusterIsClosedToOthersByDefault) {
  const std::string script =
      "echo \"$TF_CONFIG\" >$D/new.$$; mv $D/new.$$ $D/config; exec \"$0\" rounds 100 50";
  const Result result =
      launch({"-n", "2", "/bin/sh", "-c", script, STRATA_CLUSTER_TASK}, [&](pid_t) {
        ASSERT_TRUE(eventually([&] { return contains(text_of(path("out")), "round 0"); }));
        const auto found = cluster::resolve_cluster(cluster::TfConfigResolver(
            {.environment = cluster::Environment({{"TF_CONFIG", text_of(path("config"))}})}));
        ASSERT_TRUE(found.has_value());
        const auto limit = [] { return wire::Deadline::after(std::chrono::seconds(20)); };
        const std::vector<std::unique_ptr<wire::Transport>> strangers = [] {
          std::vector<std::unique_ptr<wire::Transport>> both;
          both.push_back(wire::make_socket_transport());
          both.push_back(wire::make_socket_transport({.job_secret = wire::JobSecret::random()}));
          return both;
        }();
        for (const auto& stranger : strangers) {
          for (const int at : {0, 1}) {
            for (const char* purpose : {"control", "data/x"}) {
              const wire::Hello hello = {.job = "strata",
                                         .task = cluster::TaskId{"worker", 1 - at}.to_string(),
                                         .purpose = purpose};
              expect_error_containing(
                  [&] {
                    stranger->connect(wire::Address::parse(found->spec.task_address("worker", at)),
                                      hello, limit());
                  },
                  ErrorCode::kUnauthenticated, "set STRATA_JOB_SECRET_FILE");
            }
          }
        }
      });
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  expect_all_done(result.out, {"worker:0", "worker:1"});
  EXPECT_TRUE(contains(result.err, "has no job secret")) << result.err;
}

// One that comes without certificates is not let in.
TEST_F(LaunchCommandTest, AnEncryptedClusterIsClosedToOthers) {
  if (!wire::socket_transport_has_tls()) return;
  const std::string script =
      "case $TF_CONFIG in *'\"index\":1}'*) unset STRATA_TLS_DIR;; esac; exec \"$0\" rounds 5";
  const Result result = launch({"-n", "2", "--tls", "--env", "STRATA_START_MS=2000", "/bin/sh",
                                "-c", script, STRATA_CLUSTER_TASK});
  EXPECT_EQ(result.status, 1) << result.err << result.out;
  EXPECT_FALSE(contains(result.out, "done")) << result.out;
  EXPECT_TRUE(contains(result.err, "refused 127.0.0.1")) << result.err;
}

}  // namespace
}  // namespace strata::tools
