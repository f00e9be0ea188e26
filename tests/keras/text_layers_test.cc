// Layers of texts and categories: tests/golden/keras_texts.json has what Keras's give, keras_texts_*.keras models with
// such layers.

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "data/hashes.h"
#include "strata/data/text_file.h"
#include "strata/data/texts.h"
#include "strata/graph/function.h"
#include "strata/keras/layer_assets.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/hashing.h"
#include "strata/keras/layers/lookups.h"
#include "strata/keras/layers/text_vectorization.h"
#include "strata/keras/model.h"
#include "strata/keras/saving.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/expect_error.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata::layers {
namespace {

using Texts = std::vector<std::string>;

Json read_golden(const std::string& name) {
  std::ifstream file(test::source_path("tests/golden/" + name));
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

/// Sizes and elements of a nested list, which may be one element.
struct Nested {
  std::vector<int64_t> sizes;
  std::vector<Json> elements;

  explicit Nested(const Json& json) { add(json, 0); }

 private:
  void add(const Json& json, size_t depth) {
    if (!json.is_array()) {
      elements.push_back(json);
      return;
    }
    if (sizes.size() <= depth) sizes.push_back(static_cast<int64_t>(json.as_array().size()));
    for (const Json& each : json.as_array()) add(each, depth + 1);
  }
};

/// Texts, or integers.
at::Tensor tensor_of(const Json& json) {
  const Nested nested(json);
  std::vector<int64_t> sizes = nested.sizes;
  if (nested.elements.at(0).is_string()) {
    Texts texts;
    for (const Json& each : nested.elements) texts.push_back(each.as_string());
    const at::Tensor tensor = data::text_tensor(texts);
    sizes.push_back(tensor.size(-1));
    return tensor.reshape(sizes);
  }
  std::vector<int64_t> integers;
  for (const Json& each : nested.elements) integers.push_back(each.as_int());
  return at::tensor(integers, at::kLong).reshape(sizes);
}

/// What Keras gave: {"shape", "data"}, or a nested list of texts.
void expect_output(const at::Tensor& got, const Json& wanted) {
  if (!wanted.is_object()) {
    const Nested nested(wanted);
    std::vector<int64_t> sizes = got.sizes().vec();
    sizes.pop_back();
    EXPECT_EQ(sizes, nested.sizes);
    Texts texts;
    for (const Json& each : nested.elements) texts.push_back(each.as_string());
    EXPECT_EQ(data::texts_of(got), texts);
    return;
  }
  std::vector<int64_t> shape;
  keras::from_config(wanted.at("shape"), shape);
  std::vector<double> values;
  for (const Json& each : wanted.at("data").as_array()) values.push_back(each.as_double());
  ASSERT_EQ(got.sizes(), shape);
  const at::Tensor expected = at::tensor(values, at::kDouble).reshape(shape);
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), expected, 1e-5, 1e-7)) << got << "\ninstead of\n"
                                                                       << expected;
}

/// A dataset of such batches, whose shapes may differ.
data::Dataset dataset_of(const Json& batches) {
  std::vector<at::Tensor> tensors;
  for (const Json& each : batches.as_array()) tensors.push_back(tensor_of(each));
  return data::Dataset::from_generator(
      [tensors, i = size_t{0}]() mutable -> std::optional<data::Example> {
        if (i == tensors.size()) return std::nullopt;
        return data::Example{tensors[i++]};
      });
}

keras::KeepsAssets& assets_of(const keras::Layer& layer) {
  return dynamic_cast<keras::KeepsAssets&>(*layer);
}

/// The same layer as another class of handle, which has what it can do beside calls.
template <typename Handle>
Handle as(const keras::Layer& layer) {
  Handle handle;
  static_cast<keras::Layer&>(handle) = layer;
  return handle;
}

