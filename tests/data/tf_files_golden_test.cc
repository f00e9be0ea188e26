// Files that TensorFlow wrote read as TensorFlow reads them (tests/golden/make_tf_files.py).
#include <ATen/ATen.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/elements.h"
#include "data/files_support.h"
#include "strata/data/csv.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_ops.h"
#include "strata/data/text_file.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"

namespace strata::data {
namespace {

using nlohmann::json;

const json& expected() {
  static const json all = json::parse(read_file(golden_file("expected.json")));
  return all;
}

// JSON holds bytes as the characters U+0000 to U+00FF.
std::string bytes_of_text(const std::string& utf8) {
  std::string bytes;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80) {
      bytes += utf8[i];
    } else {
      bytes += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3F));
    }
  }
  return bytes;
}

std::vector<std::string> strings_of(const json& list) {
  std::vector<std::string> strings;
  for (const auto& text : list) strings.push_back(bytes_of_text(text.get<std::string>()));
  return strings;
}

at::Tensor pixels(const json& entry) {
  static const std::string all = read_file(golden_file("pixels.bin"));
  const auto shape = entry["shape"].get<std::vector<int64_t>>();
  const auto dtype = entry["dtype"] == "uint8" ? at::kByte : at::kFloat;
  at::Tensor out = at::empty(shape, dtype);
  std::memcpy(out.data_ptr(), all.data() + entry["at"].get<size_t>(), out.nbytes());
  return out;
}

double number_of(const json& value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr)
                           : value.get<double>();
}

std::vector<std::string> strings(const Dataset& dataset) {
  std::vector<std::string> all;
  Iterator iterator = dataset.iterator(0);
  while (const auto element = iterator.next()) all.push_back(to_string(element->x()));
  return all;
}

std::vector<std::string> compressions(const std::string& plain, const std::string& stem) {
  std::vector<std::string> names = {plain};
  if (STRATA_TEST_ZLIB) names.insert(names.end(), {stem + ".gz", stem + ".zlib"});
  return names;
}

TEST(TfFilesTest, Records) {
  const auto wanted = strings_of(expected()["records"]);
  for (const auto& name : compressions("plain.tfrecord", "records.tfrecord")) {
    EXPECT_EQ(strings(tf_records({golden_file(name)})), wanted) << name;
    EXPECT_EQ(strings(tf_records({golden_file(name)}, {.buffer_size = 1})), wanted) << name;
  }
}

TEST(TfFilesTest, Lines) {
  const auto wanted = strings_of(expected()["lines"]);
  for (const auto& name : compressions("lines.txt", "lines.txt")) {
    const Compression compression =
        name.ends_with("zlib") ? Compression::kZlib : Compression::kAuto;
    EXPECT_EQ(strings(text_lines({golden_file(name)}, {.compression = compression})), wanted);
    EXPECT_EQ(
        strings(text_lines({golden_file(name)}, {.compression = compression, .buffer_size = 1})),
        wanted);
  }
}

std::vector<std::pair<std::string, FeatureSpec>> specs() {
  return {{"ints", FixedLenFeature{FeatureType::kInt64, {3}}},
          {"floats", FixedLenFeature{FeatureType::kFloat, {2, 1}}},
          {"name", FixedLenFeature{FeatureType::kBytes}},
          {"optional", FixedLenFeature{FeatureType::kInt64, {}, TfFeature::int64s({-1})}},
          {"colour", FixedLenFeature{FeatureType::kBytes, {2}, TfFeature::bytes({"red", "blue"})}},
          {"varints", VarLenFeature{FeatureType::kInt64}},
          {"varfloats", VarLenFeature{FeatureType::kFloat}},
          {"tags", VarLenFeature{FeatureType::kBytes}},
          {"pairs", FixedLenSequenceFeature{FeatureType::kInt64, {2}, TfFeature::int64s({-5})}},
          {"words", FixedLenSequenceFeature{FeatureType::kBytes, {}, TfFeature::bytes({"pad"})}}};
}

