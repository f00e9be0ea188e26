// Files that real Keras wrote (tests/golden/make_keras_files.py), read and written back.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "keras_files/check_weights.h"
#include "keras_files/describe.h"
#include "keras_files/golden.h"
#include "keras_files/keras_archive.h"
#include "keras_files/legacy_model.h"
#include "keras_files/model_layout.h"
#include "keras_files/optimizer_layout.h"
#include "keras_files/weights_file.h"
#include "keras_files/weights_image.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::keras_files {
namespace {

using test::golden_path;
using test::keras_golden;
using test::shape_of;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
double sum_as(const at::Tensor& tensor) {
  const T* values = static_cast<const T*>(tensor.const_data_ptr());
  double sum = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) sum += static_cast<double>(values[i]);
  return sum;
}

double sum_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return sum_as<float>(tensor);
    case at::kDouble:
      return sum_as<double>(tensor);
    case at::kHalf:
      return sum_as<at::Half>(tensor);
    case at::kBFloat16:
      return sum_as<at::BFloat16>(tensor);
    case at::kLong:
      return sum_as<int64_t>(tensor);
    default:
      ADD_FAILURE() << "no sum of " << tensor.scalar_type();
      return 0;
  }
}

TEST(KerasArchiveTest, HasWhatKerasSays) {
  for (const Json& model : keras_golden().at("models").as_array()) {
    const std::string file = model.at("file").as_string();
    SCOPED_TRACE(file);
    const KerasArchive archive = load_keras_archive(golden_path(file));
    EXPECT_EQ(archive.keras_version(), keras_golden().at("keras").as_string());
    EXPECT_FALSE(archive.is_keras_2());
    EXPECT_EQ(archive.config.at("class_name").as_string(), model.at("class").as_string());
    check_weights(archive.config, archive.weights, file);
    int64_t parameters = 0;
    for (const Json& object : model.at("objects").as_array()) {
      const std::string path = object.at("path").as_string();
      SCOPED_TRACE(path);
      const WeightsGroup& group = archive.weights.at(path);
      EXPECT_EQ(group.name, object.at("name").as_string());
      const auto& vars = object.at("vars").as_array();
      ASSERT_EQ(group.vars.size(), vars.size());
      for (size_t i = 0; i < vars.size(); ++i) {
        EXPECT_EQ(group.vars[i].sizes().vec(), shape_of(vars[i].at("shape")));
        const double sum = vars[i].at("sum").as_double();
        EXPECT_NEAR(sum_of(group.vars[i]), sum, 1e-9 * (1 + std::abs(sum)));
        parameters += group.vars[i].numel();
      }
    }
    EXPECT_EQ(parameters, model.at("parameters").as_int());
  }
}

TEST(KerasArchiveTest, HasTheOptimizersStateInKerasOrder) {
  int compared = 0;
  for (const Json& model : keras_golden().at("models").as_array()) {
    const Json* expected = model.find("optimizer");
    if (expected == nullptr) continue;
    const std::string file = model.at("file").as_string();
    SCOPED_TRACE(file);
    const KerasArchive archive = load_keras_archive(golden_path(file));
    const auto& vars = archive.weights.at("optimizer").vars;
    std::vector<std::vector<int64_t>> shapes;
    for (const VariablePlace& place : trainable_variables(archive.config)) {
      const auto index = static_cast<size_t>(place.index);
      shapes.push_back(archive.weights.at(place.path).vars[index].sizes().vec());
    }
    const auto slots = optimizer_slots(archive.config.at("compile_config").at("optimizer"), shapes);
    ASSERT_EQ(slots.size(), vars.size());
    ASSERT_EQ(slots.size(), expected->as_array().size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto& variable = expected->as_array()[i].as_array();
      if (slots[i].kind != "u_product") {  // Keras gives it no name
        EXPECT_TRUE(variable[0].as_string().ends_with(slots[i].kind)) << variable[0].as_string();
      }
      EXPECT_EQ(slots[i].shape, vars[i].sizes().vec());
      EXPECT_EQ(slots[i].shape, shape_of(variable[1]));
    }
    EXPECT_EQ(vars[0].scalar_type(), at::kLong);
    EXPECT_EQ(sum_of(vars[0]), model.at("iterations").as_double());
    ++compared;
  }
  EXPECT_GE(compared, 5);
}

