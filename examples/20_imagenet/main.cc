// ResNet-50 on photographs, from ImageNet's records, by `fit` on several workers, with an
// evaluator.
//
//   build/release/strata make-records photos/train data/train        (and photos/val data/validation)
//   build/release/strata launch -n 2 --evaluator build/release/examples/20_imagenet data
//
//   --run FOLDER      checkpoints, and TensorBoard's files (imagenet_run). Started again, it goes on
//                     where it was, at the same image
//   --epochs 90 --batch 256 (of all replicas together) --size 224
//   --images 1281167  how many there are for training: for the steps of the learning rate
//   --weights FILE    to start from, such as those that Keras downloads
//
// Alone it validates after each epoch, in a cluster the evaluator does, beside the training:
//
//   worker:0    | Epoch 1/90
//   ...
//   evaluator:0 | 196/196 - 61s - accuracy: 0.07 - loss: 5.10 - sparse_top_k_...: 0.21
//
// Without a folder it draws discs and squares, 64 of them, for a look at how it runs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "strata/strata.h"
#include "support/arguments.h"

namespace callbacks = strata::callbacks;
namespace data = strata::data;
namespace keras = strata::keras;
using data::Example;

struct Options {
  std::string folder;
  std::map<std::string, std::string> own = {
      {"--run", "imagenet_run"}, {"--size", "224"}, {"--images", "1281167"}, {"--weights", ""}};
  examples::Arguments common;

  int64_t number(const std::string& name) const { return std::stoll(own.at(name)); }
};

Options parse(int argc, char** argv) {
  Options options;
  std::vector<char*> words(argv, argv + argc);
  if (words.size() > 1 && words[1][0] != '-') {
    options.folder = words[1];
    words.erase(words.begin() + 1);
  }
  for (auto& [name, value] : options.own) {
    const auto at = std::find(words.begin(), words.end(), name);
    if (at == words.end() || at + 1 == words.end()) continue;
    value = *(at + 1);
    words.erase(at, at + 2);
  }
  options.common = examples::parse(static_cast<int>(words.size()), words.data(),
                                   {.epochs = 90, .batch = 256, .devices = {}});
  return options;
}

// A disc or a square in a photograph's format.
data::ImageRecord draw(int64_t number) {
  const int64_t label = number % 2;
  const at::Tensor x = (at::arange(80) - 40 + number % 7).abs().view({1, -1, 1});
  const at::Tensor y = x.view({-1, 1, 1});
  const at::Tensor inside = label == 0 ? (x * x + y * y).lt(400) : at::maximum(x, y).lt(20);
  const at::Tensor image = at::where(inside, at::full({3}, 220), at::full({3}, 30));
  return {.encoded = data::encode_jpeg(image.to(at::kByte)), .label = label};
}

std::string draw_records(int64_t images) {
  const auto folder =
      std::filesystem::temp_directory_path() / strata::str_cat("strata_photographs_", ::getpid());
  std::filesystem::create_directories(folder);
  for (const std::string name : {"train", "validation"}) {
    data::TfRecordWriter file((folder / (name + "-00000-of-00001")).string());
    for (int64_t i = 0; i < images; ++i) file.write(data::serialize_image_record(draw(i)));
    file.close();
  }
  return folder.string();
}

data::Dataset records(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> files;
  for (const std::string& name : strata::file_system_of(folder).list(folder)) {
    if (name.starts_with(prefix)) files.push_back(strata::join_path(folder, name));
  }
  STRATA_CHECK(!files.empty(), kNotFound, "[imagenet] ", folder,
               ": got no file whose name begins with ", prefix,
               "; `strata make-records` writes them");
  return data::tf_records(files);
}

void train(const Options& options) {
  const auto cluster = strata::cluster::resolve_cluster();
  const bool draws = options.folder.empty();
  const int64_t images = draws ? 64 : options.number("--images");
  const std::string folder = draws ? draw_records(images) : options.folder;
  const data::ImageInputOptions input{.size = options.number("--size")};
  const int64_t batch = options.common.batch;
  const auto training =
      records(folder, "train")
          .shuffle(16384, {.seed = 1})
          .map(data::KeyedMapFunction([input](const Example& each, const data::ElementKey& key) {
                 const auto record = data::parse_image_record(data::to_string(each.x()));
                 data::RandomNumbers random(key);
                 return Example{data::training_image(record, random, input),
                                at::scalar_tensor(record.label, at::kLong)};
               }),
               {.num_parallel_calls = data::kAutotune, .seed = 2})
          .batch(batch, {.drop_remainder = true})
          .prefetch(2);
  const auto validation = records(folder, "validation")
                              .map([input](const Example& each) {
                                const auto record =
                                    data::parse_image_record(data::to_string(each.x()));
                                return Example{data::evaluation_image(record, input),
                                               at::scalar_tensor(record.label, at::kLong)};
                              })
                              .batch(batch);

  strata::MultiWorkerMirroredStrategy strategy({.devices = options.common.devices, .seed = 3});
  // Goyal et al., 2017: 0.1 for 256 images, in proportion to the batch, after five epochs of
  // warm-up.
  const double steps = static_cast<double>(images) / static_cast<double>(batch);
  const strata::schedules::CosineDecay rate{
      .initial_learning_rate = 0,
      .decay_steps = steps * std::max(options.common.epochs - 5, 1),
      .warmup_target = 0.1 * static_cast<double>(batch) / 256,
      .warmup_steps = steps * 5};
  auto model = strategy.scope([&] {
    const int64_t size = input.size;
    auto resnet = strata::applications::ResNet50({.input_shape = {size, size, 3}});
    if (!options.own.at("--weights").empty()) resnet.load_weights(options.own.at("--weights"));
    resnet.compile(
        {.optimizer = strata::optimizers::SGD(
             {.learning_rate = rate, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-4}),
         .loss = "sparse_categorical_crossentropy",
         .metrics = {"accuracy", strata::metrics::SparseTopKCategoricalAccuracy()}});
    return resnet;
  });

  const std::string run = options.own.at("--run");
  if (cluster && cluster->task.job == strata::cluster::kEvaluator) {
    keras::SidecarEvaluator evaluator(model, validation, run,
                                      {.max_evaluations = options.common.epochs});
    evaluator.start();
  } else {
    keras::FitOptions fit{
        .epochs = options.common.epochs,
        .callbacks = {callbacks::BackupAndRestore(run + "/backup"),
                      callbacks::ModelCheckpoint(run + "/ckpt-{epoch}.safetensors",
                                                 {.save_weights_only = true}),
                      callbacks::TensorBoard(run + "/logs")}};
    if (!cluster) fit.validation_data = validation;
    model.fit(training, fit);
  }
  if (draws) std::filesystem::remove_all(folder);
}

int main(int argc, char** argv) {
  return strata::run_main([&] { train(parse(argc, argv)); });
}