void expect_feature(const ParsedFeature& feature, const json& wanted, const std::string& name) {
  SCOPED_TRACE(name);
  const json& values = wanted.contains("values") ? wanted["values"] : wanted;
  if (values.contains("strings")) {
    EXPECT_EQ(feature.strings(), strings_of(values["strings"]));
  } else {
    std::vector<double> numbers;
    for (const auto& value : values["numbers"]) numbers.push_back(number_of(value));
    const at::Tensor flat = feature.values.flatten().to(at::kDouble);
    EXPECT_EQ(std::vector<double>(flat.const_data_ptr<double>(),
                                  flat.const_data_ptr<double>() + flat.numel()),
              numbers);
    if (!feature.offsets.defined()) {  // an empty list of strings looks like numbers in the JSON
      EXPECT_EQ(feature.values.sizes().vec(), values["shape"].get<std::vector<int64_t>>());
    }
  }
  if (wanted.contains("rows") && wanted["rows"].is_array()) {
    int64_t before = 0;
    const auto rows = wanted["rows"].get<std::vector<int64_t>>();
    for (size_t r = 0; r < rows.size(); ++r) {
      before += rows[r];
      EXPECT_EQ(feature.row_splits[static_cast<int64_t>(r) + 1].item<int64_t>(), before);
    }
  }
}

TEST(TfFilesTest, Examples) {
  const ExampleParser parser(specs());
  const auto records = strings(tf_records({golden_file("examples.tfrecord")}));
  const json& golden = expected()["examples"];
  ASSERT_EQ(records.size(), golden["single"].size());
  for (size_t i = 0; i < records.size(); ++i) {
    const ParsedExample parsed = parser.parse(records[i]);
    for (const auto& [name, wanted] : golden["single"][i].items())
      expect_feature(parsed[name], wanted, str_cat(name, " of example ", i));
  }
  const std::vector<std::string_view> views(records.begin(), records.end());
  const ParsedExample batch = parser.parse_batch(views);
  for (const auto& [name, wanted] : golden["batch"].items())
    expect_feature(batch[name], wanted, name + " of the batch");
}

TEST(TfFilesTest, OurExamplesAreTensorFlowsByteForByte) {
  for (const std::string& bytes : strings_of(expected()["examples"]["bytes"]))
    EXPECT_EQ(serialize_example(decode_example(bytes)), bytes);
}

// Rows as texts; a row that is an error is empty.
std::vector<std::vector<std::string>> table(const Dataset& dataset) {
  std::vector<std::vector<std::string>> rows;
  Iterator iterator = dataset.iterator(0);
  for (;;) {
    try {
      const auto row = iterator.next();
      if (!row) return rows;
      rows.emplace_back();
      for (const at::Tensor& value : row->fields)
        rows.back().push_back(value.dim() == 1 ? to_string(value)
                                               : str_cat(std::hexfloat, value.item<double>()));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      rows.emplace_back();
    }
  }
}

std::vector<std::vector<std::string>> golden_table(const json& golden,
                                                   const std::vector<CsvColumn>& columns) {
  std::vector<std::vector<std::string>> rows;
  for (const json& row : golden) {
    rows.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      const auto text = row[c].get<std::string>();
      rows.back().push_back(columns[c].type == CsvColumn::Type::kString
                                ? bytes_of_text(text)
                                : str_cat(std::hexfloat, std::strtod(text.c_str(), nullptr)));
    }
  }
  return rows;
}

