// Models that are exported, loaded without their model_fn, and used by `strata predict`.
#include "strata/estimator/saved_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "estimator/line_model.h"
#include "strata/core/file_system.h"
#include "strata/estimator/canned.h"
#include "strata/estimator/feature_layers.h"
#include "strata/estimator/predictor.h"
#include "strata/estimator/train_and_evaluate.h"
#include "support/expect_error.h"
#include "support/killed_program.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

namespace fc = feature_column;

/// Six people: their age, city, a code, tags with weights, and whether they came.
const char* const kPeople =
    "age,city,code,label\n"
    "21,Oslo,3,0\n"
    "35,Bergen,1,1\n"
    "48,Oslo,0,1\n"
    "19,,2,0\n"
    "62,\"Far, far away\",3,1\n"
    "33,Bergen,2,0\n";

std::string write_people(const strata::test::TempFolder& folder) {
  const std::string path = folder.path() + "/people.csv";
  std::ofstream(path) << kPeople;
  return path;
}

InputFn people(const std::string& path, int64_t batch, int64_t repeat = 1) {
  return [=](const InputContext&) {
    TableRows rows = csv_rows({path},
                              {{"age", data::CsvColumn::float32()},
                               {"city", data::CsvColumn::string("")},
                               {"code", data::CsvColumn::int64()},
                               {"label", data::CsvColumn::int64()}},
                              {.label_name = "label"});
    rows.rows = rows.rows.repeat(repeat);
    return rows.batch(batch);
  };
}

Features people_features() {
  const std::vector<std::string> cities = {"Oslo", "Bergen", "Oslo", "", "Far, far away", "Bergen"};
  return {{"age", {.values = at::tensor({21., 35., 48., 19., 62., 33.}, at::kFloat)}},
          {"city", text_feature(cities)},
          {"code", {.values = at::tensor({3, 1, 0, 2, 3, 2}, at::kLong)}}};
}

/// Columns of many kinds. @param hashes  A crossed one, too.
DNNLinearCombinedClassifier people_model(const std::string& folder, bool hashes) {
  const FeatureColumn age = fc::numeric_column(
      "age", {.normalizer_fn = [](const at::Tensor& x) { return (x - 30) / 10; }});
  const FeatureColumn city = fc::categorical_column_with_vocabulary_list(
      "city", std::vector<std::string>{"Oslo", "Bergen"}, {.default_value = 1});
  const FeatureColumn code = fc::categorical_column_with_identity("code", 4);
  std::vector<FeatureColumn> wide = {fc::bucketized_column(age, {-1, 0.5}), city, code};
  if (hashes) {
    wide.push_back(fc::crossed_column(
        {"city", fc::bucketized_column(fc::numeric_column("age"), {25, 40}), code}, 50));
  }
  return DNNLinearCombinedClassifier(
      {.linear_feature_columns = wide,
       .linear_optimizer = "SGD",
       .dnn_feature_columns = {age, fc::indicator_column(code), fc::embedding_column(city, 3)},
       .dnn_optimizer = "SGD",
       .dnn_hidden_units = {5},
       .model_dir = folder,
       .config = RunConfig({.tf_random_seed = 4})});
}

