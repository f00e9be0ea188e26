// `strata launch --hosts`: over a program that runs everything here in place of ssh, over a real
// ssh server, and between hosts that have networks of their own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <regex>

#include "strata/core/error.h"
#include "suites/netns_testbed.h"
#include "support/expect_error.h"
#include "tools/launch/child_process.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launch/port_reservation.h"
#include "tools/launch/remote_cluster.h"
#include "tools/launched.h"
#include "wire/tcp/socket_transport.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

// What tasks have in their environment and the launcher has not: how their processes are found.
constexpr const char* kMark = "STRATA_TEST_MARK";

class RemoteLaunchTest : public testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out;
    std::string err;
  };

  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_with(mark()).empty(); })) << "processes are left";
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string mark() const { return str_cat(kMark, "=", folder_.path()); }

  void write_program(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
  }

  // At most half a minute. @param meanwhile  Gets the launcher's pid.
  Result launch(const Words& words, const std::function<void(pid_t)>& meanwhile = {},
                const Words& in_front = {}) {
    ChildSpec spec = {.program = "/bin/sh",
                      .arguments = {"-c", "exec \"$@\" >$D/out 2>$D/err", "sh"},
                      .environment = {{"D", folder_.path()}, {"TMPDIR", folder_.path()}},
                      .cores = {}};
    const Words begin = {STRATA_COMMAND, "launch", "--env", mark()};
    for (const Words& part : {in_front, begin, words}) {
      spec.arguments.insert(spec.arguments.end(), part.begin(), part.end());
    }
    ChildProcess child(spec, guard_);
    if (meanwhile) meanwhile(child.pid());
    std::optional<ChildEnd> end;
    EXPECT_TRUE(eventually([&] {
      end = child.reap();
      return end.has_value();
    })) << text_of(path("out"))
        << text_of(path("err"));
    return {end ? end->status() : -1, text_of(path("out")), text_of(path("err"))};
  }

  void await_line(const std::string& line) {
    EXPECT_TRUE(eventually([&] { return contains(text_of(path("out")), line); }))
        << line << "\n"
        << text_of(path("out")) << text_of(path("err"));
  }

  const test::TempFolder folder_;
  const OrphanReaper guard_;
};

void expect_all_done(const std::string& out, const Words& tasks) {
  for (const std::string& task : tasks) {
    const std::regex line(str_cat("\\[", task, "\\] +done\n"));
    EXPECT_TRUE(std::regex_search(out, line)) << task << "\n" << out;
  }
}

// Over a program in place of ssh: it ends as a connection does, and notes what it was given.
class FakeSshTest : public RemoteLaunchTest {
 protected:
  void SetUp() override {
    write_program("fake",
                  "#!/bin/sh\ncat /proc/$$/cmdline /proc/$$/environ >>$D/seen\n"
                  "echo $$ >$D/ssh.$1\ncd /\nexec /bin/sh -c \"$2\"\n");
  }
  Result launch_on(const std::string& hosts, const Words& words,
                   const std::function<void(pid_t)>& meanwhile = {}) {
    Words all = {"--hosts", hosts, "--ssh", path("fake"), "--env", "D=" + folder_.path()};
    all.insert(all.end(), words.begin(), words.end());
    return launch(all, meanwhile);
  }
};

TEST_F(FakeSshTest, AClusterMeetsWorksAndEnds) {
  const Result result = launch_on(
      "127.0.0.1:2,127.0.0.2",
      {"--chief", "--evaluator", "--directory", "/tmp", "--", STRATA_CLUSTER_TASK, "rounds", "20"});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  expect_all_done(result.out, {"chief:0", "worker:0", "worker:1", "evaluator:0"});
}

TEST_F(FakeSshTest, AnEncryptedCluster) {
  if (!wire::socket_transport_has_tls()) return;
  const Result result = launch_on(
      "127.0.0.1,127.0.0.2",
      {"--tls", "/bin/sh", "-c", "ls $STRATA_TLS_DIR | tr '\\n' ' '; echo; exec \"$0\" rounds 5",
       STRATA_CLUSTER_TASK});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  expect_all_done(result.out, {"worker:0", "worker:1"});
  // Its own key, and no one else's.
  EXPECT_TRUE(contains(result.out, "[worker:1] authority.pem worker-1.key worker-1.pem \n"))
      << result.out;
}

