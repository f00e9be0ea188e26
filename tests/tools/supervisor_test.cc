// Processes that are run as one: what ends them, who is blamed, who is started again.
#include "tools/launch/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "support/expect_error.h"
#include "tools/launched.h"

namespace strata::tools {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Shell scripts, one a task; $D is a folder that they share.
class SupervisorTest : public testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out;
    std::string err;
  };

  void add(const std::string& name, const std::string& script, bool serves = false) {
    tasks_.push_back({.name = name,
                      .child = {.program = "/bin/sh",
                                .arguments = {"-c", script},
                                .environment = {{"D", folder_.path()}},
                                .cores = {}},
                      .serves = serves});
  }

  // @param meanwhile  Called on another thread.
  Result run(const std::function<void(Supervisor&)>& meanwhile = {}) {
    const std::string out = path("out"), err = path("err");
    const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    Result result;
    {
      std::vector<std::string> names;
      for (const auto& task : tasks_) names.push_back(task.name);
      const OrphanReaper guard;
      TaskOutput output(names, {.out = out_fd, .err = err_fd});
      Supervisor supervisor(tasks_, options_, guard, output);
      Thread other;
      if (meanwhile) other = Thread("meanwhile", [&] { meanwhile(supervisor); });
      result.status = supervisor.run();
    }
    ::close(out_fd);
    ::close(err_fd);
    result.out = text_of(out);
    result.err = text_of(err);
    return result;
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  bool there(const std::string& name) const { return std::filesystem::exists(path(name)); }
  pid_t pid_in(const std::string& name) const { return std::atoi(text_of(path(name)).c_str()); }

  const test::TempFolder folder_;
  std::vector<SupervisedTask> tasks_;
  SupervisorOptions options_;
};

// Until others have made it; the test's own limit ends it.
constexpr const char* kForever = "exec sleep 600";
// Until the launcher has seen the end of the one that has written its number.
constexpr const char* kAfterTheOther =
    "while ! test -e $D/pid || kill -0 $(cat $D/pid) 2>/dev/null; do :; done; ";

TEST_F(SupervisorTest, AllEndWell) {
  add("worker:0", "echo zero");
  add("worker:1", "echo one; echo trouble >&2");
  const Result result = run();
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.out, "[worker:0] zero\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "[worker:1] one\n")) << result.out;
  EXPECT_EQ(result.err, "[worker:1] trouble\n");
}

TEST_F(SupervisorTest, TheFirstFailureEndsAllAndIsReported) {
  add("worker:0", kForever);
  add("worker:1", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 3");
  add("worker:2", kForever);
  const auto start = steady_clock::now();
  const Result result = run();
  EXPECT_LT(seconds_since(start), 8);
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err,
                       "strata launch: worker:1 ended with exit code 3; ending worker:0, "
                       "worker:2\nstrata launch: worker:1 failed with exit code 3 after 0"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "; its last lines:\n    line 3\n    line 4\n")) << result.err;
  EXPECT_TRUE(result.err.ends_with("    line 12\n")) << result.err;
}

TEST_F(SupervisorTest, ASignalIsNamed) {
  add("worker:0", "kill -SEGV $$");
  const Result result = run();
  EXPECT_EQ(result.status, 128 + SIGSEGV);
  EXPECT_TRUE(contains(result.err, "worker:0 failed with SIGSEGV (Segmentation fault"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "; it printed nothing\n")) << result.err;
}

// Those that lose a peer fail, too, and may be seen first.
TEST_F(SupervisorTest, WhoWasKilledIsBlamedBeforeWhoNoticedIt) {
  options_.settle = 20s;  // it ends when all have
  add("worker:0", "echo $$ >$D/new; mv $D/new $D/pid; echo lost a peer; exit 1");
  add("worker:1", str_cat(kAfterTheOther, "kill -KILL $$"));
  const Result result = run();
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "worker:1 failed with SIGKILL (Killed) after")) << result.err;
  EXPECT_TRUE(contains(result.err, "worker:0 failed as well, with exit code 1: lost a peer\n"))
      << result.err;
}

