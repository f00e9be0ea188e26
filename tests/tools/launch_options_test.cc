#include "tools/launch/launch_options.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tools/launch/task_list.h"

namespace strata::tools {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

std::string names(const std::vector<cluster::TaskId>& tasks) {
  std::string text;
  for (const auto& task : tasks) text += (text.empty() ? "" : " ") + task.short_name();
  return text;
}

TEST(LaunchOptionsTest, TheProgramKeepsItsArguments) {
  for (const Words& words : {Words{"-n", "2", "train", "-n", "3", "--", "--tls"},
                             Words{"-n", "2", "--", "train", "-n", "3", "--", "--tls"}}) {
    const LaunchOptions options = read_launch_options(words);
    EXPECT_EQ(options.workers, 2);
    EXPECT_FALSE(options.tls);
    EXPECT_EQ(options.command, (Words{"train", "-n", "3", "--", "--tls"}));
  }
}

TEST(LaunchOptionsTest, AllOfThem) {
  const LaunchOptions options = read_launch_options(
      {"--workers=3", "--chief", "--ps",       "2",        "--evaluator", "--env", "A=b=c",
       "--env=D=",    "--tls",   "--log-dir",  "logs",     "--restarts",  "4",     "--elastic",
       "--grace",     "0.5",     "--linger=7", "--no-pin", "--dry-run",   "x"});
  EXPECT_EQ(names(options.tasks()), "chief:0 worker:0 worker:1 ps:0 ps:1 evaluator:0");
  EXPECT_EQ(options.environment, (std::map<std::string, std::string>{{"A", "b=c"}, {"D", ""}}));
  EXPECT_TRUE(options.tls && options.dry_run && options.supervisor.elastic);
  EXPECT_FALSE(options.pin);
  EXPECT_EQ(options.log_folder, "logs");
  EXPECT_EQ(options.supervisor.restarts, 4);
  EXPECT_EQ(options.supervisor.grace, 500ms);
  EXPECT_EQ(options.supervisor.linger, 7s);
  EXPECT_TRUE(options.secret);
  EXPECT_EQ(options.gpus.per_task, std::nullopt);
  EXPECT_FALSE(options.gpus.shared);
  EXPECT_EQ(read_launch_options({"-n", "1", "--gpus-per-task", "0", "x"}).gpus.per_task, 0);
  EXPECT_FALSE(read_launch_options({"-n", "1", "--no-secret", "x"}).secret);
  EXPECT_EQ(names(read_launch_options({"-n", "1", "--chief", "x"}).tasks()), "chief:0");
  EXPECT_EQ(names(read_launch_options({"-n", "2", "x"}).tasks()), "worker:0 worker:1");
}

TEST(LaunchOptionsTest, ErrorsQuoteTheWord) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)read_launch_options(std::move(words)); },
                 "[strata launch] got " + message);
  };
  expect({"x"}, "no number of workers; expected -n N");
  expect({"-n", "0", "x"}, "-n 0; expected a number from 1 up");
  expect({"-n", "two", "x"}, "-n two; expected a number from 1 up");
  expect({"-n", "2x", "x"}, "-n 2x; expected a number from 1 up");
  expect({"-n", "2", "--ps", "-1", "x"}, "--ps -1; expected a number from 0 up");
  expect({"-n"}, "-n without a value; see strata launch --help");
  expect({"-n", "2"}, "no program; expected strata launch -n 2 -- PROGRAM ARGUMENTS");
  expect({"-n", "2", "--"}, "no program; expected strata launch -n 2 -- PROGRAM ARGUMENTS");
  expect({"-n", "2", "--gpus-per-task", "-1", "x"},
         "--gpus-per-task -1; expected a number from 0 up");
  expect({"-n", "2", "--env", "CUDA_VISIBLE_DEVICES=0", "--share-gpus", "x"},
         "--env CUDA_VISIBLE_DEVICES=..., which is for all tasks, and --share-gpus, which gives "
         "each its own; set the variable in front of strata launch for the GPUs that tasks share");
  expect({"-n", "2", "--gpu", "x"}, "--gpu; expected an option of strata launch --help");
  expect({"-n", "2", "--grace", "soon", "x"}, "--grace soon; expected seconds, 0 or more");
  expect({"-n", "2", "--grace=-1", "x"}, "--grace -1; expected seconds, 0 or more");
  expect({"-n", "2", "--chief=yes", "x"}, "--chief=yes; expected --chief without a value");
  expect({"-n", "2", "--env", "A", "x"},
         "--env A; expected NAME=VALUE, or the NAME of a variable that is set");
  expect({"-n", "2", "--env", "=A", "x"},
         "--env =A; expected NAME=VALUE, or the NAME of a variable that is set");
  expect({"-n", "2", "--env", "TF_CONFIG={}", "x"}, "--env TF_CONFIG=...; each task gets its own");
  expect(
      {"-n", "2", "--env", "STRATA_JOB_SECRET=0123456789abcdef", "x"},
      "--env STRATA_JOB_SECRET=..., and all users of this host can read arguments; write it to a "
      "file of mode 0600 and give --env STRATA_JOB_SECRET_FILE=FILE");
  expect({"-n", "2", "--elastic", "x"}, "--elastic without --restarts N; expected how often");
}

TEST(TaskListTest, JobsWithSoManyTasksEach) {
  EXPECT_EQ(names(parse_task_list("worker=2,ps=1", "x")), "worker:0 worker:1 ps:0");
  EXPECT_EQ(names(parse_task_list("chief:1,evaluator:1", "x")), "chief:0 evaluator:0");
  const std::string expected =
      "\"; expected chief, worker, ps, evaluator or client with a number, as in worker=4,ps=2";
  for (const char* part : {"", "worker", "worker=", "worker=0", "worker=-1", "worker=two",
                           "master=1", "worker=100001"}) {
    expect_error([&] { (void)parse_task_list(str_cat("ps=1,", part), "--tasks"); },
                 str_cat("--tasks: got \"", part, expected));
  }
  expect_error([] { (void)parse_task_list("chief=2", "--tasks"); },
               "--tasks: got \"chief=2\"; there is one chief at most");
  expect_error([] { (void)parse_task_list("ps=2,ps=1", "--tasks"); }, "--tasks: got ps twice");
}

}  // namespace
}  // namespace strata::tools