TEST_F(FakeSshTest, TheSecretIsInNoArgumentAndNotInSshsEnvironment) {
  const Words print = {"/bin/sh", "-c",
                       "echo secret=$STRATA_JOB_SECRET; cat /proc/$PPID/cmdline >>$D/seen"};
  Words with_env = {"--env", "STRATA_TEST_A='a b' $c"};
  with_env.insert(with_env.end(), print.begin(), print.end());
  Result result = launch_on("127.0.0.1:2,127.0.0.2", with_env);
  EXPECT_EQ(result.status, 0) << result.err;
  std::smatch found;
  ASSERT_TRUE(
      std::regex_search(result.out, found, std::regex("worker:0\\] secret=([0-9a-f]{64})\n")))
      << result.out;
  const std::string secret = found[1];
  for (const char* task : {"worker:1", "worker:2"}) {
    EXPECT_TRUE(contains(result.out, str_cat("[", task, "] secret=", secret, "\n")));
  }
  const std::string seen = text_of(path("seen"));
  EXPECT_TRUE(contains(seen, "127.0.0.2")) << seen;
  EXPECT_FALSE(contains(seen, secret));
  EXPECT_FALSE(contains(seen, "STRATA_TEST_A")) << seen;  // nor anything else of the task's

  // The user's own, from a file that others need not have, or from the variable.
  std::ofstream(path("key")) << "of a file, long enough\n";
  std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
  ::setenv("STRATA_JOB_SECRET_FILE", path("key").c_str(), 1);
  result = launch_on("127.0.0.1", print);
  EXPECT_EQ(result.out, "[worker:0] secret=of a file, long enough\n") << result.err;
  EXPECT_FALSE(contains(text_of(path("seen")), "of a file, long"));
  ::unsetenv("STRATA_JOB_SECRET_FILE");
  EXPECT_EQ(
      launch_on("127.0.0.1", {"--no-secret", "/bin/sh", "-c", "echo -$STRATA_JOB_SECRET-"}).out,
      "[worker:0] --\n");
}

TEST_F(FakeSshTest, StratasVariablesAndNamedOnesFollow) {
  ::setenv("STRATA_LOG_LEVEL", "INFO it's", 1);
  ::setenv("A_NAMED_ONE", "x\ny", 1);
  const Result result = launch_on("127.0.0.1", {"--env", "A_NAMED_ONE", "/bin/sh", "-c",
                                                "echo \"$STRATA_LOG_LEVEL $A_NAMED_ONE\""});
  ::unsetenv("STRATA_LOG_LEVEL");
  ::unsetenv("A_NAMED_ONE");
  EXPECT_EQ(result.out, "[worker:0] INFO it's x\n[worker:0] y\n");
}

TEST_F(FakeSshTest, OneFailureEndsAll) {
  const std::string script =
      "case $TF_CONFIG in *'\"index\":1}'*) while ! test -e $D/ready; do :; done; echo bad; exit "
      "3;; "
      "esac; sleep 600 & echo >$D/ready; wait";
  const Result result = launch_on("127.0.0.1,127.0.0.2", {"/bin/sh", "-c", script});
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(std::regex_search(
      result.err, std::regex("strata launch: worker:1 on 127.0.0.2 failed with exit code 3 after "
                             ".* s; its last lines:\n    bad\n")))
      << result.err;
}

TEST_F(FakeSshTest, SignalsArePassedOnAndSavedStateCounts) {
  const std::string script =
      "trap 'echo saved; exit 42' TERM; echo up; while :; do sleep 0.1; done";
  const Result result =
      launch_on("127.0.0.1,127.0.0.2", {"/bin/sh", "-c", script}, [&](pid_t launcher) {
        await_line("[worker:0] up");
        await_line("[worker:1] up");
        ::kill(launcher, SIGTERM);
      });
  EXPECT_EQ(result.status, 42) << result.err;
  EXPECT_TRUE(contains(result.out, "[worker:0] saved\n") &&
              contains(result.out, "[worker:1] saved\n"))
      << result.out;
}