// Where a worker throws, the others hear of it first, and may be gone before it is.
TEST_F(SupervisorTest, WhoseErrorNamesAnotherIsNotBlamed) {
  options_.settle = 0ms;
  options_.settle_named = 20s;
  const std::string error = "[multi_worker] /job:worker/task:1 threw in run 3: no such row";
  add("worker:0", "echo $$ >$D/new; mv $D/new $D/pid; echo '" + error + "' >&2; exit 1");
  add("worker:1", str_cat(kAfterTheOther, "echo 'no such row' >&2; exit 1"));
  add("worker:10", str_cat(kAfterTheOther, "echo '", error, "' >&2; exit 1"));
  const Result result = run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "worker:1 failed with exit code 1 after")) << result.err;
  EXPECT_TRUE(contains(result.err, "; its last lines:\n    no such row\n")) << result.err;
  EXPECT_TRUE(contains(result.err, "worker:0 failed as well, with exit code 1: " + error))
      << result.err;
}

// One that is named and does not end holds nothing up for long.
TEST_F(SupervisorTest, WhoIsNamedAndGoesOnIsEnded) {
  options_.settle_named = 100ms;
  add("worker:0", "echo 'lost /job:worker/task:1' >&2; exit 3");
  add("worker:1", kForever);
  const auto start = steady_clock::now();
  const Result result = run();
  EXPECT_LT(seconds_since(start), 8);
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, "worker:0 ended with exit code 3; ending worker:1"))
      << result.err;
}

// What nobody catches where a peer is lost aborts.
TEST_F(SupervisorTest, WhoAbortsLaterIsNotBlamed) {
  options_.settle = 20s;
  add("worker:0", "echo $$ >$D/new; mv $D/new $D/pid; exit 3");
  add("worker:1", str_cat(kAfterTheOther, "kill -ABRT $$"));
  const Result result = run();
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, "worker:1 failed as well, with SIGABRT (Aborted")) << result.err;
}

TEST_F(SupervisorTest, WhoDoesNotEndIsKilledAfterTheGracePeriod) {
  options_.grace = 300ms;
  add("worker:0", "trap '' TERM; echo up >$D/up; while :; do sleep 600; done");
  add("worker:1", "while ! test -s $D/up; do :; done; exit 1");
  const auto start = steady_clock::now();
  const Result result = run();
  EXPECT_LT(seconds_since(start), 30);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "worker:0 did not end within 0.3 s; killing\n")) << result.err;
}

TEST_F(SupervisorTest, WhatTasksHaveStartedEndsWithThem) {
  add("worker:0", "sleep 600 & echo $! >$D/left; exit 0");
  add("worker:1", "trap '' TERM; sleep 600 & echo $! >$D/new; mv $D/new $D/killed; wait");
  options_.grace = 100ms;
  const Result result = run([&](Supervisor& supervisor) {
    EXPECT_TRUE(eventually([&] { return there("killed"); }));
    supervisor.stop(SIGTERM);
  });
  EXPECT_EQ(result.status, 128 + SIGTERM);
  EXPECT_TRUE(eventually([&] { return is_gone(pid_in("left")); }));
  EXPECT_TRUE(eventually([&] { return is_gone(pid_in("killed")); }));
}

