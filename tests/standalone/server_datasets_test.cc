// Datasets that the servers of a standalone client read themselves.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/core/file_system.h"
#include "strata/data/csv.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_folder.h"
#include "strata/data/image_ops.h"
#include "strata/data/mnist.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

constexpr int64_t kImages = 50;

void write_idx(const std::string& path, const at::Tensor& values) {
  std::ofstream out(path, std::ios::binary);
  const auto number = [&](int64_t value) {
    for (const int shift : {24, 16, 8, 0}) out.put(static_cast<char>(value >> shift));
  };
  number(0x0800 + values.dim());
  for (const int64_t size : values.sizes()) number(size);
  out.write(static_cast<const char*>(values.const_data_ptr()),
            static_cast<std::streamsize>(values.nbytes()));
}

/// A folder with files of each format.
class Files {
 public:
  Files() {
    write_idx(
        path("images"),
        (at::arange(kImages * 20) * 37).remainder(251).to(at::kByte).reshape({kImages, 4, 5}));
    write_idx(path("labels"), (at::arange(kImages) * 7).remainder(3).to(at::kByte));
    std::ofstream table(path("table.csv"));
    table << "a,b,label\n";
    for (int i = 0; i < 21; ++i) table << i * 0.5 << ',' << -i << ',' << "xyz"[i % 3] << '\n';
    data::TfRecordWriter writer(path("records"));
    for (int i = 0; i < 9; ++i) {
      writer.write(data::serialize_example(
          {{"picture", data::TfFeature::bytes({data::encode_png(picture(i))})},
           {"numbers", data::TfFeature::floats({1.5F * static_cast<float>(i), 2})},
           {"label", data::TfFeature::int64s({i % 4})}}));
    }
    writer.close();
    for (int i = 0; i < 6; ++i) {
      const std::string folder = path(i % 2 == 0 ? "pictures/cats" : "pictures/dogs");
      std::filesystem::create_directories(folder);
      std::ofstream(join_path(folder, str_cat(i, ".png"))) << data::encode_png(picture(i));
    }
  }

  std::string path(const std::string& name) const { return join_path(folder_.path(), name); }
  std::vector<std::string> option() const { return {"--data", folder_.path()}; }

 private:
  static at::Tensor picture(int i) {
    return (at::arange(6 * 8 * 3) * 11 + i * 29).remainder(256).to(at::kByte).reshape({6, 8, 3});
  }

  test::TempFolder folder_;
};

const ServerDatasetOptions kIdxFiles{
    .format = "idx", .files = {"images", "labels"}, .batch_size = 8, .shuffle = 20, .seed = 3};

/// The same batches, read here.
data::Dataset idx_batches(const Files& files) {
  return data::Dataset::idx_files(files.path("images"), files.path("labels"))
      .shuffle(20, {.seed = 3})
      .batch(8, {.drop_remainder = true})
      .map([](data::Example batch) {
        batch = data::scale_pixels(std::move(batch));
        batch.fields[1] = batch.y().to(at::kLong);
        return batch;
      });
}

/// Two epochs, in a loop of one's own. @return SHA-256 of the weights.
std::string train_batches(MirroredStrategy& strategy, const data::Dataset& batches) {
  torch::manual_seed(3);
  const auto module = strategy.replicate([] { return torch::nn::Linear(20, 3); });
  optimizers::Adam adam(module.variables(), {.learning_rate = 0.01});
  const auto step = strata::function([&](const data::Example& batch) {
    const at::Tensor logits = module->forward(batch.x().flatten(1));
    const at::Tensor losses =
        losses::sparse_categorical_crossentropy(batch.y(), logits, {.from_logits = true});
    const at::Tensor loss = compute_average_loss(losses, 8);
    adam.minimize(loss);
    return loss.detach();
  });
  const DistributedDataset parts = strategy.distribute(batches);
  const auto steps = static_cast<uint64_t>(parts.cardinality());
  while (strategy.runs() < 2 * steps) {
    auto iterator = parts.iterator(static_cast<int64_t>(strategy.runs() / steps));
    for (uint64_t i = 0; i < strategy.runs() % steps; ++i) (void)iterator.next();
    while (const auto batch = iterator.next()) strategy.run(step, *batch);
  }
  strategy.fetch();
  std::vector<at::Tensor> weights;
  for (const Variable& variable : module.variables()) weights.push_back(variable.on_replica(0));
  return tensor::fingerprint(weights);
}

std::string train_idx_here(const Files& files) {
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  return train_batches(here, idx_batches(files));
}

TEST(ServerDatasetTest, TrainsWithTheBitsOfOneProcess) {
  const Files files;
  const test::StandaloneServers servers(2, files.option());
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  EXPECT_EQ(train_batches(strategy, strategy.server_dataset(kIdxFiles)), train_idx_here(files));
  strategy.close();
}

