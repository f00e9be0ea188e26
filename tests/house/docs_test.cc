// README and docs quote only what compiles: a C++ block stands under a comment that names its file,
// <!-- from examples/02_custom_loop/main.cc -->, and its lines stand in that file, one after the
// other.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "house/read_file.h"
#include "strata/core/str_cat.h"
#include "support/source_path.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    lines.push_back(line);
  }
  return lines;
}

size_t indent_of(const std::vector<std::string>& lines) {
  size_t indent = std::string::npos;
  for (const auto& line : lines) {
    if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
  }
  return indent == std::string::npos ? 0 : indent;
}

std::vector<std::string> dedented(std::vector<std::string> lines) {
  const size_t indent = indent_of(lines);
  for (auto& line : lines) line.erase(0, std::min(indent, line.size()));
  return lines;
}

// True if `block` stands in `file` as consecutive lines, whatever the indentation of the whole.
bool contains(const std::vector<std::string>& file, const std::vector<std::string>& block) {
  const auto wanted = dedented(block);
  for (size_t begin = 0; begin + block.size() <= file.size(); ++begin) {
    const std::vector<std::string> part(file.begin() + begin, file.begin() + begin + block.size());
    if (dedented(part) == wanted) return true;
  }
  return false;
}

// What is wrong with the C++ blocks of a document.
std::vector<std::string> snippet_complaints(const std::string& text, const fs::path& root) {
  static const std::regex kSource("<!-- from ([^ ]+) -->");
  std::vector<std::string> result;
  const auto lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != "```cpp" && lines[i] != "```c++") continue;
    const auto end = std::find(lines.begin() + i + 1, lines.end(), "```");
    const std::vector<std::string> block(lines.begin() + i + 1, end);
    std::smatch source;
    if (i == 0 || !std::regex_match(lines[i - 1], source, kSource)) {
      result.push_back(str_cat("line ", i + 1, ": no <!-- from FILE --> above this block"));
    } else if (!fs::is_regular_file(root / source[1].str())) {
      result.push_back(str_cat("line ", i + 1, ": there is no ", source[1].str()));
    } else if (!contains(lines_of(read_file(root / source[1].str())), block)) {
      result.push_back(str_cat("line ", i + 1, ": this block is not in ", source[1].str()));
    }
  }
  return result;
}

std::vector<fs::path> pages_of_docs(const fs::path& root) {
  std::vector<fs::path> pages;
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

std::vector<fs::path> all_documents(const fs::path& root) {
  std::vector<fs::path> documents = pages_of_docs(root);
  for (const char* name : {"README.md", "CONTRIBUTING.md", "src/README.md"}) {
    documents.push_back(root / name);
  }
  return documents;
}

TEST(DocsTest, CppBlocksAreQuotedFromFilesThatCompile) {
  const fs::path root = test::source_path();
  for (const auto& document : all_documents(root)) {
    ASSERT_TRUE(fs::exists(document)) << document;
    for (const auto& complaint : snippet_complaints(read_file(document), root)) {
      ADD_FAILURE() << fs::relative(document, root).string() << ", " << complaint;
    }
  }
}

TEST(DocsTest, LocalLinksLeadSomewhere) {
  const fs::path root = test::source_path();
  static const std::regex kLink(R"re(\]\(([^)#:]+)(#[^)]*)?\))re");
  for (const auto& document : all_documents(root)) {
    std::string text;  // without code, where a lambda looks like a link
    bool code = false;
    for (const auto& line : lines_of(read_file(document))) {
      if (line.starts_with("```")) code = !code;
      static const std::regex kCode("`[^`]*`");
      if (!code) text += std::regex_replace(line, kCode, "") + "\n";
    }
    for (std::sregex_iterator it(text.begin(), text.end(), kLink), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(document.parent_path() / (*it)[1].str()))
          << document << " links to " << (*it)[1];
    }
  }
}

// `module/folder/file.cc` of the map of the sources, and of the glossary.
TEST(DocsTest, FilesThatTheMapNamesExist) {
  const fs::path root = test::source_path();
  static const std::regex kPath("`([a-z_]+/[a-z_0-9/]+\\.(?:cc|h))`");
  int paths = 0;
  for (const char* document : {"src/README.md", "docs/glossary.md"}) {
    const std::string text = read_file(root / document);
    for (std::sregex_iterator it(text.begin(), text.end(), kPath), end; it != end; ++it) {
      const std::string path = (*it)[1];
      ++paths;
      const bool exists =
          fs::exists(root / "src" / path) || fs::exists(root / "include" / path) ||
          fs::exists(root / path) ||
          std::ranges::any_of(fs::directory_iterator(root / "src"),
                              [&](const auto& module) { return fs::exists(module.path() / path); });
      EXPECT_TRUE(exists) << document << " names " << path;
    }
  }
  EXPECT_GT(paths, 40);
}