TEST_F(FakeSshTest, NoProcessOutlivesALauncherThatIsKilled) {
  const Result result = launch_on(
      "127.0.0.1,127.0.0.2", {"/bin/sh", "-c", "echo up; sleep 600; true"}, [&](pid_t launcher) {
        await_line("[worker:0] up");
        await_line("[worker:1] up");
        ::kill(launcher, SIGKILL);
      });
  EXPECT_EQ(result.status, 128 + SIGKILL);
  // TearDown looks for the tasks' processes.
}

TEST_F(FakeSshTest, AllAreStartedAgainAtTheirAddresses) {
  const std::string script =
      "echo \"$TF_CONFIG\" >>$D/configs; test -e $D/failed || { touch $D/failed; exit 1; }; exec "
      "\"$0\" rounds 3";
  const Result result =
      launch_on("127.0.0.1", {"--restarts", "1", "/bin/sh", "-c", script, STRATA_CLUSTER_TASK});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string configs = text_of(path("configs"));
  EXPECT_EQ(configs.substr(0, configs.size() / 2), configs.substr(configs.size() / 2));
}

// A host that takes the connection and then says nothing: all end, and it is named.
TEST_F(FakeSshTest, AHostThatDoesNotAnswerIsNamed) {
  write_program("fake",
                "#!/bin/sh\ntest $1 = 127.0.0.1 || exec sleep 600\ncd /\nexec /bin/sh -c \"$2\"\n");
  const auto begin = std::chrono::steady_clock::now();
  const Result result =
      launch_on("127.0.0.1,127.0.0.2", {"--grace", "0.2", "/bin/sh", "-c", "exit 5"});
  EXPECT_EQ(result.status, 5);
  EXPECT_LT(seconds_since(begin), 20);
  EXPECT_TRUE(
      contains(result.err,
               "no answer from 127.0.0.2, where worker:1 ran; what still runs there ends by "
               "itself within 20 s"))
      << result.err;
}

TEST(RemoteClusterTest, TasksArePlacedOnTheHosts) {
  const RemoteCluster cluster(read_launch_options(
      {"--hosts", "h1=10.0.0.1:2,me@h2:1,[fd00::3]:4", "-n", "4", "--chief", "--ps", "4",
       "--evaluator", "--port", "5000", "--gpus-per-task", "2", "--ssh", "/bin/true -x", "train"}));
  EXPECT_EQ(cluster.spec().to_json().dump(),
            R"({"chief":["10.0.0.1:5000"],"ps":["10.0.0.1:5002","h2:5001","[fd00::3]:5001",)"
            R"("10.0.0.1:5003"],"worker":["10.0.0.1:5001","h2:5000","[fd00::3]:5000"]})");
  std::string placed;
  for (const SupervisedTask& task : cluster.tasks()) {
    placed += str_cat(task.name, "@", task.host, task.leads ? "!" : "", " ");
    EXPECT_EQ(task.child.arguments[1], "exec /bin/true -x \"$@\"");
    EXPECT_EQ(task.child.arguments[3], task.host);  // no options of ssh's for another program
  }
  EXPECT_EQ(
      placed,
      "chief:0@h1! worker:0@h1 worker:1@me@h2 worker:2@fd00::3 ps:0@h1 ps:1@me@h2 ps:2@fd00::3 "
      "ps:3@h1 evaluator:0@fd00::3 ");
  const auto has = [&](size_t task, const std::string& line) {
    return contains(*cluster.tasks()[task].child.input, line);
  };
  EXPECT_TRUE(has(0, "export CUDA_VISIBLE_DEVICES=0,1\n"));
  EXPECT_TRUE(has(1, "export CUDA_VISIBLE_DEVICES=2,3\n"));
  EXPECT_TRUE(has(2, "export CUDA_VISIBLE_DEVICES=0,1\n"));
  EXPECT_FALSE(has(4, "CUDA_VISIBLE_DEVICES"));
  const RemoteCluster drawn(read_launch_options({"--hosts", "h1:2,h2:2", "x"}));
  EXPECT_EQ(drawn.spec().num_tasks("worker"), 4);
  const Words& ssh = drawn.tasks()[3].child.arguments;
  EXPECT_EQ(std::ranges::count(ssh, "BatchMode=yes"), 1);
  EXPECT_EQ(ssh[ssh.size() - 2], "h2");
}