TEST(KerasArchiveTest, IsWrittenBackAsItWas) {
  const test::TempFolder folder;
  for (const Json& model : keras_golden().at("models").as_array()) {
    const std::string file = model.at("file").as_string();
    SCOPED_TRACE(file);
    const KerasArchive archive = load_keras_archive(golden_path(file));
    const std::string path = folder.path() + '/' + file;
    save_keras_archive(archive, path);
    const KerasArchive again = load_keras_archive(path);
    EXPECT_EQ(again.metadata, archive.metadata);
    EXPECT_EQ(again.config, archive.config);
    EXPECT_TRUE(equal(again.weights, archive.weights));
    EXPECT_EQ(read_file(path), serialize_keras_archive(archive)) << "equal input, equal bytes";
    EXPECT_EQ(local_file_system().list(folder.path()), std::vector<std::string>{file});
    local_file_system().remove(path);
  }
}

TEST(KerasArchiveTest, ReadsWhatTfKerasWrote) {
  const KerasArchive archive = load_keras_archive(golden_path("keras_files_tf_keras.keras"));
  EXPECT_TRUE(archive.is_keras_2());
  check_weights(archive.config, archive.weights, "old");
  EXPECT_EQ(archive.weights.at("layers/batch_normalization").vars.size(), 4U);
  EXPECT_EQ(archive.weights.at("optimizer").vars.size(), 11U);  // no learning rate
}

TEST(KerasArchiveTest, KeepsAssetsAndRefusesThoseThatLeadOut) {
  KerasArchive archive = load_keras_archive(golden_path("keras_files_mlp.keras"));
  archive.assets["layers/string_lookup/vocabulary.txt"] = "a\nb\n";
  const std::string bytes = serialize_keras_archive(archive);
  const KerasArchive again = parse_keras_archive(bytes_of(bytes), "memory");
  EXPECT_EQ(again.assets, archive.assets);
  const KerasArchive light = parse_keras_archive(bytes_of(bytes), "memory", {.weights = false});
  EXPECT_EQ(light.config, archive.config);
  EXPECT_TRUE(light.weights.groups.empty());
  archive.assets["../x"] = "";
  expect_error([&] { serialize_keras_archive(archive); },
               "[keras_files] save: got the asset '../x', which leads out of the archive");
}

TEST(WeightsFileTest, IsTheTreeOfTheArchive) {
  const KerasArchive archive = load_keras_archive(golden_path("keras_files_mlp.keras"));
  const WeightsGroup weights = load_weights_file(golden_path("keras_files_mlp.weights.h5"));
  EXPECT_TRUE(equal(weights.at("layers"), archive.weights.at("layers")));
  const test::TempFolder folder;
  const std::string path = folder.path() + "/a.weights.h5";
  save_weights_file(weights, path);
  EXPECT_TRUE(equal(load_weights_file(path), weights));
  EXPECT_EQ(read_file(path), serialize_weights(weights));
}

TEST(WeightsFileTest, GoesThroughATemporaryFileWhereItIsLarge) {
  const WeightsGroup weights = load_weights_file(golden_path("keras_files_mlp.weights.h5"));
  const auto image = make_weights_image(weights, /*max_in_memory=*/0);
  std::string bytes(image->size(), '\0');
  ASSERT_EQ(image->read(0, std::as_writable_bytes(std::span(bytes))), bytes.size());
  EXPECT_TRUE(equal(parse_weights(bytes_of(bytes), "image"), weights));
}

