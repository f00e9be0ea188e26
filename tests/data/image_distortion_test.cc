// Distorted windows, colours, bicubic sizes and windows of JPEGs, against what TensorFlow makes of
// the same (tests/golden/tf_image_distortion.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "data/files_support.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_distortion.h"
#include "strata/data/image_ops.h"
#include "strata/data/random_numbers.h"
#include "support/expect_error.h"
#include "support/source_path.h"

namespace strata::data {
namespace {

/// TensorFlow's generator: Philox 4x32, ten rounds (Salmon et al., 2011), and how its operators
/// draw from it.
class Philox {
 public:
  Philox(uint64_t seed, uint64_t seed2)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)} {}

  double uniform() {
    return static_cast<double>(std::bit_cast<float>((bits() & 0x7fffffU) | (127U << 23)) - 1.0F);
  }
  uint64_t below(uint64_t bound) {
    const auto n = static_cast<uint32_t>(bound);
    if ((n & (n - 1)) == 0) return bits() & (n - 1);
    const uint32_t refused = UINT32_MAX % n + 1;
    uint32_t drawn = 0;
    do drawn = bits();
    while (drawn < refused);
    return drawn % n;
  }

 private:
  uint32_t bits() {
    if (used_ == 4) {
      block_ = counter_;
      std::array<uint32_t, 2> key = key_;
      for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53} * block_[0], b = uint64_t{0xCD9E8D57} * block_[2];
        block_ = {static_cast<uint32_t>(b >> 32) ^ block_[1] ^ key[0], static_cast<uint32_t>(b),
                  static_cast<uint32_t>(a >> 32) ^ block_[3] ^ key[1], static_cast<uint32_t>(a)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
      }
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  const std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_ = {};
  size_t used_ = 4;
};

const Json& golden() {
  static const Json json =
      Json::parse(read_file(test::source_path("tests/golden/tf_image_distortion.json")));
  return json;
}

std::vector<double> numbers(const Json& json) {
  std::vector<double> all;
  for (const Json& each : json.as_array()) all.push_back(each.as_double());
  return all;
}

at::Tensor tensor_of(const Json& values, const Json& shape, at::ScalarType dtype) {
  std::vector<int64_t> sizes;
  for (const double size : numbers(shape)) sizes.push_back(static_cast<int64_t>(size));
  return at::tensor(numbers(values), at::kDouble).view(sizes).to(dtype);
}

std::pair<double, double> pair_of(const Json& json) { return {numbers(json)[0], numbers(json)[1]}; }

TEST(DistortedBoxTest, IsTensorFlowsForTheSameNumbers) {
  for (const Json& each : golden().at("boxes").as_array()) {
    SCOPED_TRACE(each.dump());
    DistortedBoxOptions options;
    for (const auto& [key, value] : each.at("options").as_object()) {
      if (key == "min_object_covered") options.min_object_covered = value.as_double();
      if (key == "aspect_ratio") options.aspect_ratio = pair_of(value);
      if (key == "area") options.area = pair_of(value);
      if (key == "max_attempts") options.max_attempts = static_cast<int>(value.as_int());
    }
    std::vector<RelativeBox> objects;
    for (const Json& box : each.at("objects").as_array()) {
      const std::vector<double> sides = numbers(box);
      objects.push_back({static_cast<float>(sides[0]), static_cast<float>(sides[1]),
                         static_cast<float>(sides[2]), static_cast<float>(sides[3])});
    }
    const std::vector<double> size = numbers(each.at("size")), seed = numbers(each.at("seed")),
                              want = numbers(each.at("window"));
    Philox random(static_cast<uint64_t>(seed[0]), static_cast<uint64_t>(seed[1]));
    const ImageBox box = sample_distorted_box(
        static_cast<int64_t>(size[0]), static_cast<int64_t>(size[1]), objects, random, options);
    EXPECT_EQ(
        (std::vector<double>{static_cast<double>(box.top), static_cast<double>(box.left),
                             static_cast<double>(box.height), static_cast<double>(box.width)}),
        want);
  }
}

TEST(DistortedBoxTest, KeepsItsRangesWithKeyedNumbers) {
  for (uint64_t i = 0; i < 500; ++i) {
    RandomNumbers random(ElementKey{.seed = 3, .index = i});
    const ImageBox box = sample_distorted_box(375, 500, {}, random);
    EXPECT_GE(box.top, 0);
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.top + box.height, 375);
    EXPECT_LE(box.left + box.width, 500);
    EXPECT_GE(box.height * box.width, 0.05 * 375 * 500);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_NEAR(ratio, (0.75 + 1.33) / 2, 0.31);
  }
}

TEST(DistortedBoxTest, RefusesWhatIsOutOfRange) {
  const auto sample = [](const DistortedBoxOptions& options,
                         const std::vector<RelativeBox>& objects = {}) {
    RandomNumbers random(ElementKey{});
    sample_distorted_box(10, 10, objects, random, options);
  };
  strata::expect_error(
      [&] {
        sample({.area = {0.5, 0.2}});
      },
      "[data] sample_distorted_box: got area 0.5 to 0.2; expected parts of the image, above 0 to "
      "1, the smaller one "
      "first");
  strata::expect_error(
      [&] {
        sample({}, {{0.5, 0, 0.5, 1}});
      },
      "[data] sample_distorted_box: got an object from (0.5, 0) to (0.5, 1); expected 0 <= top < "
      "bottom <= 1, and so "
      "for the columns");
}

