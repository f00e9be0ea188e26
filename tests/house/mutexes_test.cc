// Every mutex says what it guards, in annotations that clang checks (`make thread-safety`). Clang sees no mutex that nothing
// names, and no std::mutex; this test does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
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

// Mutexes that no annotation can name, and why: file, name.
const std::map<std::string, const char*>& exceptions() {
  static const std::map<std::string, const char*> all = {
      {"src/core/mutex.h mutex_", "the one behind strata::Mutex"},
      {"src/core/timed_mutex.h mutex_", "guards no data: its waiters' way to sleep"},
      {"src/checkpoint/follow_checkpoints.cc mutex", "local, for a wait that only a stop ends"},
      {"src/cluster/control_loop.cc mutex", "local, for a wait that only a stop ends"},
      {"src/ps/tables/server_calls.cc mutex", "local, for a wait that only a stop ends"},
      {"src/keras_files/hdf5.cc mutex", "guards HDF5's own state"},
      {"src/tensor/cpu_allocator.cc one_at_a_time", "guards libtorch's allocator"},
      {"src/tensor/random_streams.cc mutex", "guards libtorch's default generator"},
      {"src/tensor/block_cache.h mutex", "one of an array, which clang does not follow"},
      {"src/runtime/variable.cc turn", "plain variables, written by replicas of any strategy"},
  };
  return all;
}

struct Declaration {
  std::string type;
  std::string name;
  size_t at;
};

// `Mutex a;`, `mutable Mutex a;`, `std::mutex a;`, `auto* a = new Mutex();`
std::vector<Declaration> declarations(const std::string& text) {
  static const std::regex kMember(
      "^ *(?:(?:static|mutable|inline) )*((?:Timed)?Mutex|std::\\w*mutex) (\\w+)[;{].*");
  static const std::regex kHeap("^.* (\\w+) = new ((?:Timed)?Mutex|std::\\w*mutex)\\(.*");
  std::vector<Declaration> all;
  std::istringstream lines(text);
  size_t at = 0;
  for (std::string line; std::getline(lines, line); at += line.size() + 1) {
    if (line.find("utex") == std::string::npos) continue;
    std::smatch match;
    if (std::regex_match(line, match, kMember)) all.push_back({match[1], match[2], at});
    if (std::regex_match(line, match, kHeap)) all.push_back({match[2], match[1], at});
  }
  return all;
}

bool is_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// Whether an annotation of `text` has the mutex among its arguments.
bool names(const std::string& text, const std::string& mutex) {
  for (const char* annotation : {"GUARDED_BY(", "REQUIRES(", "EXCLUDES(", "ACQUIRE(", "RELEASE("}) {
    size_t at = text.find(annotation);
    for (; at != std::string::npos; at = text.find(annotation, at + 1)) {
      const size_t begin = text.find('(', at);
      const std::string arguments = text.substr(begin, text.find(')', begin) - begin) + ')';
      const size_t found = arguments.find(mutex);
      if (found == std::string::npos) continue;
      if (!is_word(arguments[found - 1]) && !is_word(arguments[found + mutex.size()])) return true;
    }
  }
  return false;
}

// What is wrong with the mutexes of a file. @param other  The text of the source beside a header, or the reverse.
// @param used  The exceptions that were needed.
std::vector<std::string> complaints(const std::string& path, const std::string& text,
                                    const std::string& other, std::set<std::string>& used) {
  std::vector<std::string> result;
  const std::vector<Declaration> all = declarations(text);
  for (size_t i = 0; i < all.size(); ++i) {
    const Declaration& mutex = all[i];
    const std::string key = str_cat(path, " ", mutex.name);
    if (exceptions().contains(key)) {
      used.insert(key);
      continue;
    }
    if (mutex.type.starts_with("std::")) {
      result.push_back(str_cat(path, ": ", mutex.type, " ", mutex.name, ": use strata::Mutex"));
      continue;
    }
    // Of several with one name each has the text up to the next, the first what is before it, too.
    size_t begin = 0;
    size_t end = text.size();
    for (size_t j = 0; j < all.size(); ++j) {
      if (all[j].name != mutex.name) continue;
      if (j < i) begin = mutex.at;
      if (j > i) end = std::min(end, all[j].at);
    }
    if (!names(text.substr(begin, end - begin), mutex.name) && !names(other, mutex.name)) {
      result.push_back(str_cat(path, ": no annotation names ", mutex.type, " ", mutex.name));
    }
  }
  return result;
}