bool hashes_here() {
  try {
    (void)fc::fingerprint64("");
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(SavedModelTest, AModelFnPredictsWithoutItsProgram) {
  const strata::test::TempFolder folder;
  Estimator line(test::LineModel{.offset = 0.25}, {.model_dir = folder.path() + "/run"});
  line.train(test::line_input(6, 2), {.max_steps = 7});
  const std::string exported =
      export_saved_model(line, folder.path() + "/export", {{"x", {.values = at::zeros({1, 1})}}});

  const Predictor predictor = load_predictor(exported);
  EXPECT_EQ(predictor.global_step(), 7);
  EXPECT_EQ(predictor.features().at("x").shape, (std::vector<int64_t>{1}));
  const at::Tensor x = at::arange(5, at::kFloat).unsqueeze(1);
  const Features outputs = predictor({{"x", {.values = x}}});
  const double w = line.variable_value("w").item<double>();
  EXPECT_TRUE(at::allclose(outputs.at("y").values, x * w + 0.25));
  // Other dtypes are cast, and [rows] are [rows, 1].
  const Features same = predictor({{"x", {.values = at::arange(5, at::kLong)}}});
  EXPECT_TRUE(at::equal(same.at("y").values, outputs.at("y").values));
}

TEST(SavedModelTest, ACannedModelsColumnsAreComputedWhereItIsLoaded) {
  const strata::test::TempFolder folder;
  const std::string csv = write_people(folder);
  DNNLinearCombinedClassifier model = people_model(folder.path() + "/run", hashes_here());
  model.train(people(csv, 3, 20));
  Features example = people_features();
  for (auto& [name, feature] : example) feature.values = feature.values.narrow(0, 0, 1);
  const Predictor predictor =
      load_predictor(export_saved_model(model, folder.path() + "/export", example));

  const Features outputs = predictor(people_features(), "predict");
  int64_t row = 0;
  for (const Features& expected : model.predict(people(csv, 6))) {
    for (const char* name : {"logits", "logistic", "probabilities", "class_ids"}) {
      EXPECT_TRUE(at::allclose(outputs.at(name).values[row], expected.at(name).values))
          << name << ", row " << row;
    }
    EXPECT_EQ(text_at(outputs.at("classes"), row), text_at(expected.at("classes"), 0));
    ++row;
  }
  EXPECT_EQ(row, 6);

  const auto& signatures = predictor.signatures();
  ASSERT_EQ(signatures.size(), 4);
  EXPECT_EQ(signatures.at("serving_default").method, "classify");
  EXPECT_EQ(signatures.at("classification").outputs,
            (std::map<std::string, std::string>{{"scores", "probabilities"},
                                                {"classes", "all_classes"}}));
  EXPECT_EQ(signatures.at("regression").outputs,
            (std::map<std::string, std::string>{{"outputs", "logistic"}}));
  EXPECT_EQ(predictor(people_features()).size(), 2);
}

TEST(SavedModelTest, RowsMayHaveAsManyEntriesAsTheExample) {
  const strata::test::TempFolder folder;
  const FeatureColumn tags = fc::weighted_categorical_column(
      fc::categorical_column_with_vocabulary_list("tags", std::vector<std::string>{"a", "b", "c"}),
      "weights");
  LinearRegressor model(
      {.feature_columns = {tags}, .optimizer = "SGD", .model_dir = folder.path() + "/run"});
  const auto texts = [](std::vector<std::string> entries, int64_t rows) {
    Feature feature = text_feature(entries);
    feature.values = feature.values.reshape({rows, -1, feature.values.size(-1)});
    feature.is_sparse = true;
    return feature;
  };
  const Feature two = texts({"a", "b", "c", ""}, 2);
  const at::Tensor weights = at::tensor({1., 2., 3., 0.}, at::kFloat).reshape({2, 2});
  const data::Dataset rows =
      data::Dataset::from_tensor_slices({two.values, weights, at::tensor({5., 7.}, at::kFloat)});
  const InputFn input = [&](const InputContext&) {
    return Input(rows.repeat(3).batch(2), {{.name = "tags", .is_text = true, .is_sparse = true},
                                           {.name = "weights", .is_sparse = true}});
  };
  model.train(input);
  const Feature of_weights{.values = weights, .is_sparse = true};
  const Predictor predictor = load_predictor(export_saved_model(
      model, folder.path() + "/export", {{"tags", two}, {"weights", of_weights}}));

  std::vector<double> expected;
  for (const Features& row : model.predict(input)) {
    expected.push_back(row.at("predictions").values.item<double>());
  }
  const at::Tensor got =
      predictor({{"tags", two}, {"weights", of_weights}}, "predict").at("predictions").values;
  EXPECT_NEAR(got[0].item<double>(), expected.at(0), 1e-6);
  EXPECT_NEAR(got[1].item<double>(), expected.at(1), 1e-6);
  // A row with one entry alone is padded.
  const Features one = {{"tags", texts({"c"}, 1)},
                        {"weights", {.values = at::full({1, 1}, 3.F), .is_sparse = true}}};
  EXPECT_NEAR(predictor(one).at("outputs").values.item<double>(), expected.at(1), 1e-6);
  expect_error_containing(
      [&] {
        predictor({{"tags", texts({"a", "b", "c"}, 1)},
                   {"weights", {.values = at::ones({1, 3}), .is_sparse = true}}});
      },
      ErrorCode::kInvalidArgument, "has more than 2 entries in a row");
}

TEST(SavedModelTest, AnExporterWritesThem) {
  const strata::test::TempFolder folder;
  Estimator line(test::LineModel{}, {.model_dir = folder.path()});
  const auto result = train_and_evaluate(
      line, {.input_fn = test::line_input(6, 2), .max_steps = 4},
      {.input_fn = test::line_input(6, 3, 1),
       .exporters = {std::make_shared<FinalExporter>(
           "served", saved_model_export_fn({{"x", {.values = at::zeros({1, 1})}}}))}});
  ASSERT_EQ(result.exports.size(), 1);
  EXPECT_EQ(load_predictor(result.exports[0]).global_step(), 4);
}

TEST(SavedModelTest, WhatIsWrongIsNamed) {
  const strata::test::TempFolder folder;
  Estimator line(test::LineModel{}, {.model_dir = folder.path() + "/run"});
  const Features x = {{"x", {.values = at::zeros({1, 1})}}};
  const std::string base = folder.path() + "/export";
  expect_error_containing([&] { export_saved_model(line, base, x); }, ErrorCode::kNotFound,
                          "could not find a trained model in model_dir");
  line.train(test::line_input(6, 2), {.max_steps = 1});
  expect_error_containing([&] { export_saved_model(line, base, {}); }, ErrorCode::kInvalidArgument,
                          "got no features");
  const std::string exported = export_saved_model(line, base, x);
  const Predictor predictor = load_predictor(exported);
  expect_error_containing([&] { predictor(x, "classify"); }, ErrorCode::kNotFound,
                          "got the signature 'classify'; expected one of serving_default");
  expect_error_containing([&] { predictor({}); }, ErrorCode::kInvalidArgument,
                          "got no feature 'x'; expected x");
  expect_error_containing(
      [&] {
        predictor({{"x", {.values = at::zeros({2, 3})}}});
      },
      ErrorCode::kInvalidArgument, "expected 1 numbers a row");
  expect_error_containing([&] { load_predictor(base); }, ErrorCode::kNotFound, "model.json");
  std::ofstream(exported + "/model.json") << "{\"version\": 2}";
  expect_error_containing([&] { load_predictor(exported); }, ErrorCode::kUnimplemented,
                          "it has version 2");
  std::ofstream(exported + "/model.json") << "{";
  expect_error_containing([&] { load_predictor(exported); }, ErrorCode::kDataLoss, "model.json");
}

TEST(SavedModelTest, ATextThatAModelFnReadsItselfIsRefused) {
  const strata::test::TempFolder folder;
  const ModelFn by_width = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    const Variable w = context.variable("w", [] { return at::ones({1}); });
    const at::Tensor& text = fc::categorical_ids(fc::categorical_column_with_vocabulary_list(
                                                     "t", std::vector<std::string>{"a"}),
                                                 features)
                                 .ids;
    const at::Tensor y =
        features.at("t").values.to(at::kFloat).sum(1) * w.value() + text.to(at::kFloat).sum(1);
    EstimatorSpec spec{.predictions = {{"y", {y}}}};
    if (mode == Mode::kPredict) return spec;
    spec.loss = (y - labels).square().mean();
    if (mode == Mode::kEval) return spec;
    spec.train_op = context.minimize(
        context.optimizer([] { return optimizers::SGD({.learning_rate = 0.001}); }), spec.loss);
    return spec;
  };
  Estimator model(by_width, {.model_dir = folder.path() + "/run"});
  const std::vector<std::string> texts = {"a", "b"};
  const Feature t = text_feature(texts);
  model.train([&](const InputContext&) {
    return Input(data::Dataset::from_tensor_slices({t.values, at::ones({2})}).batch(2),
                 {{.name = "t", .is_text = true}});
  });
  expect_error_containing(
      [&] {
        export_saved_model(model, folder.path() + "/export", {{"t", t}});
      },
      ErrorCode::kInvalidArgument,
      "reads a feature that a graph cannot have; texts (t) are read by columns alone");
}

TEST(SavedModelTest, ServingFeaturesAreThoseOfASpec) {
  const ExampleSpec spec = make_parse_example_spec(
      {fc::numeric_column("age", {.shape = {2}}),
       fc::categorical_column_with_vocabulary_list("city", std::vector<std::string>{"Oslo"})});
  const Features features = serving_features(spec, 3);
  EXPECT_EQ(features.at("age").values.sizes(), (at::IntArrayRef{1, 2}));
  EXPECT_TRUE(features.at("city").is_text && features.at("city").is_sparse);
  EXPECT_EQ(features.at("city").values.sizes(), (at::IntArrayRef{1, 3, 1}));
}

#ifdef STRATA_COMMAND
TEST(StrataPredictTest, PredictsRowsOfACsvFile) {
  const strata::test::TempFolder folder;
  const std::string csv = write_people(folder);
  DNNLinearCombinedClassifier model = people_model(folder.path() + "/run", hashes_here());
  model.train(people(csv, 3, 2));
  Features example = people_features();
  for (auto& [name, feature] : example) feature.values = feature.values.narrow(0, 0, 1);
  const std::string exported = export_saved_model(model, folder.path() + "/export", example);

  const std::string output = folder.path() + "/predictions.csv";
  const strata::test::Outcome wrote = strata::test::run_program(
      STRATA_COMMAND,
      {"predict", exported, "--input", csv, "--output", output, "--signature", "predict"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
  std::string expected =
      "all_class_ids_0,all_class_ids_1,all_classes_0,all_classes_1,class_ids,classes,logistic";
  const std::string text = read_file(output);
  EXPECT_TRUE(text.starts_with(expected + ",logits,probabilities_0,probabilities_1\n")) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 7) << text;
  char line[64];
  for (const Features& row : model.predict(people(csv, 6))) {
    std::snprintf(line, sizeof(line), "\n0,1,0,1,%d,%d,%.4f",
                  static_cast<int>(row.at("class_ids").values.item<int64_t>()),
                  static_cast<int>(row.at("class_ids").values.item<int64_t>()),
                  row.at("logistic").values.item<double>());
    // The last digit may be rounded in another way.
    EXPECT_NE(text.find(std::string(line).substr(0, std::string(line).size() - 1)),
              std::string::npos)
        << line << " in " << text;
  }

  const strata::test::Outcome shown =
      strata::test::run_program(STRATA_COMMAND, {"predict", exported, "--signatures"});
  EXPECT_NE(shown.output.find("feature city: 1 text\n"), std::string::npos) << shown.output;
  EXPECT_NE(shown.output.find("signature regression (regress): outputs\n"), std::string::npos)
      << shown.output;

  std::ofstream(csv) << "age,code\n1,2\n";
  const strata::test::Outcome refused = strata::test::run_program(
      "/bin/sh",
      {"-c", std::string(STRATA_COMMAND) + " predict " + exported + " --input " + csv + " 2>&1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.output.find("has no column 'city'; expected the model's features (age, city, "
                                "code) in its header; got age, code"),
            std::string::npos)
      << refused.output;
}
#endif

}  // namespace
}  // namespace strata::estimator
