// A table that begins with the rows of another model's, by word.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "strata/estimator/estimator.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

using strata::test::TempFolder;

/// A variable `table` with these values, which no step changes.
ModelFn table_of(const at::Tensor& values) {
  return [values](const Features& features, const Labels&, Mode mode, ModelContext& context) {
    const Variable table = context.variable("table", [&] { return values.clone(); });
    const at::Tensor x = features.at("x").values;
    EstimatorSpec spec{.predictions = {{"y", {x * 1}}}};
    if (mode == Mode::kPredict) return spec;
    spec.loss = (table.value() * 0).sum();
    if (mode == Mode::kEval) return spec;
    spec.train_op = context.minimize(
        context.optimizer([] { return optimizers::SGD({.learning_rate = 1}); }), spec.loss);
    return spec;
  };
}

Input one_batch(const InputContext&) {
  return data::Dataset::from_tensor_slices({at::ones({2, 1})}).batch(2);
}

std::string write_words(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

at::Tensor table_after_warm_start(const TempFolder& folder, const at::Tensor& initial,
                                  const WarmStartSettings& settings) {
  Estimator model(table_of(initial), {.model_dir = folder.path() + "/new",
                                      .config = RunConfig({.environment = cluster::Environment()}),
                                      .warm_start_from = settings});
  model.train(one_batch, {.steps = 1});
  return model.variable_value("table");
}

class VocabularyWarmStartTest : public ::testing::Test {
 protected:
  /// A trained model whose table has the rows (or columns) 4, 2 and 3 of a, b and c.
  void train_old(int64_t axis) {
    at::Tensor values = at::tensor({4., 2., 3.}, at::kFloat).unsqueeze(1).expand({3, 2});
    if (axis == 1) values = values.t();
    Estimator model(table_of(values.contiguous()),
                    {.model_dir = folder.path() + "/old",
                     .config = RunConfig({.environment = cluster::Environment()})});
    model.train(one_batch, {.steps = 1});
  }

  const TempFolder folder;
  VocabInfo info() const {
    return {.new_vocab = write_words(folder.path() + "/new.txt", "c\nnew\na\n"),
            .num_oov_buckets = 1,
            .old_vocab = write_words(folder.path() + "/old.txt", "a\r\nb\r\nc")};
  }
  WarmStartSettings settings(const VocabInfo& info) const {
    return {
        .checkpoint = folder.path() + "/old", .variables = {}, .vocabularies = {{"table", info}}};
  }
};

TEST_F(VocabularyWarmStartTest, RowsGoWithTheirWords) {
  train_old(0);
  const at::Tensor table = table_after_warm_start(folder, at::full({4, 2}, 9.F), settings(info()));
  EXPECT_TRUE(at::equal(table.select(1, 0), at::tensor({3., 0., 4., 0.}, at::kFloat))) << table;
  EXPECT_TRUE(at::equal(table.select(1, 0), table.select(1, 1)));
}

TEST_F(VocabularyWarmStartTest, NewRowsComeFromTheBackupInitializer) {
  train_old(1);
  VocabInfo given = info();
  given.backup_initializer = "ones";
  given.axis = 1;
  given.old_vocab_size = 2;  // without c
  const at::Tensor table = table_after_warm_start(folder, at::full({2, 4}, 9.F), settings(given));
  EXPECT_TRUE(at::equal(table[1], at::tensor({1., 1., 4., 1.}, at::kFloat))) << table;
}

TEST_F(VocabularyWarmStartTest, WhatDoesNotFitIsNamed) {
  train_old(0);
  expect_error_containing(
      [&] {
        table_after_warm_start(folder, at::full({3, 2}, 9.F), settings(info()));
      },
      ErrorCode::kInvalidArgument,
      "'table' has the shape [3, 2]; expected [4, 2]: 3 words and 1 buckets");
  VocabInfo larger = info();
  larger.old_vocab_size = 5;
  expect_error_containing(
      [&] {
        table_after_warm_start(folder, at::full({4, 2}, 9.F), settings(larger));
      },
      ErrorCode::kInvalidArgument, "old.txt has 3 lines; expected 5");
  WarmStartSettings other = settings(info());
  other.vocabularies = {{"tables", info()}};
  expect_error_containing(
      [&] {
        table_after_warm_start(folder, at::full({4, 2}, 9.F), other);
      },
      ErrorCode::kInvalidArgument,
      "got a vocabulary of 'tables', which is no variable of the model");
}

}  // namespace
}  // namespace strata::estimator
