// Against tests/golden/tf_data.json: what tf.data gives for small datasets.

#include <ATen/ops/full.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/elements.h"
#include "support/source_path.h"

namespace strata::data {
namespace {

using Longs = std::vector<int64_t>;
using nlohmann::json;

std::vector<json> cases_of(const std::string& name) {
  std::ifstream file(test::source_path("tests/golden/tf_data.json"));
  const json all = json::parse(file);
  std::vector<json> found;
  for (const json& each : all["cases"]) {
    if (each["case"] == name) found.push_back(each);
  }
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

json to_json(const at::Tensor& tensor) {
  if (tensor.dim() == 0) return tensor.item<int64_t>();
  json list = json::array();
  for (int64_t i = 0; i < tensor.size(0); ++i) list.push_back(to_json(tensor.select(0, i)));
  return list;
}

json to_json(const Dataset& dataset) {
  json list = json::array();
  for (const Example& element : dataset) list.push_back(to_json(element.x()));
  return list;
}

/// Element i: lengths[i] times the value i + 1.
Dataset ragged(const Longs& lengths) {
  return Dataset::range(static_cast<int64_t>(lengths.size())).map([lengths](const Example& e) {
    const auto i = e.x().item<int64_t>();
    return Example{at::full({lengths[static_cast<size_t>(i)]}, i + 1, at::kLong)};
  });
}

TEST(TfDataTest, Window) {
  for (const json& each : cases_of("window")) {
    SCOPED_TRACE(each.dump());
    const WindowOptions options{.size = each["size"],
                                .shift = each["shift"],
                                .stride = each["stride"],
                                .drop_remainder = each["drop"]};
    const Dataset numbers = Dataset::range(each["n"].get<int64_t>());
    EXPECT_EQ(to_json(numbers.window(options)), each["out"]);
    EXPECT_EQ(numbers.window(options).cardinality(), each["cardinality"]);
    json flat = json::array();
    for (const json& window : each["out"]) flat.insert(flat.end(), window.begin(), window.end());
    EXPECT_EQ(to_json(numbers.window(options, [](const Dataset& window) { return window; })), flat);
  }
}

TEST(TfDataTest, Interleave) {
  for (const json& each : cases_of("interleave")) {
    SCOPED_TRACE(each.dump());
    const auto counts = each["counts"].get<Longs>();
    const Dataset source = Dataset::range(static_cast<int64_t>(counts.size()));
    const auto fn = [counts](const Example& e) {
      const auto i = e.x().item<int64_t>();
      return Dataset::range(100 * i, 100 * i + counts[static_cast<size_t>(i)]);
    };
    for (const int64_t calls : {0, 1, 3}) {
      EXPECT_EQ(to_json(source.interleave(fn, {.cycle_length = each["cycle"],
                                               .block_length = each["block"],
                                               .num_parallel_calls = calls})),
                each["out"]);
    }
    if (each["cycle"] == 1) {
      EXPECT_EQ(to_json(source.flat_map(fn)), each["out"]);
    }
  }
}

TEST(TfDataTest, PaddedBatch) {
  for (const json& each : cases_of("padded_batch")) {
    SCOPED_TRACE(each.dump());
    PaddedBatchOptions options{.padding_values = {-7}, .drop_remainder = each["drop"]};
    if (!each["shape"].empty()) options.padded_shapes = {each["shape"].get<Longs>()};
    EXPECT_EQ(to_json(ragged(each["lengths"].get<Longs>()).padded_batch(each["batch"], options)),
              each["out"]);
  }
}

TEST(TfDataTest, BucketBySequenceLength) {
  for (const json& each : cases_of("bucket")) {
    SCOPED_TRACE(each.dump());
    const Dataset buckets =
        ragged(each["lengths"].get<Longs>())
            .bucket_by_sequence_length([](const Example& e) { return e.x().size(0); },
                                       {.bucket_boundaries = each["boundaries"],
                                        .bucket_batch_sizes = each["sizes"],
                                        .pad_to_bucket_boundary = each["boundary"],
                                        .drop_remainder = each["drop"]});
    EXPECT_EQ(to_json(buckets), each["out"]);
  }
}

TEST(TfDataTest, GroupByWindow) {
  for (const json& each : cases_of("group_by_window")) {
    SCOPED_TRACE(each.dump());
    const int64_t mod = each["mod"];
    const Dataset groups =
        Dataset::range(each["n"].get<int64_t>())
            .group_by_window(
                [mod](const Example& e) { return mod - 1 - e.x().item<int64_t>() % mod; },
                [](int64_t, const Dataset& window) { return window.batch(2); },
                each["size"].get<int64_t>());
    EXPECT_EQ(to_json(groups), each["out"]);
  }
}

TEST(TfDataTest, ChooseFromDatasets) {
  for (const json& each : cases_of("choose")) {
    SCOPED_TRACE(each.dump());
    std::vector<Dataset> datasets;
    for (const int64_t n : each["sizes"].get<Longs>()) {
      const auto first = static_cast<int64_t>(100 * datasets.size());
      datasets.push_back(Dataset::range(first, first + n));
    }
    const Dataset choices = Dataset::from_tensor_slices({longs(each["choices"].get<Longs>())});
    EXPECT_EQ(to_json(Dataset::choose_from_datasets(datasets, choices, each["stop"].get<bool>())),
              each["out"]);
  }
}

TEST(TfDataTest, Rebatch) {
  for (const json& each : cases_of("rebatch")) {
    SCOPED_TRACE(each.dump());
    EXPECT_EQ(
        to_json(Dataset::range(each["n"].get<int64_t>())
                    .batch(each["batch"])
                    .rebatch({each["size"].get<int64_t>()}, {.drop_remainder = each["drop"]})),
        each["out"]);
  }
}

/// Batches without a row among them, also behind the last row.
TEST(TfDataTest, RebatchInTurns) {
  for (const json& each : cases_of("rebatch in turns")) {
    SCOPED_TRACE(each.dump());
    EXPECT_EQ(to_json(Dataset::range(each["n"].get<int64_t>())
                          .batch(each["batch"])
                          .rebatch(each["sizes"].get<std::vector<int64_t>>(),
                                   {.drop_remainder = each["drop"]})),
              each["out"]);
  }
}

TEST(TfDataTest, Cardinality) {
  const Dataset base = Dataset::range(10), endless = Dataset::range(3).repeat();
  const auto above3 = [](const Example& e) { return e.x().item<int64_t>() > 3; };
  const auto two = [](const Example&) { return Dataset::range(2); };
  const Dataset filtered = base.filter(above3);
  const std::map<std::string, Dataset> datasets = {
      {"range", base},
      {"empty", Dataset::range(0)},
      {"endless", endless},
      {"filter", filtered},
      {"concatenate", base.concatenate(Dataset::range(5))},
      {"concatenate_endless", base.concatenate(endless)},
      {"concatenate_filter", base.concatenate(filtered)},
      {"flat_map", base.flat_map(two)},
      {"interleave", base.interleave(two, {.cycle_length = 2})},
      {"enumerate", base.enumerate()},
      {"take_while", base.take_while(above3)},
      {"padded_batch", base.padded_batch(3)},
      {"padded_batch_drop", base.padded_batch(3, {.drop_remainder = true})},
      {"cache", base.cache()},
      {"prefetch", base.prefetch(2)},
      {"ignore_errors", base.ignore_errors()},
  };
  const auto cases = cases_of("cardinality");
  EXPECT_EQ(cases.size(), datasets.size());
  for (const json& each : cases)
    EXPECT_EQ(datasets.at(each["name"]).cardinality(), each["out"]) << each["name"];
}

}  // namespace
}  // namespace strata::data
