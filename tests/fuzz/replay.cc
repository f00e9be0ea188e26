#include "fuzz/replay.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "support/soak_setting.h"
#include "support/source_path.h"

namespace strata::fuzz {
namespace {

constexpr double kMostSeconds = 2;         // for the mutations of a target
constexpr double kMostSecondsEach = 1;     // for an input
constexpr int64_t kMostBytes = 512 << 20;  // of memory, beyond what the process had before
constexpr size_t kLongest = 16 << 10;      // of a mutation

double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t peak_bytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// For the handler: no allocation there.
struct Current {
  char path[512];
  const uint8_t* data = nullptr;
  size_t size = 0;
};
Current current;

void keep_input() {
  const int file = ::open(current.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  const bool written =
      ::write(file, current.data, current.size) == static_cast<ssize_t>(current.size);
  ::close(file);
  constexpr char kSaid[] = "[fuzz] the input is in ";
  if (!written || ::write(2, kSaid, sizeof kSaid - 1) < 0) return;
  size_t length = 0;
  while (current.path[length] != '\0') ++length;
  if (::write(2, current.path, length) >= 0) (void)!::write(2, "\n", 1);
}

void on_signal(int signal) {
  keep_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Watch {
 public:
  Watch() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      before_[i] = std::signal(kSignals[i], on_signal);
  }
  ~Watch() {
    for (size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};
  sighandler_t before_[std::size(kSignals)] = {};
};

std::vector<std::string> corpus_of(const std::string& name) {
  std::vector<std::string> inputs;
  const std::filesystem::path folder = test::source_path("tests/fuzz/corpus/" + name);
  if (!std::filesystem::exists(folder)) return inputs;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// One to eight changes: bits, bytes, numbers at the ends of their ranges, pieces cut out, doubled,
/// or taken from another input.
class Mutations {
 public:
  Mutations(const std::vector<std::string>& corpus, uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    bytes.resize(std::min(bytes.size(), kLongest));
    for (size_t changes = below(2) == 0 ? 1 : 1 + below(8); changes > 0; --changes) change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t end) { return static_cast<size_t>(random_() % end); }

  void change(std::string& bytes) {
    if (bytes.empty()) bytes.push_back('\0');
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(bytes.size() - at, 16));
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        return;
      case 1:
        bytes[at] = static_cast<char>(random_());
        return;
      case 2: {
        static constexpr uint64_t kNumbers[] = {0,          1,          0x7F,       0xFF,
                                                0x7FFF,     0xFFFF,     0x7FFFFFFF, 0xFFFFFFFF,
                                                1ull << 62, ~0ull >> 1, ~0ull};
        uint64_t number = kNumbers[below(std::size(kNumbers))];
        for (size_t i = at; i < std::min(bytes.size(), at + (size_t{1} << below(4))); ++i) {
          bytes[i] = static_cast<char>(number & 0xFF);
          number >>= 8;
        }
        return;
      }
      case 3:
        bytes.erase(at, length);
        return;
      case 4:
        if (bytes.size() < kLongest) bytes.insert(below(bytes.size()), bytes.substr(at, length));
        return;
      case 5: {
        const std::string& other = corpus_[below(corpus_.size())];
        if (other.empty() || bytes.size() >= kLongest) return;
        const size_t from = below(other.size());
        bytes.insert(at, other.substr(from, 1 + below(64)));
        return;
      }
      case 6: {
        // Digits are what texts have their sizes in.
        static constexpr const char* kTexts[] = {
            "-1", "0", "9223372036854775807", "1e999", "18446744073709551616", "\"", "[", "{"};
        bytes.insert(at, kTexts[below(std::size(kTexts))]);
        return;
      }
      default:
        bytes.resize(at);
        return;
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

void replay(const char* name, Target target) {
  std::vector<std::string> corpus = corpus_of(name);
  ASSERT_FALSE(corpus.empty()) << "tests/fuzz/corpus/" << name << " has no files";
  std::snprintf(current.path, sizeof current.path, "%s/strata-fuzz-%s-%d.bin",
                std::filesystem::temp_directory_path().c_str(), name, static_cast<int>(::getpid()));
  const Watch watch;
  const int64_t before = peak_bytes();

  const auto run = [&](const std::string& bytes) {
    // As large as it is: a sanitizer sees what is read behind the end.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    current.data = input.data();
    current.size = input.size();
    const double begun = processor_seconds();
    target(input.data(), input.size());
    const double seconds = processor_seconds() - begun;
    const int64_t grown = peak_bytes() - before;
    if (seconds <= kMostSecondsEach && grown <= kMostBytes) return true;
    keep_input();
    ADD_FAILURE() << name << ": an input took " << seconds << " s and " << grown / (1 << 20)
                  << " MiB; expected at most " << kMostSecondsEach << " s and "
                  << kMostBytes / (1 << 20) << " MiB; it is in " << current.path;
    return false;
  };
  for (const std::string& bytes : corpus) ASSERT_TRUE(run(bytes));

  Mutations mutations(corpus, test::soak_setting("STRATA_FUZZ_SEED", 1));
  const uint64_t inputs = test::soak_setting("STRATA_FUZZ_INPUTS", 2000);
  const bool all = std::getenv("STRATA_FUZZ_INPUTS") != nullptr;
  const double end = processor_seconds() + kMostSeconds;
  for (uint64_t i = 0; i < inputs && (all || processor_seconds() < end); ++i) {
    ASSERT_TRUE(run(mutations.next()));
  }
}

}  // namespace strata::fuzz
