#include "strata/data/mnist.h"

#include <ATen/ops/bincount.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "data/elements.h"

namespace strata::data {
namespace {

namespace fs = std::filesystem;

std::string be32(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
          static_cast<char>(n)};
}

std::string images(uint32_t n, uint32_t side) {
  std::string bytes = std::string("\0\0\x08\x03", 4) + be32(n) + be32(side) + be32(side);
  for (uint32_t i = 0; i < n; ++i) bytes += std::string(side * side, static_cast<char>(i * 51));
  return bytes;
}

std::string labels(const std::string& values) {
  return std::string("\0\0\x08\x01", 4) + be32(static_cast<uint32_t>(values.size())) + values;
}

// A tiny set in a folder of its own.
class MnistTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("strata_mnist_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "mnist");
    write("train-images-idx3-ubyte", images(3, 28));
    write("train-labels-idx1-ubyte", labels("\x01\x02\x03"));
    write("t10k-images-idx3-ubyte", images(1, 28));
    write("t10k-labels-idx1-ubyte", labels("\x09"));
  }
  void TearDown() override {
    unsetenv("STRATA_DATASETS");
    fs::remove_all(folder_);
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / "mnist" / name, std::ios::binary) << bytes;
  }
  std::string mnist() const { return (folder_ / "mnist").string(); }

  fs::path folder_;
};

TEST_F(MnistTest, ReadsAFolder) {
  const Mnist set = load_mnist(mnist());
  EXPECT_EQ(set.train.x().sizes(), (std::vector<int64_t>{3, 28, 28}));
  EXPECT_EQ(set.train.x().scalar_type(), at::kByte);
  EXPECT_EQ(set.train.y().scalar_type(), at::kLong);
  EXPECT_TRUE(set.train.y().equal(longs({1, 2, 3})));
  EXPECT_EQ(set.test.num_rows(), 1);
}

TEST_F(MnistTest, DatasetsAreScaledFloats) {
  const Mnist set = load_mnist(mnist());
  const auto batch = set.train_dataset().batch(3).iterator(0).next();
  EXPECT_EQ(batch->x().scalar_type(), at::kFloat);
  EXPECT_FLOAT_EQ(batch->x()[2][27][27].item<float>(), 0.4F);  // 2 * 51 / 255
  EXPECT_EQ(batch->y().scalar_type(), at::kLong);
  EXPECT_EQ(set.test_dataset().cardinality(), 1);
  expect_error(ErrorCode::kInvalidArgument, {"scale_pixels: got Float"},
               [] { (void)scale_pixels({at::zeros({1})}); });
}

TEST_F(MnistTest, TheEnvironmentComesFirst) {
  setenv("STRATA_DATASETS", folder_.c_str(), 1);
  EXPECT_EQ(load_mnist().train.num_rows(), 3);
}

TEST_F(MnistTest, MissingFilesAreNamed) {
  fs::remove(folder_ / "mnist" / "t10k-labels-idx1-ubyte");
  expect_error(ErrorCode::kNotFound, {mnist(), "has no t10k-labels-idx1-ubyte or"},
               [&] { (void)load_mnist(mnist()); });
  expect_error(ErrorCode::kNotFound, {"load_fashion_mnist", "/nowhere has no train-images"},
               [] { (void)load_fashion_mnist("/nowhere"); });
}

TEST_F(MnistTest, OtherIdxFilesAreRefused) {
  const auto expect_bad = [&](const std::string& name, const std::string& bytes,
                              const std::vector<std::string>& parts) {
    SetUp();
    write(name, bytes);
    expect_error(ErrorCode::kDataLoss, parts, [&] { (void)load_mnist(mnist()); });
  };
  expect_bad("train-images-idx3-ubyte", images(3, 27),
             {"Byte of shape [3, 27, 27]", "[n, 28, 28]"});
  expect_bad("train-labels-idx1-ubyte", labels("\x01\x02"), {"Byte of shape [2]", "shape [3]"});
  expect_bad("train-labels-idx1-ubyte", labels("\x01\x02\x0B"),
             {"got label 11", "expected 0 to 9"});
}

// The files in the repository, or Debian's.
TEST(MnistFilesTest, MnistIsThere) {
  const Mnist set = load_mnist();
  EXPECT_EQ(set.train.num_rows(), 60000);
  EXPECT_EQ(set.test.num_rows(), 10000);
  EXPECT_TRUE(at::bincount(set.train.y())
                  .equal(longs({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949})));
  EXPECT_EQ(set.train.x().sum().item<int64_t>(), 1567298545);
  EXPECT_EQ(set.test.x().sum().item<int64_t>(), 264923200);
}

TEST(MnistFilesTest, FashionMnistIsReadOrItsPackageNamed) {
  try {
    const Mnist set = load_fashion_mnist();
    EXPECT_EQ(set.train.num_rows(), 60000);
    EXPECT_TRUE(at::bincount(set.test.y()).equal(longs(std::vector<int64_t>(10, 1000))));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("apt-get install dataset-fashion-mnist"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace strata::data