TEST(TfFilesTest, Csv) {
  const std::vector<CsvColumn> columns = {CsvColumn::int64(), CsvColumn::float32(-1),
                                          CsvColumn::string("none"), CsvColumn::int32(),
                                          CsvColumn::float64()};
  const json& golden = expected()["csv"];
  std::vector<std::string> names = {"table.csv"};
  if (STRATA_TEST_ZLIB) names.push_back("table.csv.gz");
  for (const auto& name : names) {
    for (const size_t buffer_size : {1, 7, 1 << 18}) {
      const CsvOptions options{.header = true, .na_value = "NA", .buffer_size = buffer_size};
      EXPECT_EQ(table(csv({golden_file(name)}, columns, options)),
                golden_table(golden["all"], columns))
          << name << ", buffer of " << buffer_size;
    }
  }
  EXPECT_EQ(table(csv({golden_file("table.csv")}, {columns[2], columns[4]},
                      {.header = true, .select_cols = {2, 4}})),
            golden_table(golden["selected"], {columns[2], columns[4]}));
}

TEST(TfFilesTest, BrokenCsv) {
  const std::vector<CsvColumn> columns(2, CsvColumn::int64());
  EXPECT_EQ(table(csv({golden_file("broken.csv")}, columns, {.field_delim = ';'})),
            golden_table(expected()["csv"]["broken"], columns));
}

int64_t max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kLong) - b.to(at::kLong)).abs().max().item<int64_t>();
}

TEST(TfFilesTest, Images) {
  for (const json& image : expected()["images"]) {
    const std::string name = image["file"];
    if (name.ends_with("jpg") ? !STRATA_TEST_JPEG : !STRATA_TEST_PNG) continue;
    for (const json& decoded : image["decoded"]) {
      const at::Tensor wanted = pixels(decoded);
      const at::Tensor got =
          load_image(golden_file(name), {.channels = decoded["channels"].get<int>()});
      ASSERT_EQ(got.sizes(), wanted.sizes()) << name;
      // JPEG leaves the last bit to the decoder.
      EXPECT_LE(max_difference(got, wanted), name.ends_with("jpg") ? 1 : 0)
          << name << ", channels " << decoded["channels"];
      const ImageInfo info = image_info(read_file(golden_file(name)));
      EXPECT_EQ(info.height, wanted.size(0));
      EXPECT_EQ(info.width, wanted.size(1));
      if (decoded["channels"] == 0) {
        EXPECT_EQ(info.channels, wanted.size(2)) << name;
      }
    }
  }
}

TEST(TfFilesTest, Resize) {
  const at::Tensor bytes = pixels(expected()["resize"]["source"]);
  const at::Tensor floats = bytes.to(at::kFloat) / 255 - 0.5;
  for (const json& c : expected()["resize"]["cases"]) {
    const std::string method = c["method"];
    const at::Tensor wanted = pixels(c);
    const bool from_bytes = c["from"] == "uint8";
    const ResizeOptions options{.method = method == "nearest" ? ResizeMethod::kNearest
                                          : method == "area"  ? ResizeMethod::kArea
                                                              : ResizeMethod::kBilinear,
                                .antialias = method == "antialias"};
    const at::Tensor got =
        resize(from_bytes ? bytes : floats, wanted.size(0), wanted.size(1), options);
    ASSERT_EQ(got.sizes(), wanted.sizes());
    ASSERT_EQ(got.scalar_type(), wanted.scalar_type()) << method;
    const double scale = from_bytes ? 255 : 1;
    EXPECT_LE((got.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>(),
              method == "nearest" ? 0 : 2e-6 * scale)
        << method << " to " << wanted.sizes() << " from " << c["from"];
  }
}

TEST(TfFilesTest, CropFlipPadStandardize) {
  const at::Tensor image = pixels(expected()["resize"]["source"]);
  const json& ops = expected()["ops"];
  for (const json& c : ops["central_crop"])
    EXPECT_TRUE(at::equal(central_crop(image, c["fraction"]), pixels(c))) << c["fraction"];
  EXPECT_TRUE(at::equal(flip_left_right(image), pixels(ops["flip"])));
  EXPECT_TRUE(at::equal(pad(image, 2, 1, 3, 4), pixels(ops["pad"])));
  EXPECT_TRUE(
      at::allclose(per_image_standardization(image), pixels(ops["standardized"]), 1e-5, 1e-5));
}

}  // namespace
}  // namespace strata::data
