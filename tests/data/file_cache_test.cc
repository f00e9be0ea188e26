#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "data/elements.h"
#include "strata/core/file_system.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

class FileCacheTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "cache") const { return folder_.path() + "/" + name; }

  // A generator's dataset that counts how often an element is made.
  Dataset counted(int64_t n) const {
    return counting_generator(n).map([calls = calls_](Example e) {
      ++*calls;
      return e;
    });
  }
  int calls() const { return *calls_; }

  std::vector<std::string> names() const { return local_file_system().list(folder_.path()); }

  void overwrite(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
  }

 private:
  test::TempFolder folder_;
  std::shared_ptr<int> calls_ = std::make_shared<int>(0);
};

TEST_F(FileCacheTest, ReadsItsInputOnceEvenInAnotherProcess) {
  const std::vector<int64_t> expected = {0, 1, 2, 3};
  const Dataset dataset = counted(4).cache(path());
  EXPECT_EQ(values_of(dataset, 3), expected);
  EXPECT_EQ(calls(), 4);
  EXPECT_EQ(values_of(dataset.repeat(2)).size(), 8u);
  EXPECT_EQ(values_of(counted(4).cache(path()), 7), expected);  // as another process
  EXPECT_EQ(calls(), 4);
  EXPECT_EQ(names(), (std::vector<std::string>{"cache"}));
}

TEST_F(FileCacheTest, KeepsEveryKindOfTensor) {
  std::vector<Example> elements;
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                           at::kBFloat16, at::kFloat, at::kDouble, at::kBool}) {
    const at::Tensor numbers = at::arange(6).view({2, 3}).to(dtype);
    for (const Example& element : {Example{numbers, numbers.t(), numbers[0][1]},
                                   Example{at::empty({0, 5}, dtype)}, Example{}}) {
      const Dataset cached =
          Dataset::from_generator([element, i = 0]() mutable -> std::optional<Example> {
            if (i++ == 2) return std::nullopt;
            return element;
          }).cache(path(std::string(c10::toString(dtype)) + std::to_string(element.size())));
      const auto made = describe(cached);
      const auto read = describe(cached);
      EXPECT_EQ(read, made);
      ASSERT_EQ(read.size(), 2u);
    }
  }
}

TEST_F(FileCacheTest, OnlyACompletePassMakesTheFile) {
  {
    const Dataset dataset = counted(10).cache(path());
    EXPECT_EQ(values_of(dataset, 0, 5).size(), 5u);
    EXPECT_FALSE(std::filesystem::exists(path()));
    // Another process does not take the partial one for the whole.
    EXPECT_EQ(values_of(counted(10).cache(path())), values_of(Dataset::range(10)));
    EXPECT_TRUE(std::filesystem::exists(path()));
    // This one goes on where it was, in a file of its own.
    EXPECT_EQ(names().size(), 2u);
    EXPECT_EQ(values_of(dataset), values_of(Dataset::range(10)));
    EXPECT_EQ(values_of(dataset), values_of(Dataset::range(10)));
    EXPECT_EQ(values_of(dataset.take(3)).size(), 3u);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"cache"}));
}

TEST_F(FileCacheTest, WhatAKilledProcessLeftGoesAfterADay) {
  const auto leave = [&](const std::string& name, std::chrono::hours age) {
    std::ofstream(path(name)) << "half";
    std::filesystem::last_write_time(path(name),
                                     std::filesystem::file_time_type::clock::now() - age);
  };
  leave("cache.1a.partial", std::chrono::hours(25));
  leave("cache.2b.partial", std::chrono::hours(2));
  leave("other.3c.partial", std::chrono::hours(25));
  (void)values_of(Dataset::range(3).cache(path()));
  EXPECT_EQ(names(), (std::vector<std::string>{"cache", "cache.2b.partial", "other.3c.partial"}));
}

TEST_F(FileCacheTest, APassWithAGapWritesNothing) {
  const Dataset dataset = counted(10).cache(path());
  EXPECT_EQ(values_of(dataset.skip(3)).size(), 7u);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(values_of(dataset).size(), 10u);
  EXPECT_EQ(values_of(dataset.skip(3)), values_of(Dataset::range(3, 10)));
}

TEST_F(FileCacheTest, FreezesAShuffleBelow) {
  const Dataset shuffled = Dataset::range(30).shuffle(30);
  const Dataset frozen = shuffled.cache(path());
  EXPECT_EQ(values_of(frozen, 5), values_of(shuffled, 0));
  EXPECT_EQ(values_of(frozen, 6), values_of(shuffled, 0));
}

TEST_F(FileCacheTest, AnErrorMakesNoFile) {
  const auto failures_left = std::make_shared<int>(1);
  const Dataset cached = counting_generator(3)
                             .map([failures_left](Example e) {
                               if (e.x().item<int64_t>() == 1 && (*failures_left)-- > 0)
                                 throw std::runtime_error("once");
                               return e;
                             })
                             .cache(path());
  EXPECT_THROW((void)values_of(cached), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(values_of(cached), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(values_of(cached), (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(FileCacheTest, EmptyDatasetsToo) {
  EXPECT_TRUE(values_of(Dataset::range(0).cache(path())).empty());
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_TRUE(values_of(Dataset::range(0).cache(path())).empty());
}

// Every byte counts: whichever is changed or missing, it ends in an error or in the right elements.
TEST_F(FileCacheTest, DamageIsFound) {
  const Dataset source = Dataset::from_tensor_slices({at::rand({3, 5}), at::arange(3)});
  const auto expected = describe(source.cache(path()));
  const std::string good = read_file(path());
  const auto expect_found = [&](const std::string& bytes, const std::string& what) {
    overwrite(bytes);
    try {
      const auto read = describe(source.cache(path()));
      ADD_FAILURE() << what << " went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << what;
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
    }
  };
  for (size_t at = 0; at < good.size(); ++at) {
    if (at >= 12 && at < 16) continue;  // reserved
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    expect_found(bytes, str_cat("a changed byte ", at, " of ", good.size()));
  }
  for (size_t size = 0; size < good.size(); size += 7)
    expect_found(good.substr(0, size), str_cat("size ", size));
  overwrite(good);
  EXPECT_EQ(describe(source.cache(path())), expected);
}

TEST_F(FileCacheTest, SaysWhatIsWrong) {
  const Dataset dataset = Dataset::range(3).cache(path());
  const auto expect_fails = [&](const std::string& bytes, const std::string& what) {
    overwrite(bytes);
    expect_error(ErrorCode::kDataLoss, {path(), what, "remove it"},
                 [&] { (void)values_of(Dataset::range(3).cache(path())); });
  };
  EXPECT_EQ(values_of(dataset).size(), 3u);
  const std::string good = read_file(path());
  expect_fails("short", "too few bytes");
  expect_fails(std::string(100, 'x'), "no cache file of strata's");
  expect_fails(good.substr(0, 8) + '\x7' + good.substr(9), "got version 7, not 1");
  expect_fails(good.substr(0, good.size() - 1), "no end mark");
  expect_error(ErrorCode::kInvalidArgument, {"cache: got an empty path"},
               [] { (void)Dataset::range(3).cache(""); });
  expect_error(ErrorCode::kNotFound, {"nowhere"},
               [&] { (void)values_of(Dataset::range(3).cache(path("nowhere/cache"))); });
}

}  // namespace
}  // namespace strata::data
