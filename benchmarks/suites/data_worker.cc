// strata's side of suite data: `strata bench data-worker --case C --data FOLDER` makes batches on a
// pipe (benchmarks/peers/README.md).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/data/dataset.h"
#include "strata/data/example.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_distortion.h"
#include "strata/data/image_ops.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/data.h"
#include "suites/options.h"
#include "suites/serve.h"
#include "tools/command_line.h"

namespace strata::bench {
namespace {

using data::Dataset;
using data::Example;

at::Tensor read_tensor(const std::string& path, at::IntArrayRef row, at::ScalarType type) {
  const auto file = file_system_of(path).open(path);
  std::vector<int64_t> sizes = {-1};
  sizes.insert(sizes.end(), row.begin(), row.end());
  at::Tensor bytes = at::empty({static_cast<int64_t>(file->size())}, at::kByte);
  file->read(0, {static_cast<std::byte*>(bytes.mutable_data_ptr()), file->size()});
  return bytes.view(type).view(sizes);
}

Dataset shuffle_batch(const std::string& folder) {
  const Example mnist{read_tensor(join_path(folder, "images"), {28, 28}, at::kByte),
                      read_tensor(join_path(folder, "labels"), {}, at::kLong)};
  return Dataset::from_tensor_slices(mnist).shuffle(mnist.num_rows()).repeat().batch(128);
}

Dataset records(const std::string& folder) {
  return data::tf_records({join_path(folder, "records")}).repeat();
}

Dataset parsed_records(const std::string& folder) {
  const data::ExampleParser parser({{"image", data::FixedLenFeature{data::FeatureType::kBytes}},
                                    {"label", data::FixedLenFeature{data::FeatureType::kInt64}}});
  return records(folder)
      .map([parser](Example record) {
        Example example = parser(record);
        example.fields[0] = example.x().view({28, 28});
        return example;
      })
      .batch(128);
}

/// Batches of what is made of a folder's files, again and again.
Dataset mapped_files(const std::string& folder, data::KeyedMapFunction decode,
                     int64_t num_parallel_calls) {
  std::vector<at::Tensor> paths;
  for (const std::string& name : local_file_system().list(folder)) {
    paths.push_back(data::bytes_tensor(join_path(folder, name)));
  }
  return Dataset::from_tensor_slices({at::stack(paths)})
      .repeat()
      .map(std::move(decode), {.num_parallel_calls = num_parallel_calls, .seed = 1})
      .batch(kJpegBatch);
}

/// As Inception's input: a random window of each image, decoded alone.
Dataset distorted_jpegs(const std::string& folder) {
  const auto decode = [](Example example, const data::ElementKey& key) {
    const std::string bytes = read_file(std::string(data::to_string(example.x())));
    const data::ImageInfo info = data::image_info(bytes);
    data::RandomNumbers random(key);
    const data::ImageBox window = data::sample_distorted_box(info.height, info.width, {}, random);
    const at::Tensor image = data::decode_jpeg(bytes, {.channels = 3, .window = window});
    return Example{data::random_flip(data::resize(image, kJpegSize, kJpegSize), random)};
  };
  return mapped_files(folder, decode, data::kAutotune);
}

}  // namespace

Dataset decoded_jpegs(const std::string& folder, int64_t num_parallel_calls) {
  const auto decode = [](Example example, const data::ElementKey& key) {
    const at::Tensor image = data::load_image(data::to_string(example.x()), {.channels = 3});
    data::RandomNumbers random(key);
    return Example{data::random_flip(data::resize(image, kJpegSize, kJpegSize), random)};
  };
  return mapped_files(folder, decode, num_parallel_calls);
}

int run_data_worker(const std::vector<std::string>& arguments) {
  tensor::install_cpu_allocator();  // as every strategy does
  std::string name;
  std::string folder;
  tools::CommandLine line("strata bench data-worker", {});
  line.text("--case", "C", "", name);
  line.text("--data", "FOLDER", "", folder);
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  std::optional<Dataset> dataset;
  if (name == "shuffle-batch") dataset = shuffle_batch(folder);
  if (name == "jpeg") dataset = decoded_jpegs(join_path(folder, "jpeg"), data::kAutotune);
  if (name == "distorted-jpeg") dataset = distorted_jpegs(join_path(folder, "jpeg"));
  if (name == "tfrecord") dataset = records(folder).batch(128);
  if (name == "tfrecord-parse") dataset = parsed_records(folder);
  STRATA_CHECK(dataset, kInvalidArgument, "[strata bench] data-worker: got case ", name,
               "; expected shuffle-batch, jpeg, distorted-jpeg, tfrecord or tfrecord-parse");
  data::Iterator batches = dataset->prefetch(2).iterator();
  const auto take = [&](long count) {
    double rows = 0;
    for (long i = 0; i < count; ++i) rows += static_cast<double>(batches.next()->num_rows());
    return rows;
  };
  serve(take, [&] { take(kUntimedBatches); });
  return 0;
}

}  // namespace strata::bench
