// Records of images as ImageNet's, and what networks are trained with.
#include "strata/data/imagenet.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "data/files_support.h"
#include "strata/data/dataset.h"
#include "strata/data/image_codec.h"
#include "strata/data/iterator.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

std::string photograph(int64_t height, int64_t width, int64_t shift = 0) {
  const auto rows = at::arange(height).view({-1, 1, 1}) * 3;
  const auto columns = at::arange(width).view({1, -1, 1}) * 2;
  return encode_jpeg((rows + columns + at::arange(3) * 40 + shift).remainder(256).to(at::kByte));
}

TEST(ImageRecordTest, ComesBack) {
  if (!STRATA_TEST_JPEG) return;
  const ImageRecord record = {.encoded = photograph(20, 30),
                              .label = 7,
                              .text = "a cat",
                              .filename = "cat.jpg",
                              .objects = {{0.1F, 0.2F, 0.5F, 0.9F}, {0, 0, 1, 1}}};
  const std::string bytes = serialize_image_record(record);
  const TfExample example = decode_example(bytes);
  EXPECT_EQ(example.at("image/class/label"), TfFeature::int64s({8}));
  EXPECT_EQ(example.at("image/height"), TfFeature::int64s({20}));
  EXPECT_EQ(example.at("image/object/bbox/xmax"), TfFeature::floats({0.9F, 1}));
  const ImageRecord back = parse_image_record(bytes);
  EXPECT_EQ(back.encoded, record.encoded);
  EXPECT_EQ(back.label, 7);
  EXPECT_EQ(back.text, "a cat");
  EXPECT_EQ(back.filename, "cat.jpg");
  ASSERT_EQ(back.objects.size(), 2);
  EXPECT_EQ(back.objects[0].right, 0.9F);
}

TEST(ImageRecordTest, WhatIsNoneIsRefused) {
  strata::expect_error(
      [] {
        parse_image_record(serialize_example({{"image/class/label", TfFeature::int64s({1})}}));
      },
      ErrorCode::kDataLoss,
      "[data] parse_image_record: got 0 values of image/encoded; expected one, as in ImageNet's "
      "records");
  expect_error_containing(
      [] {
        parse_image_record(serialize_example({{"image/encoded", TfFeature::bytes({"x"})},
                                              {"image/class/label", TfFeature::int64s({1})},
                                              {"image/object/bbox/ymin", TfFeature::floats({0})}}));
      },
      ErrorCode::kDataLoss, "expected as many of each");
}

TEST(ImageRecordFilesTest, HaveEachImageOfAFolderOnce) {
  if (!STRATA_TEST_JPEG) return;
  const test::TempFolder folder;
  for (const char* const name : {"cat", "dog"}) {
    local_file_system().make_folders(join_path(folder.path(), str_cat("in/", name)));
    for (int i = 0; i < 5; ++i) {
      write_file(join_path(folder.path(), str_cat("in/", name, "/", i, ".jpg")),
                 photograph(12, 14, i * 20));
    }
  }
  const ImageFolder images = image_folder(folder.path() + "/in");
  int64_t reported = 0;
  const auto paths = write_image_records(
      images,
      {.prefix = folder.path() + "/train", .shards = 3, .progress = [&](int64_t done, int64_t all) {
         EXPECT_EQ(all, 10);
         reported = done;
       }});
  EXPECT_EQ(reported, 10);
  ASSERT_EQ(paths.size(), 3);
  EXPECT_EQ(paths[2], folder.path() + "/train-00002-of-00003");
  std::multiset<std::string> seen;
  for (const Example& each : tf_records(paths)) {
    const ImageRecord record = parse_image_record(to_string(each.x()));
    EXPECT_EQ(record.text, record.label == 0 ? "cat" : "dog");
    seen.insert(record.text + record.filename);
  }
  EXPECT_EQ(seen.size(), 10);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 10);

  const auto decode = [](const Example& each, const ElementKey& key) {
    const ImageRecord record = parse_image_record(to_string(each.x()));
    RandomNumbers random(key);
    return Example{training_image(record, random, {.size = 32}),
                   at::scalar_tensor(record.label, at::kLong)};
  };
  const Dataset batches = tf_records(paths)
                              .map(KeyedMapFunction(decode), {.num_parallel_calls = 2, .seed = 7})
                              .batch(5);
  const auto first = batches.iterator(0).next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->x().sizes().vec(), (std::vector<int64_t>{5, 32, 32, 3}));

  write_file(folder.path() + "/in/dog/broken.jpg", photograph(12, 14).substr(0, 200));
  expect_error_containing(
      [&] {
        write_image_records(image_folder(folder.path() + "/in"), {.prefix = folder.path() + "/x"});
      },
      ErrorCode::kInvalidArgument, "got 16 shards for 11 images");
  expect_error_containing(
      [&] {
        write_image_records(image_folder(folder.path() + "/in"),
                            {.prefix = folder.path() + "/x", .shards = 1});
      },
      ErrorCode::kDataLoss, "broken.jpg");
}

TEST(ImageInputTest, TrainingAndEvaluation) {
  if (!STRATA_TEST_JPEG) return;
  const ImageRecord record = {.encoded = photograph(120, 160), .label = 1};
  const auto train = [&](uint64_t index, const ImageInputOptions& options) {
    RandomNumbers random(ElementKey{.seed = 1, .index = index});
    return training_image(record, random, options);
  };
  for (const bool colour : {false, true}) {
    for (const bool smaller : {false, true}) {
      const ImageInputOptions options = {
          .size = 32, .distort_color = colour, .decode_smaller = smaller};
      const at::Tensor image = train(3, options);
      EXPECT_EQ(image.sizes().vec(), (std::vector<int64_t>{32, 32, 3}));
      EXPECT_GE(image.min().item<float>(), -1);
      EXPECT_LE(image.max().item<float>(), 1);
      EXPECT_TRUE(image.equal(train(3, options)));
      EXPECT_FALSE(image.equal(train(4, options)));
    }
  }
  const at::Tensor middle = evaluation_image(record, {.size = 32});
  const at::Tensor want =
      resize(central_crop(decode_jpeg(record.encoded), 0.875), 32, 32) / 127.5 - 1;
  EXPECT_LE((middle - want).abs().max().item<float>(), 1e-5);
  // A PNG has no window of its own.
  ImageRecord png = record;
  png.encoded = encode_png(decode_jpeg(record.encoded));
  RandomNumbers random(ElementKey{.seed = 1, .index = 3});
  EXPECT_LE((training_image(png, random, {.size = 32}) - train(3, {.size = 32}))
                .abs()
                .max()
                .item<float>(),
            1e-5);
}

}  // namespace
}  // namespace strata::data
