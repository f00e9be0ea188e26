#include <algorithm>

#include "data/bytes.h"
#include "data/files/csv_file.h"
#include "data/files/parse_number.h"
#include "strata/data/csv.h"

namespace strata::data {
namespace {

struct MatrixFormat {
  CsvMatrixOptions options;
  CsvOptions csv;
  size_t columns = 0;
  size_t label = 0;
};

class MatrixRows final : public detail::CsvFile {
 public:
  MatrixRows(const std::string& path, const MatrixFormat& format)
      : CsvFile("csv_matrix", path, format.csv), format_(format) {}

  bool next(Example& out) override {
    if (!next_record()) return false;
    STRATA_CHECK(num_fields() == format_.columns, kDataLoss, where(), "got ", num_fields(),
                 " fields; expected ", format_.columns, ", as in the first record");
    at::Tensor x = detail::empty_tensor({static_cast<int64_t>(format_.columns) - 1}, at::kFloat);
    auto* to = static_cast<float*>(x.mutable_data_ptr());
    for (size_t column = 0; column < format_.columns; ++column)
      if (column != format_.label) *to++ = feature(column);
    out.fields.clear();
    out.fields.push_back(std::move(x));
    out.fields.push_back(detail::scalar_of(label()));
    return true;
  }

 private:
  float feature(size_t column) {
    const std::string_view found = text(column);
    if (is_missing(found)) {
      STRATA_CHECK(format_.options.default_value.has_value(), kDataLoss, where(column),
                   "got no value; expected a number; give default_value, or mend the file");
      return *format_.options.default_value;
    }
    float value = 0;
    STRATA_CHECK(detail::parse_number(found, value), kDataLoss, where(column), "got \"",
                 shown(found), "\"; expected a number");
    return value;
  }

  int64_t label() {
    const std::string_view found = text(format_.label);
    const auto& classes = format_.options.classes;
    if (!classes.empty()) {
      const auto place = std::find(classes.begin(), classes.end(), found);
      STRATA_CHECK(place != classes.end(), kDataLoss, where(format_.label), "got label \"",
                   shown(found), "\"; expected one of the ", classes.size(), " classes");
      return place - classes.begin();
    }
    int64_t value = 0;
    STRATA_CHECK(
        detail::parse_number(found, value), kDataLoss, where(format_.label), "got label \"",
        shown(found),
        "\"; expected a whole number; name the classes in CsvMatrixOptions if they are texts");
    return value;
  }

  const MatrixFormat& format_;
};

size_t count_columns(const std::string& path, const CsvMatrixOptions& options) {
  detail::BufferedReader bytes(detail::open_byte_reader(path, options.compression),
                               CsvOptions().buffer_size);
  detail::CsvRecordReader records(bytes, {.source = "[data] csv_matrix: " + path,
                                          .delim = options.field_delim,
                                          .max_record_bytes = options.max_record_bytes,
                                          .max_fields = options.max_fields});
  std::vector<detail::CsvField> fields;
  STRATA_CHECK(records.next(fields), kInvalidArgument, "[data] csv_matrix: ", path,
               " is empty; expected at least ", options.header ? "a header" : "a record",
               ", to count the columns");
  return fields.size();
}

}  // namespace

Dataset csv_matrix(std::vector<std::string> files, const CsvMatrixOptions& options) {
  STRATA_CHECK(!files.empty(), kInvalidArgument,
               "[data] csv_matrix: got no files; expected at least one");
  MatrixFormat format{.options = options,
                      .csv = {.header = options.header,
                              .field_delim = options.field_delim,
                              .na_value = options.na_value,
                              .compression = options.compression,
                              .max_record_bytes = options.max_record_bytes,
                              .max_fields = options.max_fields},
                      .columns = count_columns(files[0], options)};
  const auto columns = static_cast<int64_t>(format.columns);
  STRATA_CHECK(options.label_column >= -1 && options.label_column < columns, kInvalidArgument,
               "[data] csv_matrix: got label_column ", options.label_column, " and ", columns,
               " columns in ", files[0], "; expected one of them, or -1 for the last");
  format.label = static_cast<size_t>(options.label_column < 0 ? columns - 1 : options.label_column);
  const auto shared = std::make_shared<const MatrixFormat>(std::move(format));
  return detail::files_dataset({.name = "csv_matrix",
                                .place_size = 2,
                                .spec = {{{columns - 1}, at::kFloat}, {{}, at::kLong}},
                                .open =
                                    [shared](const std::string& path) {
                                      return std::make_unique<MatrixRows>(path, *shared);
                                    }},
                               std::move(files), "csv_matrix");
}

}  // namespace strata::data