TEST(WeightsFileTest, JoinsShards) {
  const WeightsGroup weights = load_weights_file(golden_path("keras_files_mlp.weights.h5"));
  WeightsGroup first, second;
  first.make("layers/dense") = weights.at("layers/dense");
  second.make("layers/dense_1") = weights.at("layers/dense_1");
  const test::TempFolder folder;
  save_weights_file(first, folder.path() + "/m_00000.weights.h5");
  save_weights_file(second, folder.path() + "/m_00001.weights.h5");
  const std::string index = folder.path() + "/m.weights.json";
  const std::string text =
      R"({"weight_map": {"/layers/dense/vars": "m_00000.weights.h5",
                         "/layers/dense_1/vars": ["m_00001.weights.h5"]}})";
  auto file = local_file_system().create(index);
  file->append(bytes_of(text));
  file->close();
  const WeightsGroup joined = load_weights_file(index);
  EXPECT_TRUE(equal(joined.at("layers/dense"), weights.at("layers/dense")));
  EXPECT_TRUE(equal(joined.at("layers/dense_1"), weights.at("layers/dense_1")));
}

TEST(WeightsFileTest, ReadsEveryDtypeOrderAndFilter) {
  const WeightsGroup group =
      load_weights_file(golden_path("keras_files_dtypes.weights.h5")).at("layers/dense");
  const at::ScalarType expected[] = {
      at::kDouble, at::kFloat,  at::kHalf, at::kDouble,   at::kFloat,  at::kHalf,   at::kLong,
      at::kInt,    at::kShort,  at::kChar, at::kByte,     at::kUInt16, at::kUInt32, at::kUInt64,
      at::kLong,   at::kUInt16, at::kBool, at::kBFloat16, at::kFloat,  at::kFloat,  at::kFloat};
  ASSERT_EQ(group.vars.size(), std::size(expected));
  for (size_t i = 0; i < group.vars.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(group.vars[i].scalar_type(), expected[i]);
    if (i >= 19) continue;
    ASSERT_EQ(group.vars[i].sizes(), at::IntArrayRef({2, 3, 4}));
    for (int64_t k = 0; k < 24; ++k) {
      const auto value = group.vars[i].reshape({24})[k].item<double>();
      EXPECT_EQ(value, expected[i] == at::kBool ? k % 3 == 0 : k);
    }
  }
  EXPECT_EQ(group.vars[19].dim(), 0);
  EXPECT_EQ(group.vars[19].item<float>(), 5);
  EXPECT_EQ(group.vars[20].sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(group.named_vars.at("idf_weights").sizes(), at::IntArrayRef({3, 4}));
}

TEST(WeightsFileTest, ReadsEveryLayout) {
  const WeightsGroup weights = load_weights_file(golden_path("keras_files_layouts.weights.h5"));
  const std::vector<at::Tensor>& vars = weights.at("layers/dense").vars;
  const std::vector<std::vector<int64_t>> shapes = {{5, 7}, {200}, {3, 5}, {3, 4, 5}, {4, 4}, {6}};
  ASSERT_EQ(vars.size(), shapes.size());
  for (size_t i = 0; i < vars.size(); ++i) {
    ASSERT_EQ(vars[i].sizes(), at::IntArrayRef(shapes[i])) << i;
    for (int64_t k = 0; k < vars[i].numel(); ++k) {
      EXPECT_EQ(vars[i].reshape({-1})[k].item<double>(), i == 4 ? 0 : k) << i;
    }
  }
  const WeightsGroup& ordered = weights.at("layers/ordered");
  EXPECT_EQ(ordered.name, "ordered");
  ASSERT_EQ(ordered.vars.size(), 3U);
  EXPECT_EQ(ordered.vars[2][2].item<float>(), 2);
}

TEST(WeightsFileTest, ReadsTheManyGroupsThatItWrites) {
  WeightsGroup weights;
  for (int i = 0; i < 700; ++i) {
    WeightsGroup& group = weights.make(str_cat("layers/dense_", i));
    group.name = str_cat("layer_", i, std::string(static_cast<size_t>(i % 50), 'x'));
    group.vars = {at::full({2}, i, at::TensorOptions().dtype(at::kFloat))};
  }
  const std::string bytes = serialize_weights(weights);
  EXPECT_TRUE(equal(parse_weights(bytes_of(bytes), "memory"), weights));
}

TEST(WeightsFileTest, WritesEveryDtypeAndAnyStrides) {
  WeightsGroup weights = load_weights_file(golden_path("keras_files_dtypes.weights.h5"));
  const std::string bytes = serialize_weights(weights);
  EXPECT_TRUE(equal(parse_weights(bytes_of(bytes), "memory"), weights));
  WeightsGroup turned;
  turned.vars = {weights.at("layers/dense").vars[1].permute({2, 0, 1})};
  const std::string turned_bytes = serialize_weights(turned);
  EXPECT_TRUE(equal(parse_weights(bytes_of(turned_bytes), "memory"), turned));
  turned.make("a").vars = {at::empty({2}, at::TensorOptions().dtype(at::kComplexFloat))};
  expect_error([&] { serialize_weights(turned); },
               "[keras_files] save: a/vars/0: got dtype ComplexFloat; expected float64, float32, "
               "float16, bfloat16, integers or bool");
  turned.make("a").vars = {at::Tensor()};
  expect_error([&] { serialize_weights(turned); },
               "[keras_files] save: a/vars/0: the tensor is undefined, sparse or quantized; "
               "expected a dense one");
}

TEST(LegacyModelTest, HasTheWeightsOfTheArchive) {
  const KerasArchive archive = load_keras_archive(golden_path("keras_files_mlp.keras"));
  const LegacyModel model = load_legacy_model(golden_path("keras_files_mlp.h5"));
  EXPECT_EQ(model.keras_version, keras_golden().at("keras").as_string());
  EXPECT_EQ(model.model_config.at("class_name").as_string(), "Sequential");
  EXPECT_FALSE(model.training_config.is_null());
  std::map<std::string, std::vector<at::Tensor>> by_name;
  for (const auto& layer : model.layers) {
    for (const auto& [name, tensor] : layer.weights) by_name[layer.name].push_back(tensor);
  }
  int compared = 0;
  for (const auto& [name, group] : archive.weights.at("layers").groups) {
    const auto& weights = by_name[*group.name];
    ASSERT_EQ(weights.size(), group.vars.size()) << *group.name;
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(weights[i].equal(group.vars[i]));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3);
}

TEST(WeightsGroupTest, FindsAndMakes) {
  WeightsGroup tree;
  tree.make("layers/dense").vars = {at::ones({2, 3})};
  EXPECT_EQ(tree.num_bytes(), 24);
  EXPECT_NE(tree.find("layers"), nullptr);
  EXPECT_EQ(tree.find("layers/conv"), nullptr);
  EXPECT_EQ(tree.find(""), &tree);
  expect_error([&] { tree.at("layers/conv/x"); }, ErrorCode::kNotFound,
               "[keras_files] weights: got no group 'layers/conv/x'; 'layers' holds dense");
  expect_error([&] { tree.make("a//b"); },
               "[keras_files] weights: got the group path 'a//b'; expected names divided by single "
               "'/', none of them '.' or 'vars'");
}

TEST(CheckWeightsTest, NamesWhatDoesNotFit) {
  KerasArchive archive = load_keras_archive(golden_path("keras_files_mlp.keras"));
  WeightsGroup& dense = archive.weights.make("layers/dense");
  const auto check = [&] { check_weights(archive.config, archive.weights, "m.keras"); };
  const std::vector<at::Tensor> vars = dense.vars;
  dense.vars[0] = at::ones({5, 4});
  expect_error(
      check, ErrorCode::kDataLoss,
      "[keras_files] m.keras: layers/dense/vars, of layer 'hidden' (Dense): kernel (0): got "
      "shape [5, 4]; expected [4, 5]");
  dense.vars = {vars[0]};
  expect_error(check, ErrorCode::kDataLoss,
               "[keras_files] m.keras: layers/dense/vars, of layer 'hidden' (Dense): got 1 "
               "variables; expected 2");
  archive.weights.groups["layers"].groups.erase("dense");
  expect_error(check, ErrorCode::kDataLoss,
               "[keras_files] m.keras: layers/dense/vars, of layer 'hidden' (Dense): got 0 "
               "variables; expected 2 (the group is missing)");
}

TEST(CheckWeightsTest, GroupsAreThoseOfTheArchive) {
  const KerasArchive archive = load_keras_archive(golden_path("keras_files_recurrent.keras"));
  const WeightsGroup groups = make_groups(archive.config);
  std::function<void(const WeightsGroup&, const WeightsGroup&)> compare =
      [&](const WeightsGroup& made, const WeightsGroup& read) {
        EXPECT_EQ(made.name, read.name);
        ASSERT_EQ(made.groups.size(), read.groups.size());
        for (const auto& [name, group] : made.groups) {
          ASSERT_TRUE(read.groups.contains(name)) << name;
          compare(group, read.groups.at(name));
        }
      };
  compare(groups.at("layers"), archive.weights.at("layers"));
}

TEST(DescribeTest, SaysWhatIsInTheArchive) {
  std::ostringstream out;
  const std::string path = golden_path("keras_files_mlp.keras");
  EXPECT_TRUE(describe_keras_archive(path, out));
  EXPECT_EQ(out.str(), path + R"(: Sequential, written by Keras 3.15.1
  mlp (Sequential)                         0
  hidden (Dense)                          25  kernel [4, 5]  bias [5]
  dropout (Dropout)                        0
  dense (Dense)                           15  kernel [5, 3]
parameters: 40, 40 trainable, 0 not
compiled: optimizer Adam, loss mse, metrics [mae]
optimizer: 8 variables: iteration, learning_rate, momentum, velocity; iteration 7
)");
}

TEST(DescribeTest, SaysWhatIsInAWholeModelOfHdf5) {
  std::ostringstream out;
  const std::string path = golden_path("keras_files_mlp.h5");
  describe_keras_h5(path, out);
  const std::string text = out.str();
  EXPECT_TRUE(text.starts_with(path + ": Sequential, written by Keras 3.15.1\n")) << text;
  for (const char* part : {"hidden: ", "kernel", "20  [4, 5]\n", "5  [5]\n", "  dropout\n",
                           "parameters: 40\n", "compiled: optimizer Adam, loss mse"}) {
    EXPECT_NE(text.find(part), text.npos) << part << " in\n" << text;
  }
}

TEST(DescribeTest, SaysWhatIsInAFileOfWeights) {
  std::ostringstream out;
  const std::string path = golden_path("keras_files_mlp.weights.h5");
  describe_keras_h5(path, out);
  const std::string text = out.str();
  EXPECT_TRUE(text.starts_with(path + ": weights alone\n")) << text;
  for (const char* part : {"/vars/0 ", "20  [4, 5]\n", "/vars/1 ", "values: "}) {
    EXPECT_NE(text.find(part), text.npos) << part << " in\n" << text;
  }
}

TEST(LegacyModelTest, MayBeWeightsAlone) {
  const std::string path = golden_path("keras_applications_weights_alone.h5");
  const LegacyModel model = load_legacy_model(path);
  EXPECT_TRUE(model.model_config.is_null());
  EXPECT_EQ(model.keras_version, keras_golden().at("keras").as_string());
  std::vector<size_t> counts;
  for (const LegacyModel::Layer& layer : model.layers) {
    if (!layer.weights.empty()) counts.push_back(layer.weights.size());
  }
  EXPECT_EQ(counts, (std::vector<size_t>{2, 4, 6, 2}));

  std::ostringstream out;
  describe_keras_h5(path, out);
  const std::string text = out.str();
  EXPECT_TRUE(text.starts_with(path + ": weights alone, written by Keras 3.15.1\n")) << text;
  for (const char* part : {"kernel", "parameters: ", "[3, 3, 2, 3]\n"}) {
    EXPECT_NE(text.find(part), text.npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find("compiled"), text.npos) << text;
}

}  // namespace
}  // namespace strata::keras_files