TEST(RemoteClusterTest, ErrorsQuoteWhatIsWrong) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { RemoteCluster cluster(read_launch_options(std::move(words))); },
                 "[strata launch] got " + message);
  };
  expect({"--hosts", "h1:2", "-n", "3", "x"},
         "-n 3, and hosts with room for 2 workers; expected fewer, or more room: --hosts h1:4");
  expect(
      {"-n", "1", "--ssh", "x", "y"},
      "an option for other hosts without hosts; expected --hosts with --ssh, --directory, --port "
      "and --host-timeout");
  expect({"--hosts", "h1:3", "--port", "65534", "x"},
         "--port 65534, from which h1 and the others have too few; expected a lower one");
  expect({"--hosts", "h1", "--port", "0", "x"}, "--port 0; expected a number from 1 up");
  expect({"--hosts", "h1", "--host-timeout", "0", "x"},
         "--host-timeout below 1; expected seconds, 1 or more");
  expect(
      {"--hosts", "h1", "--no-pin", "x"},
      "--no-pin with --hosts; programs on other hosts share the cores by themselves: leave it out");
  expect(
      {"--hosts", "h1", "--share-gpus", "--gpus-per-task", "1", "x"},
      "--share-gpus and --gpus-per-task with --hosts, whose GPUs are not known here; expected one "
      "of them");
  expect({"--hosts", "h1", "--hosts", "h2", "x"},
         "--hosts, and hosts before it; expected one of --hosts and --hostfile");
  expect({"--hosts", "h1", "--env", "A.B=c", "x"},
         "--env A.B=..., which a shell on another host cannot set; expected a name of letters, "
         "digits and _");
  expect_error_containing(
      [] {
        RemoteCluster cluster(
            read_launch_options({"--hosts", "h1", "--ssh", "no-such-ssh -p 1", "x"}));
      },
      ErrorCode::kNotFound, "[strata launch] got the program no-such-ssh, which is not in PATH");
}

// A real ssh server, of this user alone and with keys of its own.
class SshServer {
 public:
  static std::string missing() {
    if (program().empty() || ::access("/usr/bin/ssh", X_OK) != 0) {
      return "there is no ssh with a server (Debian: openssh-server, openssh-client)";
    }
    return "";
  }
  static std::string program() {
    for (const char* path : {"/usr/sbin/sshd", "/sbin/sshd"}) {
      if (::access(path, X_OK) == 0) return path;
    }
    return "";
  }

  /// @param in_front  Words that put it on a host of its own.
  SshServer(const std::string& folder, const std::string& address, int port,
            const OrphanReaper& guard, const Words& in_front = {})
      : folder_(folder), port_(port) {
    std::filesystem::create_directories(folder);
    const std::string make =
        "cd \"$1\" && test -e user || { ssh-keygen -q -t ed25519 -N '' -f user && "
        "ssh-keygen -q -t ed25519 -N '' -f host && cp user.pub keys && chmod 600 keys; }; "
        "test \"$(id -u)\" != 0 || mkdir -p /run/sshd; "
        "printf '[%s]:%s %s\\n' \"$2\" \"$3\" \"$(cut -d' ' -f1,2 host.pub)\" >>known";
    run(guard, {"/bin/sh", "-c", make, "sh", folder, address, std::to_string(port)});
    const std::string name = str_cat(folder, "/config.", address);
    std::ofstream(name) << "ListenAddress " << address << "\nPort " << port << "\nHostKey "
                        << folder << "/host\nAuthorizedKeysFile " << folder
                        << "/keys\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                           "PasswordAuthentication no\nKbdInteractiveAuthentication no\n";
    Words words = in_front;
    words.insert(words.end(), {program(), "-D", "-e", "-f", name});
    server_.emplace(spec_of(words), guard);
    std::string log;
    EXPECT_TRUE(eventually([&] {
      char bytes[4096];
      const ssize_t got = ::read(server_->err(), bytes, sizeof bytes);
      if (got > 0) log.append(bytes, static_cast<size_t>(got));
      return contains(log, "Server listening on");
    })) << log;
  }

