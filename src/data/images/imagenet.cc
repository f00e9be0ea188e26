#include "strata/data/imagenet.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/data/image_codec.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"

namespace strata::data {
namespace {

constexpr const char* kSides[] = {"image/object/bbox/ymin", "image/object/bbox/xmin",
                                  "image/object/bbox/ymax", "image/object/bbox/xmax"};

/// Values of one kind; none, if the feature is missing.
template <typename T>
std::vector<T> values_of(const TfExample& example, const std::string& name) {
  const auto found = example.find(name);
  if (found == example.end()) return {};
  const auto* const values = std::get_if<std::vector<T>>(&found->second.values);
  return values == nullptr ? std::vector<T>() : *values;
}

template <typename T>
T value_of(const TfExample& example, const std::string& name) {
  std::vector<T> values = values_of<T>(example, name);
  STRATA_CHECK(values.size() == 1, kDataLoss, "[data] parse_image_record: got ", values.size(),
               " values of ", name, "; expected one, as in ImageNet's records");
  return std::move(values[0]);
}

/// Values from -1 to 1.
at::Tensor scaled(const at::Tensor& image) { return image.to(at::kFloat).mul_(1 / 127.5).sub_(1); }

std::string shard_name(const ImageRecordFiles& files, int64_t shard) {
  char numbers[64];
  std::snprintf(numbers, sizeof(numbers), "-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(files.shards));
  return files.prefix + numbers;
}

}  // namespace

std::string serialize_image_record(const ImageRecord& record) {
  const ImageInfo info = image_info(record.encoded, record.filename);
  TfExample example = {{"image/encoded", TfFeature::bytes({record.encoded})},
                       {"image/format", TfFeature::bytes({info.format})},
                       {"image/height", TfFeature::int64s({info.height})},
                       {"image/width", TfFeature::int64s({info.width})},
                       {"image/channels", TfFeature::int64s({info.channels})},
                       {"image/filename", TfFeature::bytes({record.filename})},
                       {"image/class/label", TfFeature::int64s({record.label + 1})},
                       {"image/class/text", TfFeature::bytes({record.text})}};
  std::vector<float> sides[4];
  for (const RelativeBox& object : record.objects) {
    const float of_box[] = {object.top, object.left, object.bottom, object.right};
    for (size_t s = 0; s < 4; ++s) sides[s].push_back(of_box[s]);
  }
  for (size_t s = 0; s < 4; ++s) example[kSides[s]] = TfFeature::floats(std::move(sides[s]));
  return serialize_example(example);
}

ImageRecord parse_image_record(std::string_view bytes) {
  const TfExample example = decode_example(bytes);
  ImageRecord record{.encoded = value_of<std::string>(example, "image/encoded"),
                     .label = value_of<int64_t>(example, "image/class/label") - 1};
  const auto text = values_of<std::string>(example, "image/class/text");
  if (!text.empty()) record.text = text[0];
  const auto filename = values_of<std::string>(example, "image/filename");
  if (!filename.empty()) record.filename = filename[0];
  std::vector<float> sides[4];
  for (size_t s = 0; s < 4; ++s) {
    sides[s] = values_of<float>(example, kSides[s]);
    STRATA_CHECK(sides[s].size() == sides[0].size(), kDataLoss, "[data] parse_image_record: got ",
                 sides[0].size(), ' ', kSides[0], " and ", sides[s].size(), ' ', kSides[s],
                 "; expected as many of each");
  }
  for (size_t i = 0; i < sides[0].size(); ++i) {
    record.objects.push_back({sides[0][i], sides[1][i], sides[2][i], sides[3][i]});
  }
  return record;
}

std::vector<std::string> write_image_records(const ImageFolder& folder,
                                             const ImageRecordFiles& files) {
  const auto count = static_cast<int64_t>(folder.paths.size());
  STRATA_CHECK(count > 0, kInvalidArgument,
               "[data] write_image_records: got a folder without images");
  STRATA_CHECK(files.shards > 0 && files.shards <= std::min<int64_t>(count, 100'000),
               kInvalidArgument, "[data] write_image_records: got ", files.shards, " shards for ",
               count, " images; expected 1 to as many as there are images, and 100000 at most");
  std::vector<size_t> order(folder.paths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  RandomNumbers random(ElementKey{.seed = files.seed});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);

  file_system_of(files.prefix).make_folders(split_path(files.prefix).first);
  std::vector<std::string> paths;
  int64_t done = 0;
  for (int64_t shard = 0; shard < files.shards; ++shard) {
    paths.push_back(shard_name(files, shard));
    TfRecordWriter writer(paths.back());
    for (size_t i = static_cast<size_t>(shard); i < order.size();
         i += static_cast<size_t>(files.shards)) {
      const std::string& path = folder.paths[order[i]];
      const int64_t label = folder.labels[order[i]];
      ImageRecord record{.encoded = read_file(path),
                         .label = label,
                         .text = folder.class_names[static_cast<size_t>(label)],
                         .filename = split_path(path).second};
      if (files.check) decode_image(record.encoded, {.name = path});
      writer.write(serialize_image_record(record));
      if (files.progress) files.progress(++done, count);
    }
    writer.close();
  }
  return paths;
}

at::Tensor training_image(const ImageRecord& record, RandomNumbers& random,
                          const ImageInputOptions& options) {
  const ImageInfo info = image_info(record.encoded, record.filename);
  const ImageBox window =
      sample_distorted_box(info.height, info.width, record.objects, random, options.box);
  const bool is_jpeg = std::string_view(info.format) == "JPEG";
  const int64_t least = options.decode_smaller ? options.size : 0;
  at::Tensor image = decode_image(record.encoded, {.channels = 3,
                                                   .min_height = least,
                                                   .min_width = least,
                                                   .window = is_jpeg ? window : ImageBox{},
                                                   .name = record.filename});
  if (!is_jpeg) image = crop(image, window.top, window.left, window.height, window.width);
  image =
      random_flip(resize(image, options.size, options.size, {.method = options.method}), random);
  if (options.distort_color)
    return distort_color(image.to(at::kFloat).div(255), random).mul_(2).sub_(1);
  return scaled(image);
}

at::Tensor evaluation_image(const ImageRecord& record, const ImageInputOptions& options) {
  const at::Tensor image = decode_image(record.encoded, {.channels = 3, .name = record.filename});
  return scaled(resize(central_crop(image, options.central_fraction), options.size, options.size,
                       {.method = options.method}));
}

}  // namespace strata::data