TEST(ServerDatasetTest, AClientCanBeReplaced) {
  const Files files;
  const test::StandaloneServers servers(1, files.option());
  MirroredOptions options = test::client_of(servers.addresses());
  options.devices = {"cpu:0", "cpu:1"};
  {
    MirroredStrategy lost(options);
    options.standalone.session = lost.session();
    // It ends in the middle of the second epoch.
    EXPECT_ANY_THROW(train_batches(lost, lost.server_dataset(kIdxFiles).map([&](data::Example e) {
      STRATA_CHECK(lost.runs() < 9, kInternal, "the client ends here");
      return e;
    })));
    EXPECT_EQ(lost.runs(), 9U);
  }
  MirroredStrategy strategy(options);
  EXPECT_EQ(strategy.runs(), 9U);
  EXPECT_EQ(train_batches(strategy, strategy.server_dataset(kIdxFiles)), train_idx_here(files));
  strategy.close();
}

std::string fit_dataset(Strategy& strategy, const data::Dataset& batches) {
  torch::manual_seed(3);
  keras::Sequential model = strategy.scope([] {
    keras::Sequential made(keras::Input({4, 5}), {layers::Flatten(), layers::Dense(3)});
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return made;
  });
  model.fit(batches, {.epochs = 3, .verbose = 0});
  return tensor::fingerprint(model->get_weights());
}

TEST(ServerDatasetTest, FitHasTheBitsOfOneProcess) {
  const Files files;
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  const std::string expected = fit_dataset(here, idx_batches(files));
  const test::StandaloneServers servers(2, files.option());
  MirroredStrategy there(test::client_of(servers.addresses()));
  EXPECT_EQ(fit_dataset(there, there.server_dataset(kIdxFiles)), expected);
  there.close();
}

/// What the servers read is what the same calls read here.
void expect_batches(MirroredStrategy& strategy, const ServerDatasetOptions& options,
                    const data::Dataset& expected) {
  const auto step = strata::function([](const data::Example& batch) {
    return batch.map([](const at::Tensor& field) { return field.clone(); });
  });
  const data::Dataset there = strategy.server_dataset(options);
  auto ours = expected.iterator(0);
  int64_t seen = 0;
  for (const data::Example& batch : there) {
    const auto values = strategy.run(step, batch).get(0);
    const auto wanted = ours.next();
    ASSERT_TRUE(wanted) << options.format;
    ASSERT_EQ(values.size(), wanted->size());
    for (int64_t f = 0; f < values.size(); ++f) {
      EXPECT_TRUE(values[f].equal((*wanted)[f])) << options.format << " field " << f;
    }
    ++seen;
  }
  EXPECT_FALSE(ours.next()) << options.format;
  EXPECT_EQ(seen, there.cardinality()) << options.format;
}

TEST(ServerDatasetTest, ReadsEachFormat) {
  const Files files;
  const test::StandaloneServers servers(1, files.option());
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  expect_batches(strategy, kIdxFiles, idx_batches(files));
  expect_batches(
      strategy,
      {.format = "csv", .files = {"table.csv"}, .batch_size = 4, .classes = {"x", "y", "z"}},
      data::csv_matrix({files.path("table.csv")}, {.classes = {"x", "y", "z"}})
          .batch(4, {.drop_remainder = true}));
  const auto sized = [](const at::Tensor& image) {
    return data::resize(image, 3, 4).to(at::kFloat).div(255);
  };
  const data::ExampleParser parser(
      {{"picture", data::FixedLenFeature{data::FeatureType::kBytes}},
       {"numbers", data::FixedLenFeature{data::FeatureType::kFloat, {2}}},
       {"label", data::FixedLenFeature{data::FeatureType::kInt64}}});
  expect_batches(strategy,
                 {.format = "records",
                  .files = {"records"},
                  .batch_size = 2,
                  .shuffle = 4,
                  .seed = 9,
                  .fields = {{"picture", "image"}, {"numbers", "float", {2}}, {"label", "int64"}},
                  .image_height = 3,
                  .image_width = 4},
                 data::tf_records({files.path("records")})
                     .shuffle(4, {.seed = 9})
                     .map([&](const data::Example& record) {
                       data::Example e = parser(record);
                       e.fields[0] =
                           sized(data::decode_image(data::bytes_of(e.x()), {.channels = 3}));
                       return e;
                     })
                     .batch(2, {.drop_remainder = true}));
  expect_batches(strategy,
                 {.format = "image_folder",
                  .files = {"pictures"},
                  .batch_size = 3,
                  .batches = 2,
                  .image_height = 3,
                  .image_width = 4},
                 data::image_folder(files.path("pictures"))
                     .images({.channels = 3})
                     .map([&](const data::Example& e) {
                       return data::Example{sized(e.x()), e.y()};
                     })
                     .batch(3, {.drop_remainder = true}));
  strategy.close();
}

