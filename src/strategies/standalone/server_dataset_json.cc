#include "strategies/standalone/server_dataset_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/checked_size.h"
#include "strata/core/error.h"

namespace strata::standalone {
namespace {

constexpr const char* kWhere = "[standalone] server_dataset";
constexpr size_t kMostFiles = 100'000;
constexpr size_t kMostFields = 1'000;
constexpr int64_t kMostRows = int64_t{1} << 32;  // of a batch, a shuffle's buffer
constexpr int64_t kLargestSide = 16'384;
constexpr int64_t kMostValues = int64_t{1} << 32;

Json texts(const std::vector<std::string>& all) {
  Json array = Json::array();
  for (const std::string& each : all) array.push_back(each);
  return array;
}

std::vector<std::string> texts_of(const Json& json) {
  std::vector<std::string> all;
  for (const Json& each : json.as_array()) all.push_back(each.as_string());
  return all;
}

}  // namespace

void check_dataset(const ServerDatasetOptions& options) {
  options.format.check(kWhere);
  const auto require = [](bool holds, const auto&... what) {
    STRATA_CHECK(holds, kInvalidArgument, kWhere, ": got ", what...);
  };
  const bool idx = options.format == ServerFormat::kIdx;
  const bool folder = options.format == ServerFormat::kImageFolder;
  require(!options.files.empty() && options.files.size() <= kMostFiles, options.files.size(),
          " files; expected 1 to ", kMostFiles);
  require(!idx || options.files.size() == 2, options.files.size(),
          " files; expected two with format='idx': images and labels");
  require(!folder || options.files.size() == 1, options.files.size(),
          " folders; expected one with format='image_folder'");
  require(options.batch_size >= 1 && options.batch_size <= kMostRows, "batch_size ",
          options.batch_size, "; expected 1 or more");
  require(options.shuffle >= 0 && options.shuffle <= kMostRows, "shuffle ", options.shuffle,
          "; expected the size of its buffer, or 0");
  require(options.batches >= 0, "batches ", options.batches, "; expected 0 (all) or more");
  const bool records = options.format == ServerFormat::kRecords;
  require(records ? !options.fields.empty() && options.fields.size() <= kMostFields
                  : options.fields.empty(),
          options.fields.size(), " fields with format='", options.format.word(), "'; expected ",
          records ? "one or more" : "none");
  for (const RecordField& field : options.fields) {
    field.type.check(kWhere);
    const auto values = strata::detail::checked_product<int64_t>(field.shape);
    require(!field.name.empty() && values && *values <= kMostValues &&
                (field.type != RecordFieldType::kImage || field.shape.empty()),
            "the field '", field.name, "' with ", field.shape.size(),
            " sizes; expected a feature's name, and sizes that are no image's");
  }
  for (const int64_t side : {options.image_height, options.image_width}) {
    require(side >= 1 && side <= kLargestSide, "images with a side of ", side, "; expected 1 to ",
            kLargestSide);
  }
}

Json to_json(const ServerDatasetOptions& options) {
  Json fields = Json::array();
  for (const RecordField& field : options.fields) {
    Json shape = Json::array();
    for (const int64_t size : field.shape) shape.push_back(size);
    fields.push_back(Json::object()
                         .set("name", field.name)
                         .set("type", field.type.word())
                         .set("shape", std::move(shape)));
  }
  return Json::object()
      .set("format", options.format.word())
      .set("files", texts(options.files))
      .set("batch_size", options.batch_size)
      .set("shuffle", options.shuffle)
      .set("seed", static_cast<int64_t>(options.seed))
      .set("batches", options.batches)
      .set("header", options.header)
      .set("label_column", options.label_column)
      .set("classes", texts(options.classes))
      .set("fields", std::move(fields))
      .set("image_height", options.image_height)
      .set("image_width", options.image_width);
}

ServerDatasetOptions server_dataset_of(const Json& json) {
  ServerDatasetOptions options{.format = json.at("format").as_string(),
                               .files = texts_of(json.at("files")),
                               .batch_size = json.at("batch_size").as_int(),
                               .shuffle = json.at("shuffle").as_int(),
                               .seed = static_cast<uint64_t>(json.at("seed").as_int()),
                               .batches = json.at("batches").as_int(),
                               .header = json.at("header").as_bool(),
                               .label_column = json.at("label_column").as_int(),
                               .classes = texts_of(json.at("classes")),
                               .fields = {},
                               .image_height = json.at("image_height").as_int(),
                               .image_width = json.at("image_width").as_int()};
  for (const Json& field : json.at("fields").as_array()) {
    RecordField made{.name = field.at("name").as_string(), .type = field.at("type").as_string()};
    for (const Json& size : field.at("shape").as_array()) made.shape.push_back(size.as_int());
    options.fields.push_back(std::move(made));
  }
  check_dataset(options);
  return options;
}

}  // namespace strata::standalone
