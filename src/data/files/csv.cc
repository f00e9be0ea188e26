#include "strata/data/csv.h"

#include "data/bytes.h"
#include "data/files/csv_file.h"
#include "data/files/parse_number.h"
#include "strata/data/example.h"

namespace strata::data {
namespace {

using Type = CsvColumn::Type;

struct Format {
  std::vector<CsvColumn> columns;
  CsvOptions options;
};

const char* name_of(Type type) {
  switch (type) {
    case Type::kInt32:
      return "an int32";
    case Type::kInt64:
      return "an int64";
    case Type::kFloat32:
      return "a float32";
    case Type::kFloat64:
      return "a float64";
    case Type::kString:
      break;
  }
  return "a string";
}

at::Tensor default_of(const CsvColumn& column) {
  switch (column.type) {
    case Type::kInt32:
      return detail::scalar_of(static_cast<int32_t>(*column.default_int));
    case Type::kInt64:
      return detail::scalar_of(*column.default_int);
    case Type::kFloat32:
      return detail::scalar_of(static_cast<float>(*column.default_float));
    case Type::kFloat64:
      return detail::scalar_of(*column.default_float);
    case Type::kString:
      break;
  }
  return bytes_tensor(*column.default_string);
}

bool has_default(const CsvColumn& column) {
  switch (column.type) {
    case Type::kInt32:
    case Type::kInt64:
      return column.default_int.has_value();
    case Type::kFloat32:
    case Type::kFloat64:
      return column.default_float.has_value();
    case Type::kString:
      break;
  }
  return column.default_string.has_value();
}

template <class T>
at::Tensor number(std::string_view text) {
  T value{};
  return detail::parse_number(text, value) ? detail::scalar_of(value) : at::Tensor();
}

// Undefined if `text` is no such number.
at::Tensor value_of(Type type, std::string_view text) {
  switch (type) {
    case Type::kInt32:
      return number<int32_t>(text);
    case Type::kInt64:
      return number<int64_t>(text);
    case Type::kFloat32:
      return number<float>(text);
    case Type::kFloat64:
      return number<double>(text);
    case Type::kString:
      break;
  }
  return bytes_tensor(text);
}

class CsvElements final : public detail::CsvFile {
 public:
  CsvElements(const std::string& path, const Format& format)
      : CsvFile("csv", path, format.options), format_(format) {}

  bool next(Example& out) override {
    if (!next_record()) return false;
    out.fields.clear();
    const auto& selected = format_.options.select_cols;
    const size_t wanted = format_.columns.size();
    for (size_t c = 0; c < wanted; ++c) {
      const size_t column = selected.empty() ? c : static_cast<size_t>(selected[c]);
      if (column >= num_fields()) fail_count();
      out.fields.push_back(field(column, format_.columns[c]));
    }
    if (selected.empty() && num_fields() > wanted) fail_count();
    return true;
  }

 private:
  at::Tensor field(size_t column, const CsvColumn& wanted) {
    const std::string_view found = text(column);
    if (is_missing(found)) {
      STRATA_CHECK(has_default(wanted), kDataLoss, where(column), "got no value; expected ",
                   name_of(wanted.type), "; give the column a default, or mend the file");
      return default_of(wanted);
    }
    at::Tensor value = value_of(wanted.type, found);
    STRATA_CHECK(value.defined(), kDataLoss, where(column), "got \"", shown(found), "\"; expected ",
                 name_of(wanted.type));
    return value;
  }

  [[noreturn]] void fail_count() const {
    const auto& selected = format_.options.select_cols;
    throw Error(ErrorCode::kDataLoss,
                str_cat(where(), "got ", num_fields(), num_fields() == 1 ? " field" : " fields",
                        "; expected ",
                        selected.empty() ? str_cat(format_.columns.size())
                                         : str_cat("at least ", selected.back() + 1)));
  }

  const Format& format_;
};

ElementSpec spec_of(const std::vector<CsvColumn>& columns) {
  ElementSpec spec;
  for (const CsvColumn& column : columns) {
    switch (column.type) {
      case Type::kInt32:
        spec.push_back({{}, at::kInt});
        break;
      case Type::kInt64:
        spec.push_back({{}, at::kLong});
        break;
      case Type::kFloat32:
        spec.push_back({{}, at::kFloat});
        break;
      case Type::kFloat64:
        spec.push_back({{}, at::kDouble});
        break;
      case Type::kString:
        spec.push_back({{-1}, at::kByte});
        break;
    }
  }
  return spec;
}

void check_options(const std::vector<CsvColumn>& columns, const CsvOptions& options) {
  STRATA_CHECK(!columns.empty(), kInvalidArgument,
               "[data] csv: got no columns; expected the type of each");
  const char delim = options.field_delim;
  STRATA_CHECK(delim != '\n' && delim != '\r' && !(delim == '"' && options.use_quote_delim),
               kInvalidArgument, "[data] csv: got a field_delim of code ", int{delim},
               "; expected something else than a line end or a quote");
  STRATA_CHECK(options.buffer_size >= 1, kInvalidArgument,
               "[data] csv: got buffer_size 0; expected at least 1 byte");
  const auto& selected = options.select_cols;
  STRATA_CHECK(selected.empty() || selected.size() == columns.size(), kInvalidArgument,
               "[data] csv: got ", selected.size(), " select_cols and ", columns.size(),
               " column types; expected a type for each selected column");
  for (size_t i = 0; i < selected.size(); ++i) {
    STRATA_CHECK(selected[i] >= 0 && (i == 0 || selected[i] > selected[i - 1]), kInvalidArgument,
                 "[data] csv: got ", selected[i], " as select_cols[", i,
                 "]; expected increasing numbers from 0");
  }
}

}  // namespace

CsvColumn CsvColumn::int32(std::optional<int32_t> default_value) {
  return {.type = Type::kInt32, .default_int = default_value};
}
CsvColumn CsvColumn::int64(std::optional<int64_t> default_value) {
  return {.type = Type::kInt64, .default_int = default_value};
}
CsvColumn CsvColumn::float32(std::optional<float> default_value) {
  return {.type = Type::kFloat32, .default_float = default_value};
}
CsvColumn CsvColumn::float64(std::optional<double> default_value) {
  return {.type = Type::kFloat64, .default_float = default_value};
}
CsvColumn CsvColumn::string(std::optional<std::string> default_value) {
  return {.type = Type::kString, .default_string = std::move(default_value)};
}

Dataset csv(std::vector<std::string> files, std::vector<CsvColumn> columns,
            const CsvOptions& options) {
  check_options(columns, options);
  const auto format = std::make_shared<const Format>(Format{std::move(columns), options});
  return detail::files_dataset({.name = "csv",
                                .place_size = 2,
                                .spec = spec_of(format->columns),
                                .open =
                                    [format](const std::string& path) {
                                      return std::make_unique<CsvElements>(path, *format);
                                    }},
                               std::move(files), "csv");
}

}  // namespace strata::data
