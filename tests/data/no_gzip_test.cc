#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/elements.h"
#include "strata/data/mnist.h"

namespace strata::data {
namespace {

TEST(NoGzipTest, SaysWhatIsMissing) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("strata_no_gzip_" + std::to_string(getpid())))
          .string();
  std::ofstream(path, std::ios::binary) << "\x1F\x8B and so on";
  expect_error(ErrorCode::kUnimplemented, {path + " is gzipped", "without zlib", "zlib1g-dev"},
               [&] { (void)read_idx_file(path); });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace strata::data