template <typename Handle>
void adapt(Handle layer, const Json& test) {
  if (const Json* batches = test.find("batches")) layer.adapt(dataset_of(*batches));
  const Json* given = test.find("adapt");
  if (given == nullptr) return;
  const Nested nested(*given);
  if constexpr (requires { layer.adapt(Texts()); }) {
    if (nested.sizes.size() == 1) {
      Texts texts;
      for (const Json& each : nested.elements) texts.push_back(each.as_string());
      layer.adapt(texts);
      return;
    }
    layer.adapt(data::Dataset::from_tensors({tensor_of(*given)}));
  } else {
    layer.adapt(tensor_of(*given));
  }
}

template <typename Handle>
void expect_vocabulary(const Handle& layer, const Json& test) {
  const auto as_json = [](const auto& tokens) {
    Json list = Json::array();
    for (const auto& each : tokens) list.push_back(each);
    return list.dump();
  };
  EXPECT_EQ(as_json(layer.get_vocabulary()), test.at("vocabulary").dump());
  EXPECT_EQ(as_json(layer.get_vocabulary(false)), test.at("own_vocabulary").dump());
  EXPECT_EQ(layer.vocabulary_size(), test.at("vocabulary_size").as_int());
}

template <typename Handle>
void learn_and_compare(const keras::Layer& layer, const Json& test) {
  adapt(as<Handle>(layer), test);
  expect_vocabulary(as<Handle>(layer), test);
}

/// Every option that we write is Keras's; what older versions do not know is left out.
void expect_config(const keras::Layer& layer, const Json& wanted) {
  const Json got = keras::to_config(layer);
  EXPECT_EQ(got.at("class_name"), wanted.at("class_name"));
  for (const auto& [key, value] : got.at("config").as_object()) {
    const Json* expected = wanted.at("config").find(key);
    ASSERT_NE(expected, nullptr) << key;
    if (key == "dtype") {  // some classes write a policy's name alone
      EXPECT_EQ(value.at("config").at("name"),
                expected->is_string() ? *expected : expected->at("config").at("name"));
    } else {
      EXPECT_EQ(value, *expected) << key;
    }
  }
  for (const auto& [key, value] : wanted.at("config").as_object()) {
    EXPECT_TRUE(got.at("config").find(key) != nullptr || value.is_null() || key == "oov_method")
        << "lacks " << key;
  }
}

void run_case(const Json& test) {
  const std::string class_name = test.at("layer").at("class_name").as_string();
  const keras::Layer layer = keras::layer_from_config(test.at("untrained"));
  expect_config(layer, test.at("untrained"));
  if (class_name == "StringLookup") learn_and_compare<StringLookup>(layer, test);
  if (class_name == "IntegerLookup") learn_and_compare<IntegerLookup>(layer, test);
  if (class_name == "TextVectorization") learn_and_compare<TextVectorization>(layer, test);
  expect_config(layer, test.at("layer"));
  keras::Tensors inputs;
  for (const Json& each : test.at("inputs").as_array()) inputs.push_back(tensor_of(each));
  expect_output(layer(inputs), test.at("output"));

  // The shape of the first dimension is free in a graph, too.
  if (inputs[0].dim() < (inputs[0].scalar_type() == at::kByte ? 2 : 1)) return;
  std::vector<keras::SymbolicTensor> symbols;
  for (const at::Tensor& x : inputs) {
    symbols.push_back(keras::Input(x.sizes().slice(1).vec(), {.dtype = x.scalar_type()}));
  }
  const keras::SymbolicTensor symbol = layer(symbols);
  const at::Tensor output = layer(inputs);
  if (symbol.shape().size() != static_cast<size_t>(output.dim())) {
    // A row for the whole batch: Keras's count of a vector.
    EXPECT_TRUE(test.at("name").as_string().ends_with("_row"));
    return;
  }
  for (size_t i = 1; i < symbol.shape().size(); ++i) {
    if (symbol.shape()[i] == keras::kNone) continue;
    EXPECT_EQ(symbol.shape()[i], output.size(static_cast<int64_t>(i)));
  }
  EXPECT_EQ(symbol.dtype(), output.scalar_type());
}

