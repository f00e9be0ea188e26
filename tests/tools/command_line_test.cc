#include "tools/command_line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "support/expect_error.h"

namespace strata::tools {
namespace {

using Words = std::vector<std::string>;

struct Values {
  bool fast = false;
  bool careful = true;
  int count = 1;
  std::string folder;
  Words names;
  std::chrono::duration<double> limit{2};
  bool quick = false;
  Words operands;
};

// What `words` set; nullopt where they ask for the help.
std::optional<Values> read(Words words, Operands operands = Operands::kWords,
                           std::string* help = nullptr) {
  Values values;
  CommandLine line("strata try",
                   {.usage = "strata try [options] FILE...",
                    .description = "Tries files.\n",
                    .examples = "Examples:\n  strata try -n 2 a"},
                   operands);
  line.flag("--fast", "does not wait", values.fast);
  line.flag("--no-care", "is careless", values.careful, false);
  line.number("-n,--count", "N", "how often\n(default: 1)", values.count, 1);
  line.text("--folder", "DIR", "where", values.folder);
  line.list("--names", "A,B", "which", values.names);
  line.seconds("--limit", "S", "how long", values.limit);
  line.yes_or_no("--quick", "not all", values.quick);
  if (help != nullptr) *help = line.help();
  if (!line.read(std::move(words))) return std::nullopt;
  values.operands = line.operands();
  return values;
}

TEST(CommandLineTest, OptionsSetTheirVariables) {
  const Values values = read({"--fast", "a", "--no-care", "-n", "3", "--folder=x=y", "--names",
                              "b,c", "--limit", "0.25", "--quick", "yes", "d"})
                            .value();
  EXPECT_TRUE(values.fast && values.quick);
  EXPECT_FALSE(values.careful);
  EXPECT_EQ(values.count, 3);
  EXPECT_EQ(values.folder, "x=y");
  EXPECT_EQ(values.names, (Words{"b", "c"}));
  EXPECT_EQ(values.limit, std::chrono::milliseconds(250));
  EXPECT_EQ(values.operands, (Words{"a", "d"}));
  EXPECT_EQ(read({})->count, 1);
}

TEST(CommandLineTest, TheLastOfOptionsGivenTwiceCounts) {
  EXPECT_EQ(read({"-n", "2", "--fast", "--count=4", "--fast"})->count, 4);
}

TEST(CommandLineTest, WordsThatAreNoOptionsStayAsTheyAre) {
  EXPECT_EQ(read({"[a,b]", "-", "", "--", "--fast", "--", "-n"})->operands,
            (Words{"[a,b]", "-", "", "--fast", "--", "-n"}));
  for (const Words& words : {Words{"--fast", "train", "[a,b]", "-n", "--", "{}"},
                             Words{"--fast", "--", "train", "[a,b]", "-n", "--", "{}"}}) {
    const Values values = read(words, Operands::kProgram).value();
    EXPECT_TRUE(values.fast);
    EXPECT_EQ(values.operands, (Words{"train", "[a,b]", "-n", "--", "{}"}));
  }
  EXPECT_EQ(read({"--folder", "[a,b]"})->folder, "[a,b]");
  EXPECT_EQ(read({"--", "--fast"}, Operands::kProgram)->operands, Words{"--fast"});
  EXPECT_EQ(read({"train", "--help"}, Operands::kProgram)->operands, (Words{"train", "--help"}));
}

TEST(CommandLineTest, HelpShowsTheOptionsBetweenUsageAndExamples) {
  EXPECT_FALSE(read({"--fast", "-h"}));
  EXPECT_FALSE(read({"-n", "0", "--help"}));
  std::string help;
  read({}, Operands::kWords, &help);
  const Words parts = {"usage: strata try [options] FILE...\n\nTries files.\n",
                       "-h,--help ",
                       "  --fast               does not wait\n",
                       "  -n,--count N         how often\n                       (default: 1)\n",
                       "  --quick yes|no       not all\n",
                       "\nExamples:\n  strata try -n 2 a\n"};
  size_t at = 0;
  for (const std::string& part : parts) {
    at = help.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << "\nis not in\n" << help;
  }
}

TEST(CommandLineTest, ErrorsNameTheOptionItsValueAndWhatIsExpected) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)read(std::move(words)); }, "[strata try] got " + message);
  };
  expect({"-n", "two"}, "-n two; expected a number from 1 up");
  expect({"--count", "99999999999"}, "-n 99999999999; expected a number from 1 up");
  expect({"--limit", "-1"}, "--limit -1; expected seconds, 0 or more");
  expect({"--limit", "nan"}, "--limit nan; expected seconds, 0 or more");
  expect({"--quick", "maybe"}, "--quick maybe; expected yes or no");
  expect({"a", "--folder"}, "--folder without a value; see strata try --help");
  expect({"--fast=no"}, "--fast=no; expected --fast without a value");
}

TEST(CommandLineTest, AnUnknownOptionNamesTheNearest) {
  const auto expect = [](Words words, const std::string& message) {
    expect_error([&] { (void)read(std::move(words)); }, "[strata try] got " + message);
  };
  const std::string expected = "; expected an option of strata try --help";
  expect({"--fats"}, "--fats" + expected);
  expect({"--fas", "a"}, "--fas" + expected + "; did you mean --fast?");
  expect({"--flolder=x"}, "--flolder" + expected + "; did you mean --folder?");
  expect({"-count", "3"}, "-count" + expected + "; did you mean --count?");
  expect({"--frobnicate"}, "--frobnicate" + expected);
  expect({"-x"}, "-x" + expected);
}

}  // namespace
}  // namespace strata::tools
