#include "tools/study/study_input.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/data/image_folder.h"
#include "strata/data/imagenet.h"
#include "strata/data/tf_record.h"

namespace strata::tools {
namespace {

using data::Dataset;
using data::Example;

/// As strata make-records, and Inception's scripts, name them.
std::vector<std::string> record_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string& name : file_system_of(folder).list(folder)) {
    if (name.starts_with("train-") && name.find("-of-") != std::string::npos) {
      files.push_back(join_path(folder, name));
    }
  }
  std::ranges::sort(files);
  return files;
}

data::MapOptions in_parallel() { return {.num_parallel_calls = data::kAutotune, .seed = 2}; }

void check_label(const Configuration& configuration, int64_t label) {
  STRATA_CHECK(label >= 0 && label < configuration.classes, kInvalidArgument,
               "[strata study] got an image of class ", label, " for a network of ",
               configuration.classes, " classes; expected --classes ", label + 1, " at least");
}

Example network_input(const Configuration& configuration, const data::ImageRecord& record,
                      const data::ElementKey& key) {
  check_label(configuration, record.label);
  data::RandomNumbers random(key);
  return Example{data::training_image(record, random, {.size = configuration.image_size}),
                 at::scalar_tensor(record.label, at::kLong)};
}

Dataset from_records(const Configuration& configuration, const std::vector<std::string>& files) {
  return data::tf_records(files)
      .repeat()
      .shuffle(1024, {.seed = 1})
      .map(
          data::KeyedMapFunction([configuration](const Example& each, const data::ElementKey& key) {
            return network_input(configuration, data::parse_image_record(data::to_string(each.x())),
                                 key);
          }),
          in_parallel());
}

Dataset from_folders(const Configuration& configuration) {
  const data::ImageFolder folder = data::image_folder(configuration.data);
  const auto images = static_cast<int64_t>(folder.paths.size());
  return folder.files()
      .repeat()
      .shuffle(images, {.seed = 1})
      .map(
          data::KeyedMapFunction([configuration](const Example& each, const data::ElementKey& key) {
            return network_input(configuration,
                                 {.encoded = read_file(data::to_string(each.x())),
                                  .label = each.y().item<int64_t>()},
                                 key);
          }),
          in_parallel());
}

}  // namespace

void check_study_data(const Configuration& configuration) {
  if (configuration.is_synthetic()) return;
  STRATA_CHECK(std::filesystem::is_directory(configuration.data), kNotFound,
               "[strata study] got --data ", configuration.data,
               ", which is no folder; expected synthetic, or a folder");
  if (record_files(configuration.data).empty()) (void)data::image_folder(configuration.data);
}

Dataset study_input(const Configuration& configuration, int64_t global_batch) {
  if (configuration.is_synthetic()) {
    at::manual_seed(7);
    const int64_t size = configuration.image_size;
    const at::Tensor images = at::rand({global_batch, size, size, 3}) * 2 - 1;
    const at::Tensor labels = at::randint(configuration.classes, {global_batch}, at::kLong);
    return Dataset::from_tensors(Example{images, labels}).repeat();
  }
  check_study_data(configuration);
  const std::vector<std::string> files = record_files(configuration.data);
  const Dataset images =
      files.empty() ? from_folders(configuration) : from_records(configuration, files);
  return images.batch(global_batch, {.drop_remainder = true}).prefetch(2);
}

}  // namespace strata::tools