TEST_F(SupervisorTest, AStopIsPassedOn) {
  const std::string script = "trap 'echo told; exit 0' INT; echo up >$D/up-$I; while :; do :; done";
  for (const char* index : {"0", "1"}) {
    add(str_cat("worker:", index), script);
    tasks_.back().child.environment["I"] = index;
  }
  const Result result = run([&](Supervisor& supervisor) {
    EXPECT_TRUE(eventually([&] { return there("up-0") && there("up-1"); }));
    supervisor.stop(SIGINT);
  });
  EXPECT_EQ(result.status, 0);  // all ended well
  EXPECT_TRUE(contains(result.out, "[worker:0] told\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "[worker:1] told\n")) << result.out;
  EXPECT_EQ(result.err, "strata launch: got SIGINT: ending worker:0, worker:1; again kills\n");
}

TEST_F(SupervisorTest, TheSecondStopKills) {
  options_.grace = 10min;
  add("worker:0", "trap '' INT; echo up >$D/up; while :; do :; done");
  const Result result = run([&](Supervisor& supervisor) {
    EXPECT_TRUE(eventually([&] { return there("up"); }));
    supervisor.stop(SIGINT);
    EXPECT_TRUE(eventually([&] { return contains(text_of(path("err")), "got SIGINT: "); }));
    supervisor.stop(SIGINT);
  });
  EXPECT_EQ(result.status, 128 + SIGINT);
  EXPECT_TRUE(contains(result.err, "got SIGINT again: killing worker:0\n")) << result.err;
}

TEST_F(SupervisorTest, WhoWasStoppedAndHasSavedSaysSo) {
  options_.restarts = 3;  // not after a stop
  add("worker:0", "trap 'exit 42' TERM; echo up >$D/up; while :; do :; done");
  add("ps:0", kForever, true);
  const Result result = run([&](Supervisor& supervisor) {
    EXPECT_TRUE(eventually([&] { return there("up"); }));
    supervisor.stop(SIGTERM);
  });
  EXPECT_EQ(result.status, 42);
}

TEST_F(SupervisorTest, AfterAFailureAllAreStartedAgain) {
  options_.restarts = 2;
  add("worker:0", "echo run >>$D/runs; test $(wc -l <$D/runs) = 3 || exit 7");
  add("worker:1",
      "echo start >>$D/starts; while ! test $(wc -l <$D/runs) = 3; do :; done "
      "2>/dev/null");
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(text_of(path("starts")), "start\nstart\nstart\n");
  EXPECT_TRUE(contains(result.err, "starting all tasks again (restart 1 of 2)\n")) << result.err;
  EXPECT_TRUE(contains(result.err, "starting all tasks again (restart 2 of 2)\n")) << result.err;
}

TEST_F(SupervisorTest, RestartsAreCounted) {
  options_.restarts = 2;
  add("worker:0", "echo run >>$D/runs; exit 7");
  const Result result = run();
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(text_of(path("runs")), "run\nrun\nrun\n");
}

TEST_F(SupervisorTest, PreemptionIsNotCounted) {
  options_.restarts = 1;
  options_.shortest_life = 0ms;
  add("worker:0", "echo run >>$D/runs; test $(wc -l <$D/runs) = 5 || exit 42");
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(
      contains(result.err, "starting all tasks again, since it was preempted and has saved"))
      << result.err;
}

TEST_F(SupervisorTest, APreemptionThatComesAtOnceIsCounted) {
  options_.restarts = 2;
  options_.shortest_life = 1h;
  add("worker:0", "echo run >>$D/runs; exit 42");
  const Result result = run();
  EXPECT_EQ(result.status, 42);
  EXPECT_EQ(text_of(path("runs")), "run\nrun\nrun\n");
}

// One is told to stop; the others are saving, too.
TEST_F(SupervisorTest, AfterAPreemptionTheOthersHaveTheGracePeriodToSave) {
  add("worker:0", "exit 42");
  add("worker:1", "trap 'exit 9' TERM; sleep 0.5 & wait; exit 42");
  options_.settle = 0ms;
  const Result result = run();
  EXPECT_EQ(result.status, 42);
  EXPECT_TRUE(contains(result.err, "worker:1 failed as well, with exit code 42\n")) << result.err;
}

TEST_F(SupervisorTest, ElasticStartsTheFailedOneAlone) {
  options_.restarts = 1;
  options_.elastic = true;
  add("worker:0", "echo start >>$D/starts; while ! test -e $D/done; do :; done");
  add("worker:1",
      "if test -e $D/before; then touch $D/done; else touch $D/before; kill -KILL $$; fi");
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(text_of(path("starts")), "start\n");
  EXPECT_EQ(result.err,
            "strata launch: worker:1 ended with SIGKILL (Killed); starting it again (restart 1 of "
            "1)\n");
}

TEST_F(SupervisorTest, ElasticRestartsEndToo) {
  options_.restarts = 2;
  options_.elastic = true;
  add("worker:0", kForever);
  add("worker:1", "echo run >>$D/runs; exit 5");
  const Result result = run();
  EXPECT_EQ(result.status, 5);
  EXPECT_EQ(text_of(path("runs")), "run\nrun\nrun\n");
}

TEST_F(SupervisorTest, AnElasticJobThatIsOverNeedsNobodyAgain) {
  options_.restarts = 1;
  options_.elastic = true;
  options_.linger = 100ms;
  add("worker:0", "while ! test -e $D/again; do :; done");
  tasks_[0].leads = true;
  add("worker:1", str_cat("if test -e $D/before; then touch $D/again; ", kForever,
                          "; else touch $D/before; kill -KILL $$; fi"));
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "ending worker:1, 0.1 s after the others have ended well\n"))
      << result.err;
}