TEST(ImageColorsTest, AreTensorFlows) {
  const Json& colours = golden().at("colours");
  const at::Tensor floats = tensor_of(colours.at("floats"), colours.at("shape"), at::kFloat);
  const at::Tensor bytes = tensor_of(colours.at("bytes"), colours.at("shape"), at::kByte);
  for (const Json& each : colours.at("cases").as_array()) {
    SCOPED_TRACE(str_cat(each.at("dtype").as_string(), " ", each.at("what").as_string(), " ",
                         each.at("amount").as_double()));
    const bool in_bytes = each.at("dtype").as_string() == "uint8";
    const std::string what = each.at("what").as_string();
    const auto adjust = what == "brightness"   ? adjust_brightness
                        : what == "contrast"   ? adjust_contrast
                        : what == "saturation" ? adjust_saturation
                                               : adjust_hue;
    const at::Tensor image = in_bytes ? bytes : floats;
    const at::Tensor got = adjust(image, each.at("amount").as_double());
    const at::Tensor want = tensor_of(each.at("result"), colours.at("shape"), image.scalar_type());
    EXPECT_EQ(got.scalar_type(), image.scalar_type());
    EXPECT_LE((got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>(),
              in_bytes ? 1 : 2e-6);
    // Batches image by image.
    const at::Tensor both =
        adjust(at::stack({image, image.flip(0)}), each.at("amount").as_double());
    EXPECT_TRUE(both[0].equal(got));
  }
}

TEST(ImageColorsTest, DistortionIsKeyedAndKeepsItsRange) {
  const at::Tensor image = at::rand({8, 9, 3});
  const auto distorted = [&](uint64_t index) {
    RandomNumbers random(ElementKey{.seed = 1, .index = index});
    return distort_color(image, random);
  };
  EXPECT_TRUE(distorted(4).equal(distorted(4)));
  EXPECT_FALSE(distorted(4).equal(distorted(5)));
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_GE(distorted(i).min().item<float>(), 0);
    EXPECT_LE(distorted(i).max().item<float>(), 1);
  }
}

TEST(BicubicTest, IsTensorFlows) {
  const Json& bicubic = golden().at("bicubic");
  const at::Tensor source = tensor_of(bicubic.at("source"), bicubic.at("shape"), at::kByte);
  for (const Json& each : bicubic.at("cases").as_array()) {
    SCOPED_TRACE(each.at("size").dump());
    const std::vector<double> size = numbers(each.at("size"));
    const at::Tensor got =
        resize(source, static_cast<int64_t>(size[0]), static_cast<int64_t>(size[1]),
               {.method = ResizeMethod::kBicubic, .antialias = each.at("antialias").as_bool()});
    const at::Tensor want = at::tensor(numbers(each.at("result")), at::kDouble).view(got.sizes());
    EXPECT_LE((got.to(at::kDouble) - want).abs().max().item<double>(), 2e-3)
        << each.at("antialias").as_bool();
  }
}

TEST(JpegWindowTest, HasThePixelsOfTheWholeImage) {
  if (!STRATA_TEST_JPEG) return;
  for (const Json& each : golden().at("windows").as_array()) {
    SCOPED_TRACE(each.dump());
    const std::string bytes = read_file(golden_file(each.at("file").as_string()));
    const std::vector<double> sides = numbers(each.at("window"));
    const ImageBox window = {static_cast<int64_t>(sides[0]), static_cast<int64_t>(sides[1]),
                             static_cast<int64_t>(sides[2]), static_cast<int64_t>(sides[3])};
    for (const bool fancy : {true, false}) {
      const at::Tensor got = decode_jpeg(bytes, {.window = window, .fancy_upsampling = fancy});
      const at::Tensor whole = decode_jpeg(bytes, {.fancy_upsampling = fancy});
      EXPECT_TRUE(got.equal(crop(whole, window.top, window.left, window.height, window.width)))
          << fancy;
      if (!fancy || !each.at("as_whole").as_bool())
        continue;  // TensorFlow's edges depend on its window
      Sha256 hash;
      hash.update(got.const_data_ptr(), got.nbytes());
      EXPECT_EQ(hash.hex_digest(), each.at("sha256").as_string());
    }
  }
}

TEST(JpegWindowTest, ShrinksWithTheImage) {
  if (!STRATA_TEST_JPEG) return;
  const std::string bytes =
      encode_jpeg(at::arange(64 * 96 * 3).remainder(200).view({64, 96, 3}).to(at::kByte));
  const at::Tensor half =
      decode_jpeg(bytes, {.min_height = 10, .min_width = 12, .window = {7, 9, 21, 25}});
  EXPECT_EQ(half.sizes().vec(),
            (std::vector<int64_t>{11, 13, 3}));  // rows 3 to 13, columns 4 to 16
  EXPECT_TRUE(
      half.equal(crop(decode_jpeg(bytes, {.min_height = 32, .min_width = 48}), 3, 4, 11, 13)));
}

TEST(JpegWindowTest, OutsideOfTheImageIsRefused) {
  if (!STRATA_TEST_JPEG) return;
  const std::string bytes = encode_jpeg(at::zeros({8, 9, 1}, at::kByte));
  expect_error_containing(
      [&] {
        decode_jpeg(bytes, {.window = {0, 0, 9, 9}, .name = "a.jpg"});
      },
      ErrorCode::kInvalidArgument,
      "got a window of 9 x 9 at (0, 0) of an image of 8 x 9; expected a window inside of it");
}

}  // namespace
}  // namespace strata::data
