// What reads or writes a tensor's memory inside a step is an operator of the dispatcher, so that
// whatever records a step sees it (tests/operators/ has them all). Other files that take a tensor's
// address are in the list below, with the reason.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "house/read_file.h"
#include "support/source_path.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// Modules whose code runs in a step. `kernels` is the kernels themselves. The others move bytes
// between processes (collective, ps, wire) or to and from files (data, checkpoint, keras_files).
constexpr const char* kModules[] = {"tensor", "runtime", "optim", "strategies", "keras", "interop"};

const std::map<std::string, std::string>& files_with_reasons() {
  static const std::map<std::string, std::string> reasons = {
      {"keras/callbacks/tensor_board.cc", "writes values into an event file, after an epoch"},
      {"keras/initializers/orthonormal.cc", "initial values, before the first step"},
      {"keras/layers/categories.cc", "boundaries of ranges, by adapt, before the first step"},
      {"keras/layers/on_host.h", "texts and hashes, in a host node of a recorded step"},
      {"keras/layers/image_resize.cc", "a matrix that depends on the image sizes alone"},
      {"keras/ops/ctc_decode.cc",
       "a search that asks for a value first, which no recording allows"},
      {"optim/losses/losses.cc", "a check of labels, which has no result"},
      {"optim/step/gradient_reducer.cc", "copies into the buffers of a sum over processes"},
      {"optim/step/gradient_shards.cc", "copies into the buffers of an all-gather over processes"},
      {"runtime/group_exchange.cc", "bytes for other processes"},
      {"runtime/half_copy.cc", "compares addresses, and reads no memory"},
      {"runtime/nccl.cc", "hands buffers to NCCL"},
      {"runtime/replicated.cc", "compares addresses, and reads no memory"},
      {"runtime/step_summary.cc", "numbers for a file"},
      {"strategies/standalone/tensor_transfer.cc", "bytes for other processes"},
      {"tensor/stream_event.cc", "tells the allocator who uses memory, and reads none"},
      {"tensor/fingerprint.cc", "a hash of weights, between steps"},
  };
  return reasons;
}

bool takes_addresses(const std::string& text) {
  static const std::regex kAddress("\\b(const_|mutable_)?data_ptr\\b");
  return std::regex_search(text, kAddress);
}

bool registers_kernels(const std::string& text) {
  return text.find("TORCH_LIBRARY_IMPL(strata, CPU, library)") != std::string::npos ||
         text.find("library.impl(") != std::string::npos;
}

TEST(DataPointersTest, AreTakenByOperatorsOnly) {
  const fs::path source = test::source_path("src");
  std::set<std::string> others;
  for (const char* module : kModules) {
    for (const auto& entry : fs::recursive_directory_iterator(source / module)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h" && extension != ".inc") continue;
      const std::string text = read_file(entry.path());
      if (!takes_addresses(text) || registers_kernels(text)) continue;
      const std::string name = fs::relative(entry.path(), source);
      others.insert(name);
      EXPECT_TRUE(files_with_reasons().contains(name))
          << name
          << " takes the address of a tensor's memory; make it an operator, \"strata::...\"";
    }
  }
  for (const auto& [name, reason] : files_with_reasons()) {
    EXPECT_TRUE(others.contains(name)) << name << " no longer needs its exception: " << reason;
  }
}

TEST(DataPointersTest, AreFoundInEveryForm) {
  EXPECT_TRUE(takes_addresses("x.data_ptr<float>()"));
  EXPECT_TRUE(takes_addresses("x->const_data_ptr()"));
  EXPECT_TRUE(takes_addresses("x.template mutable_data_ptr<T>()"));
  EXPECT_FALSE(takes_addresses("storage.set_data_ptr(taken)"));
}

}  // namespace
}  // namespace strata