TEST_F(SupervisorTest, AnElasticJobEndsWithoutWhoFailsLast) {
  options_.restarts = 1;
  options_.elastic = true;
  add("worker:0", "echo $$ >$D/new; mv $D/new $D/pid");
  tasks_[0].leads = true;
  add("worker:1", str_cat(kAfterTheOther, "exit 3"));
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err,
            "strata launch: worker:1 ended with exit code 3; the others end without it\n");
}

TEST_F(SupervisorTest, AnElasticJobWhoseLeaderFailsLastIsStartedAgain) {
  options_.restarts = 1;
  options_.elastic = true;
  add("worker:0", str_cat(kAfterTheOther,
                          "if test -e $D/before; then exit 0; fi; touch $D/before; ", "exit 3"));
  tasks_[0].leads = true;
  add("worker:1", "echo run >>$D/runs; echo $$ >$D/new; mv $D/new $D/pid");
  const Result result = run();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(text_of(path("runs")), "run\nrun\n");
  EXPECT_TRUE(contains(result.err, "starting all tasks again (restart 1 of 1)")) << result.err;
}

TEST_F(SupervisorTest, WhoServesIsEndedAfterTheOthers) {
  options_.linger = 100ms;
  add("worker:0", "true");
  add("ps:0", kForever, true);
  const Result result = run();
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "strata launch: ending ps:0, 0.1 s after the others have ended well\n");
}

TEST_F(SupervisorTest, WhoServesMayEndByItselfAndFail) {
  add("worker:0", "touch $D/done");
  add("evaluator:0", "while ! test -e $D/done; do :; done; exit 6", true);
  EXPECT_EQ(run().status, 6);
}

TEST_F(SupervisorTest, AProgramThatCannotBeExecutedIsAnError) {
  std::ofstream(path("text")) << "no program";
  std::filesystem::permissions(path("text"), std::filesystem::perms::owner_all);
  add("worker:0", kForever);
  add("worker:1", "");
  tasks_[1].child.program = path("text");
  expect_error([&] { run(); },
               str_cat("[strata launch] ", path("text"), " cannot be started: Exec format error"));
}

TEST_F(SupervisorTest, CoresThatAreNotThereAreAnError) {
  add("worker:0", "true");
  tasks_[0].child.cores = {1023};
  expect_error([&] { run(); }, "[strata launch] /bin/sh cannot be started: Invalid argument");
}

TEST_F(SupervisorTest, ATaskKnowsItsCoresAndHasNoInput) {
  const std::vector<int> cores = {0};
  add("worker:0", "cat; grep Cpus_allowed_list /proc/self/status");
  tasks_[0].child.cores = cores;
  EXPECT_EQ(run().out, "[worker:0] Cpus_allowed_list:\t0\n");
}

// The guard's own work: the launcher is gone at once, and cannot do anything.
TEST_F(SupervisorTest, NobodyOutlivesALauncherThatIsKilled) {
  add("worker:0", "sh -c 'echo $$ >$D/n1; mv $D/n1 $D/inner; exec sleep 600'; true");
  add("worker:1", "echo $$ >$D/n2; mv $D/n2 $D/plain; exec sleep 600");
  const std::string kept = path("certificates");
  std::filesystem::create_directory(kept);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const OrphanReaper guard(kept);
    TaskOutput output({"worker:0", "worker:1"}, {});
    Supervisor supervisor(tasks_, options_, guard, output);
    ::_exit(supervisor.run());
  }
  EXPECT_TRUE(eventually([&] { return there("inner") && there("plain"); }));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return is_gone(pid_in("inner")); }));
  EXPECT_TRUE(eventually([&] { return is_gone(pid_in("plain")); }));
  EXPECT_TRUE(eventually([&] { return !there("certificates"); }));
}

TEST_F(SupervisorTest, NothingIsStartedWithoutAGuard) {
  ::signal(SIGPIPE, SIG_IGN);  // as the launcher does
  const OrphanReaper guard;
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  pid_t its_process = 0;
  ASSERT_TRUE(children >> its_process);
  ::kill(its_process, SIGKILL);
  siginfo_t ended = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(its_process), &ended, WEXITED | WNOWAIT), 0);
  expect_error(
      [&] {
        ChildProcess({.program = "/bin/true", .arguments = {}, .environment = {}, .cores = {}},
                     guard);
      },
      ErrorCode::kUnavailable,
      "[strata launch] /bin/true cannot be started: the launcher's guard process has ended; "
      "start the job again");
}

}  // namespace
}  // namespace strata::tools
