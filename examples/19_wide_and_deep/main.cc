// Wide and deep: a table of a CSV file by columns, a linear model of crossed words beside a network.
//
//   build/release/examples/19_wide_and_deep [--epochs 4] [--devices 2] [--batch 64]
//
// prints
//
//   accuracy 0.97, always the mean 0.53
//   a cook in paris: yes
//
// A batch is one replica's (TensorFlow's rule): with 2 devices a step has 2 of them.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "strata/strata.h"
#include "support/arguments.h"

namespace data = strata::data;
namespace estimator = strata::estimator;
namespace fc = strata::feature_column;

/// Who is happy: cooks in Paris and pilots in Rome, and, of the others, the young.
void write_table(const std::string& path, int rows, unsigned seed) {
  const char* const jobs[] = {"cook", "pilot", "clerk"};
  const char* const cities[] = {"paris", "rome", "oslo"};
  std::mt19937 random(seed);
  std::ofstream file(path);
  file << "age,job,city,happy\n";
  for (int i = 0; i < rows; ++i) {
    const unsigned age = 18 + random() % 60, job = random() % 3, city = random() % 3;
    const bool happy = (job == city && job < 2) || (job != city && age < 40);
    file << age << ',' << jobs[job] << ',' << cities[city] << ',' << happy << '\n';
  }
}

estimator::TableRows rows_of(const std::string& path) {
  return estimator::csv_rows({path},
                             {{"age", data::CsvColumn::float32()},
                              {"job", data::CsvColumn::string()},
                              {"city", data::CsvColumn::string()},
                              {"happy", data::CsvColumn::int64()}},
                             {.label_name = "happy"});
}

void train(const examples::Arguments& arguments) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "strata-19-wide-and-deep").string();
  std::filesystem::remove_all(folder);  // a program that is to go on leaves it
  std::filesystem::create_directories(folder);
  write_table(folder + "/train.csv", 4000, 1);
  write_table(folder + "/test.csv", 1000, 2);

  const auto age = fc::numeric_column(
      "age", {.normalizer_fn = [](const at::Tensor& years) { return (years - 48) / 17; }});
  const auto ages = fc::bucketized_column(age, {-1, -0.5, 0, 0.5, 1});
  const auto job = fc::categorical_column_with_vocabulary_list(
      "job", std::vector<std::string>{"cook", "pilot", "clerk"});
  const auto city = fc::categorical_column_with_hash_bucket("city", 20);

  strata::MirroredStrategy strategy({.devices = arguments.devices, .seed = 1});
  estimator::DNNLinearCombinedClassifier model(
      {.linear_feature_columns = {fc::crossed_column({"job", "city"}, 100),
                                  fc::crossed_column({"job", "city", ages}, 1000)},
       .linear_optimizer = [] { return strata::optimizers::legacy::Ftrl({.learning_rate = 0.1}); },
       .dnn_feature_columns = {age, fc::indicator_column(job), fc::embedding_column(city, 4)},
       .dnn_optimizer = [] { return strata::optimizers::legacy::Adagrad({.learning_rate = 0.05}); },
       .dnn_hidden_units = {16, 8},
       .model_dir = folder + "/model",
       .config = estimator::RunConfig({.tf_random_seed = 1, .train_distribute = &strategy})});

  const estimator::InputFn train_input = [&](const strata::InputContext&) {
    estimator::TableRows table = rows_of(folder + "/train.csv");
    table.rows = table.rows.shuffle(4000).repeat(arguments.epochs);
    return table.batch(arguments.batch);
  };
  const estimator::InputFn test_input = [&](const strata::InputContext&) {
    return rows_of(folder + "/test.csv").batch(500);
  };
  model.train(train_input);
  const auto result = model.evaluate(test_input);
  std::printf("accuracy %.2f, always the mean %.2f\n", result.at("accuracy"),
              result.at("accuracy_baseline"));

  std::ofstream(folder + "/one.csv") << "age,job,city,happy\n70,cook,paris,0\n";
  const estimator::InputFn one = [&](const strata::InputContext&) {
    return rows_of(folder + "/one.csv").batch(1);
  };
  for (const estimator::Features& row : model.predict(one)) {
    std::printf("a cook in paris: %s\n",
                row.at("class_ids").values.item<int64_t>() == 1 ? "yes" : "no");
  }
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 4, .batch = 64, .devices = {}})); });
}
