// What other hosts are given to run: by the shells that are here.
#include "tools/launch/remote_script.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "strata/core/error.h"
#include "support/expect_error.h"
#include "support/odd_texts.h"
#include "tools/launch/child_process.h"
#include "tools/launched.h"
#include "tools/shell_quote.h"

namespace strata::tools {
namespace {

/// A task "on another host", whose shell is `shell`: no ssh, the same input and output.
class RemoteScriptTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (::access(GetParam(), X_OK) != 0) GTEST_SKIP() << "there is no " << GetParam();
    task_.directory = folder_.path();
    task_.environment = {{"D", folder_.path()}};
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  pid_t pid_in(const std::string& name) const { return std::atoi(text_of(path(name)).c_str()); }

  void start(const std::string& program, std::vector<std::string> arguments) {
    task_.program = program;
    task_.arguments = std::move(arguments);
    const std::string script = remote_script(task_);
    std::string command = remote_command(script.size());
    command.replace(command.find("/bin/sh"), std::string("/bin/sh").size(), GetParam());
    child_.emplace(ChildSpec{.program = GetParam(),
                             .arguments = {"-c", command},
                             .environment = {},
                             .cores = {},
                             .input = script},
                   guard_);
    child_->write();
  }

  // Its end, and what it printed; at most half a minute.
  ChildEnd wait() {
    std::optional<ChildEnd> end;
    const auto read = [&](int fd, std::string& to) {
      char bytes[65536];
      while (true) {
        const ssize_t got = ::read(fd, bytes, sizeof bytes);
        if (got <= 0) return;
        to.append(bytes, static_cast<size_t>(got));
      }
    };
    EXPECT_TRUE(eventually([&] {
      child_->write();
      read(child_->out(), out_);
      read(child_->err(), err_);
      end = child_->reap();
      return end.has_value();
    }));
    read(child_->out(), out_);
    read(child_->err(), err_);
    return end.value_or(ChildEnd{.code = -1});
  }

  // No process of the test's folder is left: all of them have $D in their environment.
  void expect_none_left() {
    EXPECT_TRUE(eventually([&] { return processes_with("D=" + folder_.path()).empty(); }));
  }

  const test::TempFolder folder_;
  const OrphanReaper guard_;
  RemoteTask task_;
  std::optional<ChildProcess> child_;
  std::string out_;
  std::string err_;
};

TEST_P(RemoteScriptTest, WordsAndVariablesArriveByteByByte) {
  std::vector<std::string> words = test::odd_texts(200);
  std::string expected;
  for (const std::string& word : words) expected += "<" + word + ">\n";
  std::vector<std::string> arguments = {"<%s>\n"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  start("/usr/bin/printf", arguments);
  EXPECT_EQ(wait().code, 0) << err_;
  EXPECT_EQ(out_, expected);
  expect_none_left();

  int number = 0;
  std::string print = "set --";
  for (const std::string& word : words) {
    const std::string name = str_cat("V", number++);
    task_.environment[name] = word;
    print += " \"$" + name + "\"";
  }
  out_.clear();
  start("sh", {"-c", print + "; printf '<%s>\\n' \"$@\""});
  EXPECT_EQ(wait().code, 0) << err_;
  EXPECT_EQ(out_, expected);
}

TEST_P(RemoteScriptTest, TheEndIsTheTasks) {
  start("sh", {"-c", "echo out; echo err >&2; exit 42"});
  const ChildEnd end = wait();
  EXPECT_EQ(end.code, 42);
  EXPECT_EQ(out_, "out\n");
  EXPECT_EQ(err_, "err\n");
  start("sh", {"-c", "kill -SEGV $$"});
  const ChildEnd killed = wait();
  EXPECT_EQ(killed.signal, SIGSEGV);
  EXPECT_EQ(killed.to_string(), "SIGSEGV (Segmentation fault)");
}

TEST_P(RemoteScriptTest, SignalsReachTheTaskAndItsOwnProcesses) {
  start("sh", {"-c", "trap 'exit 42' TERM; sleep 600 & echo $! >$D/new; mv $D/new $D/pid; wait"});
  ASSERT_TRUE(eventually([&] { return pid_in("pid") > 0; }));
  const pid_t inner = pid_in("pid");
  child_->signal(SIGTERM);
  EXPECT_EQ(wait().code, 42);
  EXPECT_TRUE(eventually([&] { return is_gone(inner); }));
  expect_none_left();
}

TEST_P(RemoteScriptTest, AnEndedConnectionEndsAllProcessesThere) {
  task_.files = {{"a.pem", "text"}};
  task_.files_variable = "FILES";
  start("sh",
        {"-c",
         "trap '' TERM; sleep 600 & echo $FILES >$D/files; echo $! >$D/new; mv $D/new $D/pid; "
         "wait"});
  ASSERT_TRUE(eventually([&] { return pid_in("pid") > 0; }));
  const pid_t inner = pid_in("pid");
  child_->signal(SIGKILL);  // its input ends
  EXPECT_EQ(wait().signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return is_gone(inner); }));
  expect_none_left();
  std::string files = text_of(path("files"));
  files.pop_back();
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(files); })) << files;
}