// Names that a private header declares and no public header has a word for.
std::set<std::string> private_names(const fs::path& root) {
  static const std::regex kWord("\\w+");
  static const std::regex kDeclared(
      R"((?:^|\n)(?:class|struct|enum class) (\w+)[^;\n]*\{|(?:^|\n)[\w:<>,&* ]+[ &*](\w+_\w+)\()");
  std::set<std::string> public_words;
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(root / "include")) {
    if (entry.path().extension() != ".h") continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), kWord), end; it != end; ++it) {
      public_words.insert(it->str());
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "src")) {
    if (entry.path().extension() != ".h") continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), kDeclared), end; it != end; ++it) {
      const std::string name = (*it)[(*it)[1].matched ? 1 : 2];
      if (!public_words.contains(name)) names.insert(name);
    }
  }
  return names;
}

// The private names in the code of a document. A line that names a file of src/ is for readers of
// the source.
std::vector<std::string> private_names_in(const std::string& text,
                                          const std::set<std::string>& names) {
  static const std::regex kCode("`[^`]+`");
  static const std::regex kWord("\\w+");
  std::vector<std::string> result;
  bool block = false;
  for (const auto& line : lines_of(text)) {
    if (line.starts_with("```")) block = !block;
    if (line.starts_with("```") || line.find("src/") != std::string::npos) continue;
    std::string code = block ? line : "";
    for (std::sregex_iterator it(line.begin(), line.end(), kCode), end; !block && it != end; ++it) {
      code += it->str();
    }
    for (std::sregex_iterator it(code.begin(), code.end(), kWord), end; it != end; ++it) {
      if (names.contains(it->str())) result.push_back(it->str());
    }
  }
  return result;
}

TEST(DocsTest, WhatUsersAreToldOfIsInPublicHeaders) {
  const fs::path root = test::source_path();
  const auto names = private_names(root);
  ASSERT_GT(names.size(), 300u);
  // About the library's inside.
  const std::set<std::string> for_readers_of_the_source = {"algorithms.md", "glossary.md",
                                                           "kernels.md", "thread_model.md"};
  std::vector<fs::path> documents = pages_of_docs(root);
  std::erase_if(documents, [&](const fs::path& page) {
    return for_readers_of_the_source.contains(page.filename());
  });
  documents.push_back(root / "README.md");
  for (const auto& document : documents) {
    for (const auto& name : private_names_in(read_file(document), names)) {
      ADD_FAILURE()
          << fs::relative(document, root).string() << " names " << name
          << ", which only a header in src/ declares: install that header, or leave it out";
    }
  }
}

TEST(DocsTest, SeesANameThatIsNotInstalled) {
  const std::set<std::string> names = {"Hidden"};
  EXPECT_EQ(private_names_in("Call `a::Hidden::x()`.\n", names).size(), 1u);
  EXPECT_EQ(private_names_in("```cpp\nHidden h;\n```\n", names).size(), 1u);
  EXPECT_TRUE(private_names_in("Hidden, in words.\n", names).empty());
  EXPECT_TRUE(private_names_in("`Hidden` is in src/x.h.\n", names).empty());
}

TEST(DocsTest, SeesABlockThatIsNotQuoted) {
  const fs::path root = test::source_path();
  const std::string head = "<!-- from tests/house/docs_test.cc -->\n```cpp\n";
  EXPECT_EQ(snippet_complaints("```cpp\nint x;\n```\n", root).size(), 1u);
  EXPECT_EQ(snippet_complaints("<!-- from no/such/file.cc -->\n```cpp\nint x;\n```\n", root).size(),
            1u);
  EXPECT_EQ(snippet_complaints(head + "int this_line_is_" + "nowhere;\n```\n", root).size(), 1u);
  EXPECT_TRUE(snippet_complaints(head + "namespace strata {\nnamespace {\n```\n", root).empty());
  EXPECT_TRUE(snippet_complaints("```sh\nmake demo\n```\n", root).empty());
}

}  // namespace
}  // namespace strata
