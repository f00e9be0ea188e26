// The words of public headers and messages (docs/glossary.md): neither has the ones below.
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "house/read_file.h"
#include "support/source_path.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct BannedWord {
  const char* word;
  const char* instead;
};

constexpr std::array kBanned = {
    BannedWord{"whoever", "the caller, the peer, the worker"},
    BannedWord{"nobody", "no thread, no rank, no caller"},
    BannedWord{"somebody", "a thread, a rank, a caller"},
    BannedWord{"someone", "a thread, a rank, a caller"},
    BannedWord{"everybody", "all ranks, all workers"},
    BannedWord{"mine", "local"},
    BannedWord{"ours", "strata's, an addition"},
    BannedWord{"theirs", "remote, expected"},
    BannedWord{"of yours", "user-defined"},
    BannedWord{"stands", "is"},
    BannedWord{"goes on", "continues"},
    BannedWord{"goes to", "is sent to, is placed on"},
    BannedWord{"has gone", "was lost, has ended"},
    BannedWord{"is gone", "no longer exists, is closed"},
    BannedWord{"is said", "is documented, refers to"},
    BannedWord{"said otherwise", "documented otherwise"},
    BannedWord{"is told", "is informed, receives"},
    BannedWord{"was told", "received"},
    BannedWord{"makes no sense", "is malformed"},
    BannedWord{"there is none", "it does not exist"},
    BannedWord{"those there are", "the known ones"},
    BannedWord{"is not there", "does not exist, is not connected"},
    BannedWord{"is there", "exists, is connected"},
    BannedWord{"to be had", "available, reachable"},
};

std::vector<fs::path> files_below(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_path(folder))) {
    const fs::path extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc" || extension == ".inc") {
      files.push_back(entry.path());
    }
  }
  return files;
}

// A comment's lines as one text, so that a phrase is found across a line's end.
std::string without_line_ends(const std::string& text) {
  static const std::regex kEnd("\\s*\n\\s*(///?)?\\s*");
  return std::regex_replace(text, kEnd, " ");
}

// What `text`, a source, has between quotes; literals beside each other are one.
std::vector<std::string> literals_of(const std::string& text) {
  std::vector<std::string> literals;
  size_t end_of_last = std::string::npos;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      i = text.find('\n', i);
      if (i == std::string::npos) break;
    } else if (text[i] == '\'' && i + 2 < text.size() &&
               (text[i + 2] == '\'' || text[i + 1] == '\\')) {
      i = text.find('\'', i + 2);
      if (i == std::string::npos) break;
    } else if (text[i] == '"') {
      const size_t begin = ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      if (i >= text.size()) break;
      const bool continues = end_of_last != std::string::npos &&
                             text.find_first_not_of(" \n", end_of_last + 1) == begin - 1;
      if (!continues) literals.emplace_back();
      literals.back() += text.substr(begin, i - begin);
      end_of_last = i;
    }
  }
  return literals;
}

const std::regex& any_banned_word() {
  static const std::regex pattern = [] {
    std::string words;
    for (const BannedWord& each : kBanned)
      words += (words.empty() ? "" : "|") + std::string(each.word);
    return std::regex("\\b(" + words + ")\\b", std::regex::icase | std::regex::optimize);
  }();
  return pattern;
}

std::string banned_in(const std::string& text) {
  std::smatch match;
  if (!std::regex_search(text, match, any_banned_word())) return "";
  std::string word = match[1];
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto at = static_cast<size_t>(match.position());
  std::string found = "'" + word + "' in: " + text.substr(at < 40 ? 0 : at - 40, 100);
  for (const BannedWord& each : kBanned) {
    if (word == each.word) found += "\nwrite: " + std::string(each.instead);
  }
  return found;
}

TEST(WordsTest, PublicHeadersHaveNoBannedWords) {
  const std::vector<fs::path> files = files_below("include");
  EXPECT_GT(files.size(), 100);
  for (const fs::path& file : files) {
    EXPECT_EQ(banned_in(without_line_ends(read_file(file))), "") << file;
  }
}

TEST(WordsTest, MessagesHaveNoBannedWords) {
  const std::vector<fs::path> files = files_below("src");
  EXPECT_GT(files.size(), 300);
  for (const fs::path& file : files) {
    for (const std::string& literal : literals_of(read_file(file))) {
      EXPECT_EQ(banned_in(literal), "") << file;
    }
  }
}

TEST(WordsTest, LiteralsAreFoundAcrossLines) {
  EXPECT_EQ(literals_of("f(\"a \"\n  \"b\", c, \"d\\\"e\");  // \"no\"\n'\"' \"f\""),
            (std::vector<std::string>{"a b", "d\\\"e", "f"}));
  EXPECT_EQ(without_line_ends("/// one\n  /// two\nthree"), "/// one two three");
  EXPECT_NE(banned_in("the peer IS THERE"), "");
  EXPECT_EQ(banned_in("determine standstill"), "");
}

}  // namespace
}  // namespace strata
