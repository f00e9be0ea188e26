// Damage of all kinds to bare HDF5 files, which have no checksums: an error or other values, never
// a crash and never a hang. STRATA_FUZZ_MUTATIONS says how many (a few thousand), STRATA_FUZZ_SEED
// which; STRATA_FUZZ_ONE repeats one in this process, for a debugger.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <random>

#include "keras_files/golden.h"
#include "keras_files/legacy_model.h"
#include "keras_files/weights_file.h"
#include "strata/core/error.h"
#include "support/soak_setting.h"

namespace strata::keras_files {
namespace {

using test::golden_path;

/// One to eight changes of bits, bytes, runs and words, half of them near text or structure.
std::string damage(const std::string& bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::string damaged = bytes;
  const size_t changes = random() % 2 == 0 ? 1 : 1 + below(8);
  for (size_t i = 0; i < changes; ++i) {
    size_t at = below(damaged.size());
    if (random() % 2 == 0) {  // behind a signature
      static constexpr const char* kSignatures[] = {"GCOL", "SNOD", "HEAP", "TREE", "name"};
      const size_t found = damaged.find(kSignatures[below(5)], below(damaged.size()));
      if (found != std::string::npos) at = std::min(found + below(64), damaged.size() - 1);
    }
    switch (below(5)) {
      case 0:
      case 1:
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << below(8)));
        break;
      case 2:
        damaged[at] = static_cast<char>(random());
        break;
      case 3:
        for (size_t end = std::min(at + 1 + below(32), damaged.size()); at < end; ++at) {
          damaged[at] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
        }
        break;
      default:
        for (size_t end = std::min(at + 8, damaged.size()); at < end; ++at) damaged[at] = '\xFF';
        break;
    }
  }
  if (random() % 16 == 0) damaged.resize(below(damaged.size()));
  return damaged;
}

struct Report {
  std::atomic<uint64_t> begun;  // mutations, the one that crashed included
  std::atomic<uint64_t> refused;
  std::atomic<uint64_t> read;
  std::atomic<uint64_t> strange;  // an exception that is not ours
};

void read_damaged(const std::string& bytes, bool legacy, Report& report) {
  const auto view = std::as_bytes(std::span(bytes));
  try {
    if (legacy) {
      parse_legacy_model(view, "f.h5");
    } else {
      parse_weights(view, "f.h5");
    }
    ++report.read;
  } catch (const Error&) {
    ++report.refused;
  } catch (...) {
    ++report.strange;
  }
}

/// Mutations [begin, end) of a file in a child; returns how it ended.
int in_child(const std::string& bytes, bool legacy, uint64_t begin, uint64_t end, Report& report) {
  const pid_t child = fork();
  if (child == 0) {
    for (uint64_t i = begin; i < end; ++i) {
      report.begun = i + 1;
      alarm(20);  // a hang is a failure, too
      read_damaged(damage(bytes, i), legacy, report);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void fuzz(const std::string& name, uint64_t mutations) {
  void* memory =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Report& report = *new (memory) Report();
  const std::string bytes = read_file(golden_path(name));
  const bool legacy = !name.ends_with(".weights.h5");
  if (const uint64_t one = test::soak_setting("STRATA_FUZZ_ONE", 0); one != 0) {
    read_damaged(damage(bytes, one), legacy, report);
    return;
  }
  const uint64_t first = test::soak_setting("STRATA_FUZZ_SEED", 1) << 32, end = first + mutations;
  int crashes = 0;
  for (uint64_t begin = first; begin < end && crashes < 20;) {
    const int status = in_child(bytes, legacy, begin, end, report);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++crashes;
    ADD_FAILURE() << name << ": mutation " << report.begun - 1 << " ended with signal "
                  << (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    begin = report.begun;
  }
  std::printf("%-40s %llu mutations: %llu refused, %llu read, %d crashes\n", name.c_str(),
              static_cast<unsigned long long>(report.begun - first),
              static_cast<unsigned long long>(report.refused),
              static_cast<unsigned long long>(report.read), crashes);
  EXPECT_EQ(report.strange, 0U) << "exceptions that are not strata's";
  EXPECT_GT(report.refused, mutations / 50);
  EXPECT_GT(report.read, mutations / 50);
  munmap(memory, sizeof(Report));
}

TEST(FuzzTest, DamagedHdf5EndsInAnError) {
  const uint64_t mutations = test::soak_setting("STRATA_FUZZ_MUTATIONS", 4000);
  for (const char* name : {"keras_files_mlp.weights.h5", "keras_files_mlp.h5",
                           "keras_files_dtypes.weights.h5", "keras_files_layouts.weights.h5"}) {
    fuzz(name, mutations / 4);
  }
}

}  // namespace
}  // namespace strata::keras_files
