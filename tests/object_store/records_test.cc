// Records in an object store: read as from a disk, as fast as the server sends them, and from any
// position.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "object_store/store_server.h"
#include "strata/core/file_system.h"
#include "strata/data/dataset.h"
#include "strata/data/iterator.h"
#include "strata/data/tf_record.h"

namespace strata::data {
namespace {

using Clock = std::chrono::steady_clock;

class StoreRecordsTest : public testing::Test {
 protected:
  test::StoreServer server_;
  test::VariableGuard endpoint_{"AWS_ENDPOINT_URL", server_.endpoint()};
  test::VariableGuard unsigned_{"AWS_NO_SIGN_REQUEST", "yes"};
};

// The median of nine pairs, one after the other.
TEST_F(StoreRecordsTest, AreReadAsFastAsTheServerSends) {
  const std::string path = "s3://bucket/train.tfrecord";
  constexpr int64_t kRecords = 600;
  const std::string record(150'000, 'r');  // an image of 500 pixels
  TfRecordWriter writer(path);
  for (int64_t i = 0; i < kRecords; ++i) writer.write(record);
  writer.close();

  const auto seconds = [](const auto& work) {
    const auto begin = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::vector<double> ratios;
  for (int pair = 0; pair < 9; ++pair) {
    const double plain = seconds([&] { EXPECT_GT(read_file(path).size(), kRecords * record.size()); });
    const double records = seconds([&] {
      int64_t count = 0;
      const auto all = tf_records({path});
      for (auto iterator = all.iterator(0); iterator.next();) ++count;
      EXPECT_EQ(count, kRecords);
    });
    ratios.push_back(plain / records);
  }
  std::ranges::sort(ratios);
  std::printf("of the server's plain rate: %.2f [%.2f, %.2f]\n", ratios[4], ratios.front(), ratios.back());
  EXPECT_GE(ratios[4], 0.5);  // other tests compute at the same time
}

}  // namespace
}  // namespace strata::data
