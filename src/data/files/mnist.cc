#include "strata/data/mnist.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::data {
namespace {

namespace fs = std::filesystem;

// `name` as it is or gzipped; empty if neither is there.
std::string find_file(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    fs::path file = folder / (name + suffix);
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return file.string();
  }
  return {};
}

constexpr char kTrainImages[] = "train-images-idx3-ubyte";

std::string file_in(const fs::path& folder, const std::string& name, const char* call) {
  std::string file = find_file(folder, name);
  STRATA_CHECK(!file.empty(), kNotFound, "[data] ", call, ": ", folder.string(), " has no ", name,
               " or ", name,
               ".gz; expected the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte");
  return file;
}

Example load_part(const fs::path& folder, const std::string& part, const char* call) {
  const std::string images = file_in(folder, part + "-images-idx3-ubyte", call);
  const std::string labels = file_in(folder, part + "-labels-idx1-ubyte", call);
  const at::Tensor x = read_idx_file(images);
  const at::Tensor y = read_idx_file(labels);
  STRATA_CHECK(x.scalar_type() == at::kByte && x.dim() == 3 && x.size(1) == 28 && x.size(2) == 28,
               kDataLoss, "[data] ", call, ": got ", x.scalar_type(), " of shape ", x.sizes(),
               " in ", images, "; expected Byte of shape [n, 28, 28]");
  STRATA_CHECK(y.scalar_type() == at::kByte && y.dim() == 1 && y.size(0) == x.size(0), kDataLoss,
               "[data] ", call, ": got ", y.scalar_type(), " of shape ", y.sizes(), " in ", labels,
               "; expected Byte of shape [", x.size(0), "], a label an image");
  constexpr int kClasses = 10;
  const int highest = y.numel() == 0 ? 0 : y.max().item<int>();
  STRATA_CHECK(highest < kClasses, kDataLoss, "[data] ", call, ": got label ", highest, " in ",
               labels, "; expected 0 to 9");
  return {x, y.to(at::kLong)};
}

Mnist load(const fs::path& folder, const char* call) {
  return {load_part(folder, "train", call), load_part(folder, "t10k", call)};
}

// The first of `places` that holds a training set.
Mnist load_first(const std::vector<fs::path>& places, const char* call, const char* hint) {
  for (const auto& place : places) {
    if (!find_file(place, kTrainImages).empty()) return load(place, call);
  }
  const std::string looked_at = join(places, [](const fs::path& place) { return place.string(); });
  throw Error(ErrorCode::kNotFound, str_cat("[data] ", call, ": got no ", kTrainImages, "[.gz] in ",
                                            looked_at, "; ", hint));
}

// The environment variable as a path; an empty one where it is not set.
fs::path path_variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only; no thread calls setenv while loading data
  const char* value = std::getenv(name);
  return value != nullptr ? fs::path(value) : fs::path();
}

std::vector<fs::path> user_places(const char* name) {
  const fs::path datasets = path_variable("STRATA_DATASETS");
  if (datasets.empty()) return {};
  return {datasets / name};
}

Dataset float_dataset(const Example& part) {
  return Dataset::from_tensor_slices(scale_pixels(part));
}

}  // namespace

Dataset Mnist::train_dataset() const { return float_dataset(train); }
Dataset Mnist::test_dataset() const { return float_dataset(test); }

Example scale_pixels(Example example) {
  STRATA_CHECK(example.x().scalar_type() == at::kByte, kInvalidArgument,
               "[data] scale_pixels: got ", example.x().scalar_type(),
               " images; expected Byte in 0..255; floats are left alone by leaving this call out");
  example.fields[0] = example.x().to(at::kFloat).div_(255);
  return example;
}

Mnist load_mnist(const std::string& folder) {
  if (!folder.empty()) return load(folder, "load_mnist");
  std::vector<fs::path> places = user_places("mnist");
  const std::string source_datasets = STRATA_SOURCE_DATASETS;  // empty in packages
  if (!source_datasets.empty()) places.emplace_back(source_datasets + "/mnist");
  // A wheel in a virtual environment.
  const fs::path environment = path_variable("VIRTUAL_ENV");
  if (!environment.empty()) places.push_back(environment / "share/strata/datasets/mnist");
  places.emplace_back(STRATA_INSTALL_DATASETS "/mnist");
  return load_first(places, "load_mnist",
                    "set STRATA_DATASETS to the folder above mnist/, or pass the folder");
}

Mnist load_fashion_mnist(const std::string& folder) {
  if (!folder.empty()) return load(folder, "load_fashion_mnist");
  std::vector<fs::path> places = user_places("fashion-mnist");
  places.emplace_back("/usr/share/datasets/fashion-mnist");
  return load_first(
      places, "load_fashion_mnist",
      "install it (Debian: apt-get install dataset-fashion-mnist), or pass the folder");
}

}  // namespace strata::data
