#include <ATen/ATen.h>

#include <random>

#include "data/elements.h"
#include "data/files_support.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_folder.h"
#include "strata/data/image_ops.h"
#include "strata/data/random_numbers.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

at::Tensor picture(int64_t height, int64_t width, int64_t channels) {
  const auto rows = at::arange(height).view({-1, 1, 1}) * 3;
  const auto columns = at::arange(width).view({1, -1, 1}) * 2;
  return (rows + columns + at::arange(channels) * 40).remainder(256).to(at::kByte);
}

double mean_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().mean().item<double>();
}

std::vector<std::string> images() {
  std::vector<std::string> names;
  if (STRATA_TEST_JPEG)
    names.insert(names.end(),
                 {"rgb_420.jpg", "progressive.jpg", "grey.jpg", "restarts.jpg", "cmyk.jpg"});
  if (STRATA_TEST_PNG)
    names.insert(names.end(), {"rgb.png", "palette_alpha.png", "grey_alpha.png", "one_bit.png"});
  return names;
}

TEST(ImageCodecTest, PngsComeBackExactly) {
  if (!STRATA_TEST_PNG) return;
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {21, 34}, {300, 5}}) {
      const at::Tensor image = picture(height, width, channels);
      for (const int level : {-1, 0, 9})
        EXPECT_TRUE(at::equal(decode_image(encode_png(image, level)), image));
    }
  }
  // What is not dense, too.
  const at::Tensor view = picture(20, 30, 3).narrow(1, 5, 9);
  EXPECT_TRUE(at::equal(decode_png(encode_png(view)), view));
}

TEST(ImageCodecTest, JpegsComeBackNearly) {
  if (!STRATA_TEST_JPEG) return;
  for (const int64_t channels : {1, 3}) {
    const at::Tensor image = picture(40, 50, channels);
    const std::string small = encode_jpeg(image, {.quality = 30});
    const std::string large = encode_jpeg(image, {.quality = 100, .chroma_downsampling = false});
    EXPECT_LT(small.size(), large.size());
    EXPECT_LT(mean_difference(decode_image(large), image), 2);
    EXPECT_NE(encode_jpeg(image, {.progressive = true}), encode_jpeg(image));
  }
}

TEST(ImageCodecTest, DecodesSmaller) {
  if (!STRATA_TEST_JPEG) return;
  const std::string bytes = encode_jpeg(picture(64, 96, 3).div(4, "floor"), {.quality = 100});
  const auto sizes = [&](int64_t height, int64_t width) {
    return decode_jpeg(bytes, {.min_height = height, .min_width = width}).sizes().vec();
  };
  EXPECT_EQ(sizes(0, 0), (std::vector<int64_t>{64, 96, 3}));
  EXPECT_EQ(sizes(33, 1), (std::vector<int64_t>{64, 96, 3}));
  EXPECT_EQ(sizes(32, 48), (std::vector<int64_t>{32, 48, 3}));
  EXPECT_EQ(sizes(8, 13), (std::vector<int64_t>{16, 24, 3}));
  EXPECT_EQ(sizes(1, 1), (std::vector<int64_t>{8, 12, 3}));
  const at::Tensor full = decode_jpeg(bytes);
  const at::Tensor half = decode_jpeg(bytes, {.min_height = 32});
  EXPECT_LT(mean_difference(half, resize(full, 32, 48, {.method = ResizeMethod::kArea})), 2);
}

TEST(ImageCodecTest, EveryTruncationIsAnErrorThatNamesFileAndOffset) {
  for (const std::string& name : images()) {
    const std::string whole = read_file(golden_file(name));
    for (size_t size = 0; size < whole.size(); size += 1 + size / 60) {
      const std::string bytes = whole.substr(0, size);
      expect_error(ErrorCode::kDataLoss, {name + ", offset "},
                   [&] { (void)decode_image(bytes, {.name = name}); });
    }
    expect_error(ErrorCode::kDataLoss, {name + ", offset ", "truncated"}, [&] {
      (void)decode_image(std::string_view(whole).substr(0, whole.size() / 2), {.name = name});
    });
  }
}