TEST(TextLayersGoldenTest, EqualKeras) {
  const Json golden = read_golden("keras_texts.json");
  ASSERT_GT(golden.at("cases").as_array().size(), 80U);
  for (const Json& test : golden.at("cases").as_array()) {
    SCOPED_TRACE(test.at("layer").at("class_name").as_string() + " " + test.at("name").as_string());
    try {
      run_case(test);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

void expect_predictions(const keras::Model& model, const Json& test) {
  keras::Tensors inputs;
  for (const Json& each : test.at("inputs").as_array()) inputs.push_back(tensor_of(each));
  expect_output(model(inputs).detach(), test.at("output"));
}

TEST(TextLayersGoldenTest, ModelsOfKerasAreReadAndWrittenAgain) {
  const test::TempFolder folder;
  OneDeviceStrategy strategy({.device = "cpu:0"});
  const Json golden = read_golden("keras_texts_models.json");
  for (const Json& test : golden.at("cases").as_array()) {
    const std::string name = test.at("name").as_string();
    SCOPED_TRACE(name);
    try {
      const keras::Model model = strategy.scope([&] {
        return keras::load_model(test::source_path("tests/golden/keras_texts_" + name + ".keras"));
      });
      expect_predictions(model, test);
      const std::string path = folder.path() + "/" + name + ".keras";
      model.save(path);
      EXPECT_NE(model.to_json().find("\"dtype\":\"string\""), std::string::npos);
      const keras::Model again = strategy.scope([&] { return keras::load_model(path); });
      expect_predictions(again, test);
      again.save_weights(folder.path() + "/" + name + ".weights.h5");
      again.load_weights(folder.path() + "/" + name + ".weights.h5");
      expect_predictions(again, test);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(TextTensorTest, KeepsTexts) {
  const Texts texts = {"a", "", "\xc3\xa9t\xc3\xa9"};
  const at::Tensor tensor = data::text_tensor(texts);
  EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(data::texts_of(tensor), texts);
  EXPECT_EQ(data::texts_of(tensor.reshape({3, 1, 5})), texts);
  EXPECT_TRUE(data::texts_of(data::text_tensor(Texts())).empty());
  EXPECT_EQ(data::texts_of(data::text_tensor(Texts{""})), Texts{""});
  expect_error([&] { (void)data::texts_of(at::zeros({2})); },
               "[data] texts_of: got Float of 1 dimensions; expected uint8 [..., width], as "
               "text_tensor makes it");
}

/// The vectors of the reference implementation: key 00 01 ... 0f, messages 00 01 ...
TEST(SipHashTest, HasThePublishedValues) {
  const std::array<uint64_t, 2> key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string message;
  EXPECT_EQ(data::sip_hash(key, message), 0x726fdb47dd0e0e31U);
  for (char c = 0; c < 15; ++c) message += c;
  EXPECT_EQ(data::sip_hash(key, message), 0xa129ca6149be45e5U);
}

TEST(StringLookupTest, TextsOfIdsAndBack) {
  const StringLookup lookup({.vocabulary = {"a", "b"}});
  const StringLookup inverse({.vocabulary = {"a", "b"}, .invert = true});
  const at::Tensor ids = lookup(Texts{"b", "q", "a"});
  EXPECT_TRUE(at::equal(ids, at::tensor({2, 0, 1}, at::kLong)));
  EXPECT_EQ(inverse.texts(ids), (Texts{"b", "[UNK]", "a"}));
  EXPECT_EQ(lookup(Texts()).numel(), 0);
}

TEST(StringLookupTest, AVocabularyMayBeAFile) {
  const test::TempFolder folder;
  std::ofstream(folder.path() + "/words.txt") << "a\nb\r\nc\n";
  const StringLookup lookup({.vocabulary_file = folder.path() + "/words.txt"});
  EXPECT_EQ(lookup.get_vocabulary(), (Texts{"[UNK]", "a", "b", "c"}));
  // As in Keras the file's name is not kept, but the vocabulary, beside the options.
  EXPECT_TRUE(keras::to_config(lookup).at("config").at("vocabulary").is_null());
  EXPECT_EQ(assets_of(lookup).assets().files.at("vocabulary.txt"), "[UNK]\na\nb\nc");
  std::ofstream(folder.path() + "/numbers.txt") << "5\n7x\n";
  expect_error_containing(
      [&] { IntegerLookup({.vocabulary_file = folder.path() + "/numbers.txt"}); },
      ErrorCode::kInvalidArgument, "got the line '7x'");
}

TEST(StringLookupTest, RunsInDatasetsAndRecordedSteps) {
  const StringLookup lookup({.vocabulary = {"a", "b"}, .output_mode = "multi_hot"});
  const at::Tensor texts = data::text_tensor(Texts{"a", "q", "b", "b"}).reshape({2, 2, 1});
  const data::Dataset rows = data::Dataset::from_tensor_slices({texts}).batch(2).map(
      [&](const data::Example& e) { return data::Example{lookup(e.x())}; });
  const at::Tensor wanted = at::tensor({1.0, 1.0, 0.0, 0.0, 0.0, 1.0}, at::kFloat).reshape({2, 3});
  EXPECT_TRUE(at::equal(rows.iterator(0).next()->x(), wanted));
  const auto step =
      strata::function([&](const at::Tensor& x) { return lookup(x) * 2; }, {.name = "texts"});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(step(texts), wanted * 2));
  EXPECT_TRUE(at::equal(step(texts.flip(0)), wanted.flip(0) * 2));
}

TEST(StringLookupTest, WhatDoesNotMatchIsAnError) {
  const auto fails = [](const StringLookupOptions& options, const std::string& part) {
    expect_error_containing([&] { StringLookup{options}; }, ErrorCode::kInvalidArgument, part);
  };
  fails({.max_tokens = 1}, "`max_tokens` must be greater than 1. Received: max_tokens=1");
  fails({.pad_to_max_tokens = true}, "If pad_to_max_tokens is True, must set `max_tokens`");
  fails({.num_oov_indices = -1}, "`num_oov_indices` must be greater than or equal to 0");
  fails({.invert = true, .output_mode = "count"}, "`output_mode` must be `'int'` when `invert`");
  fails({.output_mode = "words"}, "got output_mode='words'");
  fails({.vocabulary = {"a", "b", "a"}}, "at least one repeated term");
  fails({.mask_token = "m", .vocabulary = {"a", "m"}}, "Found reserved mask token");
  fails({.vocabulary = {"a", "[UNK]"}, .invert = true}, "Found reserved OOV token");
  fails({.max_tokens = 2, .vocabulary = {"a", "b"}}, "Received vocabulary size is 3");
  fails({.vocabulary = {"a"}, .output_mode = "tf_idf"}, "`idf_weights` must be set");
  fails({.vocabulary = {"a"}, .idf_weights = {1}}, "`idf_weights` should only be set");
  fails({.vocabulary = {"a"}, .idf_weights = {1, 2}, .output_mode = "tf_idf"},
        "len(idf_weights) is 2; len(vocabulary) is 1");
  fails({.vocabulary = {"a"}, .vocabulary_file = "x"}, "expected one of them");
  fails({.vocabulary_file = "x", .idf_weights = {1}, .output_mode = "tf_idf"},
        "'tf_idf'` does not support loading a vocabulary from file");

  StringLookup empty({.name = "words"});
  expect_error_containing([&] { (void)empty(Texts{"a"}); }, ErrorCode::kFailedPrecondition,
                          "layer 'words': has no vocabulary");
  expect_error_containing([&] { empty.set_vocabulary({}); }, ErrorCode::kInvalidArgument,
                          "Cannot set an empty vocabulary");
  StringLookup given({.num_oov_indices = 0, .vocabulary = {"a"}, .name = "given"});
  expect_error_containing([&] { given.adapt(Texts{"a"}); }, ErrorCode::kFailedPrecondition,
                          "layer 'given': Cannot adapt layer after setting a static vocabulary");
  expect_error_containing(
      [&] {
        (void)given(Texts{"a", "b"});
      },
      ErrorCode::kInvalidArgument, "found OOV values ['b'], consider setting `num_oov_indices=1`");
  expect_error_containing(
      [&] {
        (void)given(at::zeros({2, 2}));
      },
      ErrorCode::kInvalidArgument, "got Float of shape (2, 2); expected texts, uint8 [..., width]");
  const StringLookup counts({.vocabulary = {"a"}, .output_mode = "count"});
  expect_error_containing(
      [&] {
        (void)counts(at::zeros({2, 2, 2, 1}, at::kByte));
      },
      ErrorCode::kInvalidArgument, "got input of 3 dimensions");
  expect_error_containing([&] { IntegerLookup({.num_oov_indices = 2, .salt = 3}); },
                          ErrorCode::kInvalidArgument,
                          "`salt` can only be used when `oov_method='farmhash'`");
  expect_error_containing(
      [&] {
        assets_of(counts).load_assets({.files = {}, .tensors = {{"idf_weights", at::zeros({5})}}});
      },
      ErrorCode::kInvalidArgument, "got 5 idf_weights; expected one for each of the 2 columns");
}

TEST(HashingTest, WhatDoesNotMatchIsAnError) {
  expect_error_containing([] { Hashing(0); }, ErrorCode::kInvalidArgument,
                          "The `num_bins` for `Hashing` cannot be `None` or non-positive values");
  expect_error_containing([] { Hashing(3, {.dtype = "float32"}); }, ErrorCode::kInvalidArgument,
                          "`dtype` should be an integer type");
  expect_error_containing([] { (void)Hashing(3, {.mask_value = "x"})(at::arange(3)); },
                          ErrorCode::kInvalidArgument,
                          "got numbers and mask_value=\"x\"; expected both of one kind");
  expect_error_containing([] { (void)Hashing(3)(at::zeros({}, at::kByte)); },
                          ErrorCode::kInvalidArgument, "got a uint8 scalar");
  const HashedCrossing crossing(3, {.name = "cross"});
  const auto fails = [&](const keras::Tensors& inputs, const std::string& part) {
    expect_error_containing([&] { (void)crossing(inputs); }, ErrorCode::kInvalidArgument, part);
  };
  fails({at::arange(3)}, "should be called on at least two inputs. Received: 1");
  fails({at::arange(3), at::arange(4)}, "should have equal shape. Received: (3,) and (4,)");
  fails({at::zeros({3, 2}, at::kLong), at::zeros({3, 2}, at::kLong)}, "should have shape `()`");
  fails({at::zeros({3}), at::zeros({3})}, "should have an integer or string dtype");
  expect_error_containing([] { HashedCrossing(3, {.output_mode = "count"}); },
                          ErrorCode::kInvalidArgument, "expected 'int' or 'one_hot'");
}

TEST(TextVectorizationTest, LearnsFromLinesOfAFile) {
  const test::TempFolder folder;
  const std::string file = folder.path() + "/reviews.txt";
  std::ofstream(file) << "Good, good wine.\n\nBad wine!\n";
  TextVectorization vectorize({.max_tokens = 10000, .output_sequence_length = 4});
  const data::Dataset lines = data::text_lines({file});
  vectorize.adapt(lines);
  const data::Dataset ids =
      lines.map([=](const data::Example& e) { return data::Example{vectorize(e.x())}; }).batch(32);
  EXPECT_EQ(vectorize.get_vocabulary(), (Texts{"", "[UNK]", "wine", "good", "bad"}));
  EXPECT_TRUE(
      at::equal(ids.iterator(0).next()->x(),
                at::tensor({3, 3, 2, 0, 0, 0, 0, 0, 4, 2, 0, 0}, at::kLong).reshape({3, 4})));
}

TEST(TextVectorizationTest, TakesFunctionsOfTheProgram) {
  TextVectorization layer({.vocabulary = {"x", "y"},
                           .standardize_function = [](const std::string& t) { return t + ",y"; },
                           .split_function =
                               [](const std::string& t) {
                                 return Texts{t.substr(0, t.find(',')), t.substr(t.find(',') + 1)};
                               }});
  EXPECT_TRUE(
      at::equal(layer(Texts{"x", "q"}), at::tensor({2, 3, 1, 3}, at::kLong).reshape({2, 2})));
  expect_error_containing([&] { (void)keras::to_config(layer); }, ErrorCode::kUnimplemented,
                          "a function of the program's own cannot be written to a file");
}

TEST(TextVectorizationTest, BytesThatAreNoTextAreReplaced) {
  TextVectorization layer(
      {.standardize = "none", .split = "character", .vocabulary = {"\xef\xbf\xbd", "a"}});
  // A lead byte without its sequence, a surrogate, a byte that is never valid, a cut sequence.
  EXPECT_TRUE(
      at::equal(layer(Texts{"\xc3"
                            "a",
                            "\xed\xa0\x80",
                            "\xff"
                            "a",
                            "\xf0\x9f\x98"}),
                at::tensor({2, 3, 0, 2, 2, 2, 2, 3, 0, 2, 0, 0}, at::kLong).reshape({4, 3})));
}

TEST(TextVectorizationTest, IsRecordedIfItsLengthIsSet) {
  TextVectorization free({.vocabulary = {"a"}});
  TextVectorization fixed({.output_sequence_length = 2, .vocabulary = {"a"}});
  const at::Tensor texts = data::text_tensor(Texts{"a b c", "a"});
  const auto step = strata::function([&](const at::Tensor& x) { return fixed(x) + 1; });
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(step(texts), at::tensor({3, 2, 3, 1}, at::kLong).reshape({2, 2})));
  }
  // Without it the step is run as it is written.
  const auto as_written = strata::function([&](const at::Tensor& x) { return free(x) + 1; });
  EXPECT_TRUE(
      at::equal(as_written(texts), at::tensor({3, 2, 2, 3, 1, 1}, at::kLong).reshape({2, 3})));
}

TEST(TextVectorizationTest, WhatDoesNotMatchIsAnError) {
  const auto fails = [](const TextVectorizationOptions& options, const std::string& part) {
    expect_error_containing([&] { TextVectorization{options}; }, ErrorCode::kInvalidArgument, part);
  };
  fails({.output_mode = "count", .output_sequence_length = 3},
        "`output_sequence_length` must not be set if `output_mode` is not 'int'");
  fails({.output_sequence_length = 0}, "got output_sequence_length=0");
  fails({.output_mode = "one_hot"}, "got output_mode='one_hot' and texts that are split");
  fails({.ngrams = Ngrams{0}}, "got ngrams of width 0");
  fails({.ngrams = 0}, "got no width in ngrams");
  fails({.standardize = "upper"}, "got standardize='upper'");
  fails({.split = "lines"}, "got split='lines'");
  const TextVectorization layer({.vocabulary = {"a"}, .name = "texts"});
  expect_error_containing(
      [&] {
        (void)layer(at::zeros({2, 3}));
      },
      ErrorCode::kInvalidArgument, "layer 'texts': got Float of shape (2, 3); expected texts");
  expect_error_containing(
      [&] {
        (void)layer(at::zeros({2, 3, 4}, at::kByte));
      },
      ErrorCode::kInvalidArgument, "Received: inputs.shape=(2, 3)");
  const TextVectorization whole(
      {.split = "none", .output_sequence_length = 2, .vocabulary = {"a"}});
  expect_error_containing(
      [&] {
        (void)whole(at::zeros({2, 3}, at::kByte));
      },
      ErrorCode::kInvalidArgument, "expected [batch, tokens]");
  expect_error_containing([&] { (void)TextVectorization()(Texts{"a"}); },
                          ErrorCode::kFailedPrecondition, "has no vocabulary");
}

}  // namespace
}  // namespace strata::layers