  /// What --ssh gets. @param more  Options in front of the usual ones.
  std::string ssh(const std::string& more = "") const {
    return str_cat("ssh ", more, " -F none -p ", port_, " -i ", folder_,
                   "/user -o IdentitiesOnly=yes -o IdentityAgent=none -o UserKnownHostsFile=",
                   folder_, "/known -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes");
  }

 private:
  static ChildSpec spec_of(const Words& words) {
    return {.program = words[0],
            .arguments = {words.begin() + 1, words.end()},
            .environment = {},
            .cores = {}};
  }
  static void run(const OrphanReaper& guard, const Words& words) {
    ChildProcess child(spec_of(words), guard);
    std::optional<ChildEnd> end;
    EXPECT_TRUE(eventually([&] {
      end = child.reap();
      return end.has_value();
    }));
    EXPECT_TRUE(end && end->well()) << text_of(words.back());
  }

  std::string folder_;
  int port_;
  std::optional<ChildProcess> server_;
};

class SshTest : public RemoteLaunchTest {
 protected:
  void SetUp() override {
    const std::string why = SshServer::missing();
    if (!why.empty()) GTEST_SKIP() << why;
    server_.emplace(path("ssh"), "127.0.0.1", port_[0], guard_);
  }
  Result launch_over(const std::string& ssh, const Words& words,
                     const std::function<void(pid_t)>& meanwhile = {}) {
    Words all = {"--hosts", "127.0.0.1:2", "--ssh", ssh, "--env", "D=" + folder_.path()};
    all.insert(all.end(), words.begin(), words.end());
    return launch(all, meanwhile);
  }
  void expect_failure(const Result& result, int status, const std::string& said) {
    EXPECT_EQ(result.status, status) << result.err << result.out;
    EXPECT_TRUE(contains(result.err, said)) << result.err;
  }

  const PortReservation port_{2};
  std::optional<SshServer> server_;
};

TEST_F(SshTest, AClusterMeetsWorksAndEnds) {
  const Result result = launch_over(server_->ssh(), {STRATA_CLUSTER_TASK, "rounds", "20"});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  expect_all_done(result.out, {"worker:0", "worker:1"});
}

TEST_F(SshTest, ExitCodesAndSignalsAreTheTasks) {
  expect_failure(
      launch_over(server_->ssh(), {"-n", "1", "sh", "-c", "echo out; echo err >&2; exit 9"}), 9,
      "worker:0 on 127.0.0.1 failed with exit code 9");
  expect_failure(launch_over(server_->ssh(), {"-n", "1", "sh", "-c", "kill -SEGV $$"}),
                 128 + SIGSEGV, "worker:0 on 127.0.0.1 failed with SIGSEGV (Segmentation fault)");
  const Result result =
      launch_over(server_->ssh(), {"sh", "-c", "trap 'exit 42' TERM; echo up; sleep 600 & wait"},
                  [&](pid_t launcher) {
                    await_line("[worker:0] up");
                    await_line("[worker:1] up");
                    ::kill(launcher, SIGTERM);
                  });
  EXPECT_EQ(result.status, 42) << result.err;
}

TEST_F(SshTest, WhatIsWrongIsSaid) {
  const Words task = {"-n", "1", "true"};
  expect_failure(launch_over(server_->ssh(), {"-n", "1", "/no/such/program"}), 127,
                 "strata launch: the program /no/such/program does not exist on this host");
  expect_failure(launch_over(server_->ssh("-o HostKeyAlias=other"), task), 255,
                 "the host's key is not known here, or has changed: look at it once with `ssh "
                 "127.0.0.1 true`");
  expect_failure(launch_over(server_->ssh("-o PubkeyAuthentication=no"), task), 255,
                 "ssh must get in without a password");
  expect_failure(launch_over(server_->ssh(str_cat("-p ", port_[1])), task), 255,
                 "no ssh server listens there: start one, or --ssh \"ssh -p PORT\"");
  Words elsewhere = {"--hosts", "no-such-host.invalid", "--ssh", server_->ssh(), "true"};
  expect_failure(launch(elsewhere), 255, "the name is not known here: correct --hosts");
}