// Under the address sanitizer this shows that nothing is read or written out of bounds.
TEST(ImageCodecTest, AnyBytesEndInAnImageOrAnError) {
  std::mt19937 random(1);
  for (const std::string& name : images()) {
    const std::string whole = read_file(golden_file(name));
    int refused = 0;
    for (int round = 0; round < 1500; ++round) {
      std::string bytes = whole;
      for (unsigned change = 1 + random() % 4; change > 0; --change)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      try {
        (void)decode_image(bytes);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, 10) << name;
  }
}

TEST(ImageCodecTest, StrictRefusesWhatLibjpegRepairs) {
  if (!STRATA_TEST_JPEG) return;
  std::string bytes = read_file(golden_file("rgb_420.jpg"));
  for (size_t i = bytes.size() - 60; i < bytes.size() - 20; ++i) bytes[i] = '\x55';
  EXPECT_EQ(decode_jpeg(bytes).sizes(), (at::IntArrayRef{23, 17, 3}));
  expect_error(ErrorCode::kDataLoss, {"Corrupt JPEG data"},
               [&] { (void)decode_jpeg(bytes, {.strict = true}); });
}

TEST(ImageCodecTest, SaysWhatItGot) {
  const auto fails = [](const std::string& bytes, const std::string& part) {
    expect_error(ErrorCode::kDataLoss, {"x.bin, offset 0: " + part},
                 [&] { (void)decode_image(bytes, {.name = "x.bin"}); });
  };
  fails("", "got no bytes; expected a JPEG or a PNG");
  fails("GIF89a....", "got a GIF");
  fails("BM....", "got a BMP");
  fails("RIFF....WEBP", "got a WebP");
  fails("\x89PN", "got the beginning of a PNG");
  fails("text", "got bytes of an unknown format");
  test::TempFolder folder;
  const std::string path = join_path(folder.path(), "a.jpg");
  write_file(path, "no image");
  expect_error(ErrorCode::kDataLoss, {path}, [&] { (void)load_image(path); });
  expect_error(ErrorCode::kNotFound, {path + "x"}, [&] { (void)load_image(path + "x"); });
}

TEST(ImageCodecTest, Options) {
  const auto fails = [](const std::string& part, const std::function<void()>& call) {
    expect_error(ErrorCode::kInvalidArgument, {part}, call);
  };
  if (STRATA_TEST_JPEG) {
    fails("got channels 4; expected 0, 1 or 3", [] { (void)decode_jpeg("", {.channels = 4}); });
    fails("got quality 101", [] { (void)encode_jpeg(picture(2, 2, 3), {.quality = 101}); });
    fails("expected at least one pixel, and 1 or 3", [] { (void)encode_jpeg(picture(2, 2, 2)); });
    expect_error(ErrorCode::kDataLoss, {"got a CMYK image for 1 channel"},
                 [] { (void)load_image(golden_file("cmyk.jpg"), {.channels = 1}); });
  }
  if (STRATA_TEST_PNG) {
    fails("got channels 2; expected 0, 1, 3 or 4", [] { (void)decode_png("", {.channels = 2}); });
    fails("got level 10", [] { (void)encode_png(picture(2, 2, 3), 10); });
    fails("got shape [2, 2, 5]", [] { (void)encode_png(picture(2, 2, 5)); });
    fails("got Float of shape [2, 2, 1]",
          [] { (void)encode_png(picture(2, 2, 1).to(at::kFloat)); });
    fails("got an undefined tensor", [] { (void)encode_png({}); });
  }
}

TEST(ImageFolderTest, DecodesWhatItFinds) {
  if (!STRATA_TEST_PNG) return;
  test::TempFolder folder;
  for (const char* name : {"cats/1.png", "dogs/1.png", "dogs/2.png"}) {
    const std::string path = join_path(folder.path(), name);
    local_file_system().make_folders(path.substr(0, path.rfind('/')));
    write_file(path, encode_png(picture(2, 3, name[0] == 'c' ? 1 : 3)));
  }
  const ImageFolder found = image_folder(folder.path());
  std::vector<std::string> shapes;
  for (const Example& e : found.images({.channels = 1}))
    shapes.push_back(str_cat(e.x().sizes(), " ", e.y().item<int64_t>()));
  EXPECT_EQ(shapes, (std::vector<std::string>{"[2, 3, 1] 0", "[2, 3, 1] 1", "[2, 3, 1] 1"}));
}

// ---- operations ----

TEST(ImageOpsTest, ResizeOfACropNeedsNoCopy) {
  const at::Tensor image = picture(40, 50, 3);
  const at::Tensor window = crop(image, 7, 3, 20, 30);
  EXPECT_TRUE(window.is_alias_of(image));
  for (const auto method : {ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kArea})
    EXPECT_TRUE(at::equal(resize(window, 9, 11, {.method = method}),
                          resize(window.contiguous(), 9, 11, {.method = method})));
}

TEST(ImageOpsTest, BatchesAreImages) {
  const at::Tensor a = picture(12, 10, 3), b = a.flip(0).contiguous();
  const at::Tensor batch = at::stack({a, b});
  const auto both = [&](const std::function<at::Tensor(const at::Tensor&)>& fn) {
    EXPECT_TRUE(at::allclose(fn(batch), at::stack({fn(a), fn(b)})));
  };
  both([](const at::Tensor& i) { return resize(i, 5, 17); });
  both([](const at::Tensor& i) { return resize(i, 5, 17, {.antialias = true}); });
  both([](const at::Tensor& i) { return central_crop(i, 0.5); });
  both([](const at::Tensor& i) { return flip_left_right(i); });
  both([](const at::Tensor& i) { return pad(i, 1, 2, 3, 4, 9); });
  both([](const at::Tensor& i) { return per_image_standardization(i); });
  both([](const at::Tensor& i) { return normalize(i, {1, 2, 3}, {2}); });
}

TEST(ImageOpsTest, Normalize) {
  const at::Tensor image = picture(4, 5, 3);
  const at::Tensor wanted =
      (image.to(at::kFloat) - at::tensor({10.0F, 20.0F, 30.0F})) / at::tensor({2.0F, 4.0F, 8.0F});
  EXPECT_TRUE(at::equal(normalize(image, {10, 20, 30}, {2, 4, 8}), wanted));
  EXPECT_TRUE(at::equal(normalize(image, {0}, {255}), image.to(at::kFloat) / 255));
}

struct Numbers {
  std::vector<double> list;
  size_t next = 0;
  double uniform() { return list[next++]; }
};

TEST(ImageOpsTest, RandomOnesTakeTheirNumbersFromTheCaller) {
  const at::Tensor image = picture(10, 12, 3);
  Numbers numbers{{0.5, 0.999999}};
  EXPECT_TRUE(at::equal(random_crop(image, 4, 5, numbers), crop(image, 3, 7, 4, 5)));
  EXPECT_EQ(numbers.next, 2u);
  EXPECT_TRUE(at::equal(random_crop(image, 4, 5, [] { return 0.0; }), crop(image, 0, 0, 4, 5)));
  EXPECT_TRUE(at::equal(random_crop(image, 10, 12, [] { return 0.7; }), image));
  EXPECT_TRUE(at::equal(random_flip(image, [] { return 0.49; }), image.flip(1)));
  EXPECT_TRUE(at::equal(random_flip(image, [] { return 0.5; }), image));
  EXPECT_TRUE(at::equal(random_flip(
                            image, [] { return 0.89; }, 0.9),
                        image.flip(1)));
}

TEST(ImageOpsTest, RandomNumbersOfAnElementWillDo) {
  const at::Tensor image = picture(30, 40, 3);
  const auto augmented = [&](uint64_t index) {
    RandomNumbers random(ElementKey{.seed = 1, .epoch = 2, .index = index});
    return random_flip(random_crop(image, 20, 20, random), random);
  };
  EXPECT_TRUE(at::equal(augmented(5), augmented(5)));
  EXPECT_FALSE(at::equal(augmented(5), augmented(6)));
}

TEST(ImageOpsTest, Errors) {
  const at::Tensor image = picture(10, 12, 3);
  const auto fails = [](const std::string& part, const std::function<void()>& call) {
    expect_error(ErrorCode::kInvalidArgument, {part}, call);
  };
  fails("[data] resize: got Long of shape [2, 2, 2]", [] {
    (void)resize(at::ones({2, 2, 2}, at::kLong), 1, 1);
  });
  fails("[data] resize: got an undefined tensor", [] { (void)resize({}, 1, 1); });
  fails("[data] flip_left_right: got Byte of shape [4]",
        [] { (void)flip_left_right(at::ones({4}, at::kByte)); });
  fails("resize: got 0 x 5", [&] { (void)resize(image, 0, 5); });
  fails("got 4 x 5 at (7, 0) of an image of 10 x 12", [&] { (void)crop(image, 7, 0, 4, 5); });
  fails("got 4 x 5 at (0, -1)", [&] { (void)crop(image, 0, -1, 4, 5); });
  fails("got fraction 0", [&] { (void)central_crop(image, 0); });
  fails("pad: got -1", [&] { (void)pad(image, -1, 0, 0, 0); });
  fails("got 2 means and 1 deviations; expected 1 or 3", [&] {
    (void)normalize(image, {1, 2}, {1});
  });
  fails("got deviation 0", [&] { (void)normalize(image, {1}, {0}); });
  fails("got 11 x 5 of an image of 10 x 12",
        [&] { (void)random_crop(image, 11, 5, [] { return 0.0; }); });
  fails("expected one image",
        [&] { (void)random_crop(image.unsqueeze(0), 1, 1, [] { return 0.0; }); });
}

}  // namespace
}  // namespace strata::data