TEST(ServerDatasetTest, ElementsAreForStepsAlone) {
  const Files files;
  const test::StandaloneServers servers(1, files.option());
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  const data::Example batch = *strategy.server_dataset(kIdxFiles).iterator(0).next();
  EXPECT_EQ(batch.x().sizes(), at::IntArrayRef({8, 4, 5}));
  EXPECT_ANY_THROW((void)batch.x().sum().item<float>());
  const auto step = strata::function([](const at::Tensor& x) { return x + 1; });
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"whole rows", "change it in the step"},
                     [&] { strategy.run(step, batch.x().select(1, 0)); }));
  EXPECT_EQ(strategy.run(step, batch.x().narrow(0, 2, 3)).get(0).size(0), 3);
}

TEST(ServerDatasetTest, FilesOutsideOfTheFolderAreRefused) {
  const Files files;
  std::filesystem::create_symlink("/etc/hostname", files.path("link"));
  const test::StandaloneServers servers(1, files.option());
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  for (const std::string& bad :
       {std::string("/etc/hostname"), std::string("../../../etc/hostname"), std::string("link"),
        files.path("images"), std::string("absent")}) {
    ServerDatasetOptions options = kIdxFiles;
    options.files[0] = bad;
    EXPECT_TRUE(throws(ErrorCode::kPermissionDenied, {bad.c_str(), "--data"},
                       [&] { (void)strategy.server_dataset(options); }));
  }
  const test::StandaloneServers without(1);
  MirroredStrategy other(test::client_of(without.addresses()));
  EXPECT_TRUE(throws(ErrorCode::kPermissionDenied, {"reads no files", "--data FOLDER"},
                     [&] { (void)other.server_dataset(kIdxFiles); }));
}

TEST(ServerDatasetTest, SaysWhatIsWrong) {
  const Files files;
  const test::StandaloneServers servers(1, files.option());
  MirroredStrategy strategy(test::client_of(servers.addresses()));
  const auto refuses = [&](ErrorCode code, const char* what, auto change) {
    ServerDatasetOptions options = kIdxFiles;
    change(options);
    EXPECT_TRUE(throws(code, {what}, [&] { (void)strategy.server_dataset(options); })) << what;
  };
  using Options = ServerDatasetOptions;
  refuses(ErrorCode::kInvalidArgument, "format='parquet'",
          [](Options& options) { options.format = "parquet"; });
  refuses(ErrorCode::kInvalidArgument, "1 files",
          [](Options& options) { options.files.pop_back(); });
  refuses(ErrorCode::kInvalidArgument, "batch_size 0",
          [](Options& options) { options.batch_size = 0; });
  refuses(ErrorCode::kInvalidArgument, "the files have 6",
          [](Options& options) { options.batches = 7; });
  refuses(ErrorCode::kInvalidArgument, "0 fields",
          [](Options& options) { options.format = "records"; });
  refuses(ErrorCode::kOutOfRange, "", [](Options& options) { options.batch_size = 1000; });
  refuses(ErrorCode::kDataLoss, "records", [](Options& options) {
    options.files[0] = "records";  // no IDX file
  });
  MirroredStrategy here({.devices = {"cpu:0"}});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"client='in_process'"},
                     [&] { (void)here.server_dataset(kIdxFiles); }));
}

/// A file that is damaged behind its beginning ends the run that reads there, on all servers.
TEST(ServerDatasetTest, ADamagedFileIsNamed) {
  const Files files;
  const Files damaged;
  {
    std::fstream file(damaged.path("records"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-20, std::ios::end);
    file << "damaged";
  }
  const test::StandaloneServers first(1, files.option());
  const test::StandaloneServers second(1, damaged.option());
  MirroredStrategy strategy(test::client_of({first.addresses()[0], second.addresses()[0]}));
  const data::Dataset dataset = strategy.server_dataset({.format = "records",
                                                         .files = {"records"},
                                                         .batch_size = 1,
                                                         .batches = 9,
                                                         .fields = {{"label", "int64"}}});
  const auto step = strata::function(
      [](const at::Tensor& x) { return get_replica_context()->all_reduce(ReduceOp::kSum, x); });
  auto iterator = dataset.iterator(0);
  for (int i = 0; i < 8; ++i) strategy.run(step, iterator.next()->x());
  EXPECT_TRUE(throws(ErrorCode::kDataLoss, {"records", second.addresses()[0].c_str()},
                     [&] { strategy.run(step, iterator.next()->x()); }));
}

}  // namespace
}  // namespace strata
