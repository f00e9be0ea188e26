#include <gtest/gtest.h>

#include "strata/estimator/feature_layers.h"
#include "support/expect_error.h"

namespace strata::feature_column {
namespace {

TEST(NoFarmFingerprintTest, ColumnsThatHashSayWhatIsMissing) {
  const Features features = {{"s", estimator::text_feature(std::vector<std::string>{"a"})}};
  expect_error_containing(
      [&] { (void)categorical_ids(categorical_column_with_hash_bucket("s", 5), features); },
      ErrorCode::kUnimplemented, "Debian: libfarmhash-dev");
}

TEST(NoFarmFingerprintTest, OtherColumnsWork) {
  const Features features = {{"s", estimator::text_feature(std::vector<std::string>{"b"})}};
  const FeatureColumn column =
      categorical_column_with_vocabulary_list("s", std::vector<std::string>{"a", "b"});
  EXPECT_EQ(categorical_ids(column, features).ids.item<int64_t>(), 1);
}

}  // namespace
}  // namespace strata::feature_column