TEST_P(RemoteScriptTest, ALauncherThatIsSilentEndsAllProcessesThere) {
  task_.silence = std::chrono::seconds(1);
  start("sh", {"-c", "sleep 600 & sleep 600"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(wait().signal, SIGKILL);
  EXPECT_GE(seconds_since(begin), 0.9);
  expect_none_left();
}

TEST_P(RemoteScriptTest, HeartbeatsKeepItAlive) {
  task_.silence = std::chrono::seconds(1);
  start("sh", {"-c", "sleep 2.5; exit 7"});
  std::optional<ChildEnd> end;
  EXPECT_TRUE(eventually([&] {
    child_->send_heartbeat();
    ::poll(nullptr, 0, 200);
    end = child_->reap();
    return end.has_value();
  }));
  EXPECT_EQ(end->code, 7);
  expect_none_left();
}

TEST_P(RemoteScriptTest, FilesAreThereForTheUserAloneAndRemovedAtTheEnd) {
  task_.files = {{"worker-0.key", "secret 'text'\n\nof lines\n"}};
  task_.files_variable = "FILES";
  start("sh", {"-c", "cd $FILES && stat -c '%a %n' . *; cat *; pwd >$D/files"});
  EXPECT_EQ(wait().code, 0) << err_;
  EXPECT_EQ(out_, "700 .\n600 worker-0.key\nsecret 'text'\n\nof lines\n");
  std::string files = text_of(path("files"));
  files.pop_back();
  EXPECT_FALSE(std::filesystem::exists(files));
}

TEST_P(RemoteScriptTest, WhatIsMissingThereIsSaid) {
  const auto expect = [&](const std::string& program, int code, const std::string& said) {
    err_.clear();
    start(program, {});
    EXPECT_EQ(wait().code, code);
    EXPECT_TRUE(err_.starts_with("strata launch: " + said)) << err_;
  };
  expect("/no/such/program", 127, "the program /no/such/program does not exist on this host");
  expect("./nothing", 127,
         "the program ./nothing does not exist on this host, where it starts in " + folder_.path());
  expect("no-such-program", 127,
         "the program no-such-program is not in PATH on this host, which is ");
  std::ofstream(path("plain")) << "x";
  expect("./plain", 126, "the program ./plain is not executable on this host");
  task_.directory = "/no/such 'directory";
  task_.needs_directory = true;
  expect("pwd", 127, "the directory /no/such 'directory cannot be entered on this host");
}

TEST_P(RemoteScriptTest, WhereTheDirectoryIsMissingItStartsInTheHomeFolder) {
  task_.directory = "/no/such/directory";
  task_.environment["HOME"] = "/ignored";  // the shell there has its own
  start("pwd", {});
  EXPECT_EQ(wait().code, 0) << err_;
  EXPECT_EQ(out_, std::string(std::getenv("HOME")) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Shells, RemoteScriptTest, testing::Values("/bin/sh", "/bin/bash"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("/bin/").size());
                         });

TEST(RemoteCommandTest, NothingOfTheTaskIsInIt) {
  EXPECT_EQ(remote_command(1234), "exec /bin/sh -c 'eval \"$(head -c 1234)\"'");
}

TEST(RemoteCommandTest, VariablesMustHaveNamesThatAShellCanSet) {
  for (const char* name : {"A.B", "1A", "A B", "A-B", ""}) {
    EXPECT_THROW(
        (void)remote_script(
            {.program = "x", .arguments = {}, .environment = {{name, "v"}}, .directory = "/"}),
        Error)
        << name;
  }
}

TEST(ShellQuotedTest, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(shell_quoted("a/b-c=d,e@f%g"), "a/b-c=d,e@f%g");
  EXPECT_EQ(shell_quoted("=ls"), "'=ls'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_THROW((void)shell_quoted(std::string("a\0b", 3)), Error);
}

}  // namespace
}  // namespace strata::tools