// Where clang is told not to look, a comment of the three lines before says why.
std::vector<std::string> unexplained(const std::string& path, const std::string& text) {
  std::vector<std::string> result;
  const std::string macro = "STRATA_NO_THREAD_SAFETY_ANALYSIS";
  for (size_t at = text.find(macro); at != std::string::npos; at = text.find(macro, at + 1)) {
    size_t begin = at;
    for (int line = 0; line < 4 && begin != std::string::npos && begin > 0; ++line) {
      begin = text.rfind('\n', begin - 1);
    }
    const std::string before = text.substr(begin == std::string::npos ? 0 : begin,
                                           at - (begin == std::string::npos ? 0 : begin));
    if (before.find("ot checked") == std::string::npos) {
      result.push_back(str_cat(path, ": ", macro, " without a comment \"Not checked: ...\""));
    }
  }
  return result;
}

std::string read_if_there(const fs::path& path) { return fs::exists(path) ? read_file(path) : ""; }

TEST(MutexesTest, EveryMutexIsNamedByAnAnnotation) {
  const fs::path root = test::source_path();
  std::set<std::string> used;
  size_t mutexes = 0;
  for (const char* folder : {"include/strata", "src", "benchmarks"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".inc") continue;
      const auto path = fs::relative(entry.path(), root).generic_string();
      const std::string text = read_file(entry.path());
      auto beside = entry.path();
      beside.replace_extension(extension == ".h" ? ".cc" : ".h");
      mutexes += declarations(text).size();
      for (const auto& complaint : complaints(path, text, read_if_there(beside), used)) {
        ADD_FAILURE() << complaint;
      }
      if (path == "src/core/thread_annotations.h") continue;
      for (const auto& complaint : unexplained(path, text)) ADD_FAILURE() << complaint;
    }
  }
  EXPECT_GT(mutexes, 70u);
  for (const auto& [key, why] : exceptions()) {
    EXPECT_TRUE(used.contains(key)) << key << " is an exception (" << why << "), and is not there";
  }
}

TEST(MutexesTest, SeesWhatIsMissing) {
  const char* const kCases[] = {
      "struct A {\n  std::mutex mutex_;\n  int a STRATA_GUARDED_BY(mutex_);\n};\n",
      "struct A {\n  std::recursive_mutex mutex_;\n};\n",
      "struct A {\n  mutable Mutex mutex_;  // of a\n  int a;\n};\n",
      "struct A {\n  Mutex mutex_;\n  Mutex other_;\n  int a STRATA_GUARDED_BY(mutex_);\n};\n",
      "struct A {\n  Mutex mutex_;\n  int a STRATA_GUARDED_BY(mutex_);\n};\n"
      "struct B {\n  Mutex mutex_;\n  int b;\n};\n",
      "auto* a = new Mutex();\n",
      "TimedMutex calls;\n",
      "static Mutex mutex;\n",
  };
  for (const char* text : kCases) {
    std::set<std::string> used;
    EXPECT_EQ(complaints("src/data/a.cc", text, "", used).size(), 1u) << text;
  }
  EXPECT_EQ(unexplained("a.h", "void f() STRATA_NO_THREAD_SAFETY_ANALYSIS;\n").size(), 1u);
}

TEST(MutexesTest, LetsPassWhatIsAnnotated) {
  const std::pair<const char*, const char*> kCases[] = {
      {"struct A {\n  Mutex mutex_;\n  int a STRATA_GUARDED_BY(mutex_) = 0;\n};\n", ""},
      {"struct A {\n  void f() STRATA_REQUIRES(mutex_);\n  Mutex mutex_;\n};\n", ""},
      {"Mutex turn;\n", "void f() STRATA_EXCLUDES(turn);\n"},
      {"void f(Mutex& mutex, std::mutex& other);\n", ""},
  };
  for (const auto& [text, other] : kCases) {
    std::set<std::string> used;
    EXPECT_TRUE(complaints("src/data/a.h", text, other, used).empty()) << text;
  }
  EXPECT_TRUE(unexplained("a.h",
                          "// Not checked: no thread has begun.\nvoid f() "
                          "STRATA_NO_THREAD_SAFETY_ANALYSIS;\n")
                  .empty());
}

}  // namespace
}  // namespace strata