// The connection's process on the other side is killed; its tasks do not outlive it (TearDown).
TEST_F(SshTest, AConnectionThatIsCutEndsWhatRanThere) {
  const std::string script =
      "echo $PPID >$D/new.$$; mv $D/new.$$ $D/agent; echo up; sleep 600; true";
  const auto begin = std::chrono::steady_clock::now();
  const Result result = launch_over(server_->ssh(), {"sh", "-c", script}, [&](pid_t) {
    await_line("[worker:0] up");
    await_line("[worker:1] up");
    // The task's parent is the script, whose parent is the server's process of this connection.
    const std::string stat =
        text_of(str_cat("/proc/", std::atoi(text_of(path("agent")).c_str()), "/status"));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(stat, found, std::regex("PPid:\t([0-9]+)"))) << stat;
    ::kill(std::stoi(found[1]), SIGKILL);
  });
  EXPECT_EQ(result.status, 255) << result.err;
  EXPECT_LT(seconds_since(begin), 20);
  EXPECT_TRUE(contains(result.err, "the connection was cut; what ran there was ended") ||
              contains(result.err, "255 is also what ssh returns"))
      << result.err;
}

// Hosts with networks of their own: one's plug is pulled.
TEST(RemoteHostsTest, AHostThatIsCutOffEndsAllAndItsOwnTasks) {
  std::string why = bench::NetworkTestbed::missing();
  if (why.empty()) why = SshServer::missing();
  if (!why.empty()) GTEST_SKIP() << why;
  const test::TempFolder folder;
  const auto path = [&](const std::string& name) { return folder.path() + "/" + name; };
  const OrphanReaper guard;
  bench::NetworkTestbed testbed(3);
  constexpr int kPort = 2222;
  const SshServer first(path("ssh"), testbed.address(1), kPort, guard, testbed.enter(1));
  const SshServer second(path("ssh"), testbed.address(2), kPort, guard, testbed.enter(2));
  ChildSpec spec = {.program = "/bin/sh",
                    .arguments = {"-c", "exec \"$@\" >$D/out 2>$D/err", "sh"},
                    .environment = {{"D", folder.path()}},
                    .cores = {}};
  const std::string mark = str_cat(kMark, "=", folder.path());
  for (const Words& part :
       {testbed.enter(0),
        Words{STRATA_COMMAND, "launch", "--hosts",
              str_cat(testbed.address(1), ",", testbed.address(2)), "--ssh", first.ssh(),
              "--host-timeout", "3", "--grace", "1", "--env", mark, "--env",
              "STRATA_LIVENESS_MS=1000", STRATA_CLUSTER_TASK, "rounds", "1000000", "10"}}) {
    spec.arguments.insert(spec.arguments.end(), part.begin(), part.end());
  }
  ChildProcess child(spec, guard);
  EXPECT_TRUE(eventually([&] { return contains(text_of(path("out")), "[worker:1] round 3\n"); }))
      << text_of(path("out")) << text_of(path("err"));
  testbed.partition(2);
  std::optional<ChildEnd> end;
  EXPECT_TRUE(eventually([&] {
    end = child.reap();
    return end.has_value();
  }));
  const std::string said = text_of(path("err"));
  EXPECT_EQ(end->code, 1) << said;
  // The host that was not cut off lost its peer; the launcher lost the host.
  EXPECT_TRUE(contains(said, "worker:0 on 10.77.0.2 failed with exit code 1")) << said;
  EXPECT_TRUE(contains(said,
                       "no answer from 10.77.0.3, where worker:1 ran; what still runs there "
                       "ends by itself within 3 s") ||
              contains(said, "[worker:1] Timeout, server 10.77.0.3 not responding."))
      << said;
  EXPECT_TRUE(eventually([&] { return processes_with(mark).empty(); })) << "processes are left";
}

}  // namespace
}  // namespace strata::tools
