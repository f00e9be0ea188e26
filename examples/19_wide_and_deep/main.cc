// Wide and deep: a table of a CSV file by columns, a linear model of crossed words beside a network.
//
//   build/release/examples/19_wide_and_deep [FOLDER] [--epochs 4] [--devices 2] [--batch 64]
//
// prints
//
//   accuracy 0.97, always the mean 0.53
//   a cook in paris: yes
//
// A batch is one replica's (TensorFlow's rule): with 2 devices a step has 2 of them. The same program is
// every task of a cluster with parameter servers:
//
//   build/release/strata launch -n 3 --chief --ps 1 --evaluator build/release/examples/19_wide_and_deep
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>

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

/// Removed with the files in it: each task of a cluster has tables of its own.
class Tables {
 public:
  Tables()
      : folder_(std::filesystem::temp_directory_path() /
                ("strata-19-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    write_table(path("train.csv"), 4000, 1);
    write_table(path("test.csv"), 1000, 2);
    std::ofstream(path("one.csv")) << "age,job,city,happy\n70,cook,paris,0\n";
  }
  ~Tables() { std::filesystem::remove_all(folder_); }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  std::string path(const char* name) const { return (folder_ / name).string(); }

 private:
  const std::filesystem::path folder_;
};

void train(const examples::Arguments& arguments, const std::string& folder) {
  const Tables tables;
  const auto age = fc::numeric_column(
      "age", {.normalizer_fn = [](const at::Tensor& years) { return (years - 48) / 17; }});
  const auto ages = fc::bucketized_column(age, {-1, -0.5, 0, 0.5, 1});
  const auto job = fc::categorical_column_with_vocabulary_list(
      "job", std::vector<std::string>{"cook", "pilot", "clerk"});
  const auto city = fc::categorical_column_with_hash_bucket("city", 20);

  estimator::RunConfigOptions options{.tf_random_seed = 1, .save_checkpoints_steps = 100};
  std::optional<strata::MirroredStrategy> strategy;  // a cluster has one of its own
  if (estimator::RunConfig().is_alone()) {
    strategy.emplace(strata::MirroredOptions{.devices = arguments.devices, .seed = 1});
    options.train_distribute = &*strategy;
  }
  estimator::DNNLinearCombinedClassifier model(
      {.linear_feature_columns = {fc::crossed_column({"job", "city"}, 100),
                                  fc::crossed_column({"job", "city", ages}, 1000)},
       .linear_optimizer = [] { return strata::optimizers::legacy::Ftrl({.learning_rate = 0.1}); },
       .dnn_feature_columns = {age, fc::indicator_column(job), fc::embedding_column(city, 4)},
       .dnn_optimizer = [] { return strata::optimizers::legacy::Adagrad({.learning_rate = 0.05}); },
       .dnn_hidden_units = {16, 8},
       .model_dir = folder,
       .config = estimator::RunConfig(options)});

  const estimator::InputFn train_input = [&](const strata::InputContext&) {
    estimator::TableRows table = rows_of(tables.path("train.csv"));
    table.rows = table.rows.shuffle(4000).repeat();
    return table.batch(arguments.batch);
  };
  const estimator::InputFn test_input = [&](const strata::InputContext&) {
    return rows_of(tables.path("test.csv")).batch(500);
  };
  const int replicas = strategy ? strategy->num_replicas_in_sync() : 1;
  const auto result = estimator::train_and_evaluate(
      model,
      {.input_fn = train_input,
       .max_steps = arguments.epochs * 4000 / (arguments.batch * replicas)},
      {.input_fn = test_input, .steps = {}, .start_delay_secs = 0, .throttle_secs = 1});
  if (!result.evaluation) return;  // another task of the cluster evaluates
  std::printf("accuracy %.2f, always the mean %.2f\n", result.evaluation->at("accuracy"),
              result.evaluation->at("accuracy_baseline"));

  const estimator::InputFn one = [&](const strata::InputContext&) {
    return rows_of(tables.path("one.csv")).batch(1);
  };
  for (const estimator::Features& row : model.predict(one)) {
    std::printf("a cook in paris: %s\n",
                row.at("class_ids").values.item<int64_t>() == 1 ? "yes" : "no");
  }
}

int main(int argc, char** argv) {
  return strata::run_main([&] {
    const std::string folder = examples::parse_folder(argc, argv, "wide_and_deep_run");
    train(examples::parse(argc, argv, {.epochs = 4, .batch = 64, .devices = {}}), folder);
  });
}
