#include <algorithm>
#include <iomanip>
#include <iostream>
#include <vector>

#include "data/files/buffered_reader.h"
#include "data/files/csv_record.h"
#include "data/files/parse_number.h"
#include "strata/data/csv.h"
#include "strata/data/text_file.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

constexpr size_t kBufferSize = 256 * 1024;

/// What all values of a column are.
struct Column {
  bool integers = true;
  bool numbers = true;
  int64_t missing = 0;

  void see(std::string_view text) {
    int64_t integer = 0;
    double number = 0;
    if (text.empty()) {
      ++missing;
      return;
    }
    integers = integers && data::detail::parse_number(text, integer);
    numbers = numbers && data::detail::parse_number(text, number);
  }
  const char* type() const { return integers ? "int64" : numbers ? "float" : "string"; }
};

using Row = std::vector<std::string>;

void print_table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c)
      std::cout << "  " << std::setw(static_cast<int>(widths[c])) << row[c];
    std::cout << '\n';
  }
}

std::string cell(std::string_view text) {
  const std::string shown = quoted(text, 24);
  return shown.ends_with("...") || shown.size() != text.size() + 2 ? shown : std::string(text);
}

// The first record counts as a header if it holds no numbers, and a later one does.
void print_csv(const InspectPath& path, const InspectOptions& options) {
  data::detail::BufferedReader bytes(data::detail::open_byte_reader(path.path), kBufferSize);
  const char delim = path.name().find(".tsv") != std::string::npos ? '\t' : ',';
  const data::CsvOptions limits;
  data::detail::CsvRecordReader records(bytes, {.source = "[strata inspect] " + path.path,
                                                .delim = delim,
                                                .max_record_bytes = limits.max_record_bytes,
                                                .max_fields = limits.max_fields});
  std::vector<data::detail::CsvField> fields;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string scratch;
  int64_t count = 0, uneven = 0;
  bool first_has_numbers = false;
  for (; records.next(fields); ++count) {
    if (count > 0 && fields.size() != columns.size()) ++uneven;
    columns.resize(std::max(columns.size(), fields.size()));
    Row row;
    for (size_t c = 0; c < fields.size(); ++c) {
      const std::string_view text = data::detail::unquoted(fields[c], scratch);
      double number = 0;
      if (count == 0) {
        first_has_numbers |= data::detail::parse_number(text, number);
      } else {
        columns[c].see(text);
      }
      if (count <= options.limit) row.push_back(cell(text));
    }
    if (count <= options.limit) rows.push_back(std::move(row));
  }
  const bool some_numbers =
      std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.numbers; });
  const bool header = count > 1 && !first_has_numbers && some_numbers;
  if (!header && static_cast<int64_t>(rows.size()) > options.limit) rows.pop_back();
  print_table(rows);
  for (size_t c = 0; c < columns.size(); ++c) {
    std::cout << "column " << c << ": " << columns[c].type();
    if (columns[c].missing > 0) std::cout << ", " << columns[c].missing << " missing";
    std::cout << '\n';
  }
  std::cout << counted(count - header, "record") << (header ? " and a header" : "");
  if (uneven > 0) std::cout << "; " << uneven << " with another number of fields than the first";
  std::cout << '\n';
}

bool is_csv(const InspectPath& path) {
  const std::string name = path.name();
  return !path.is_folder && (name.ends_with(".csv") || name.ends_with(".csv.gz") ||
                             name.ends_with(".tsv") || name.ends_with(".tsv.gz"));
}

void print_text(const InspectPath& path, const InspectOptions& options) {
  int64_t count = 0;
  data::Iterator iterator = data::text_lines({path.path}).iterator(0);
  for (; const auto line = iterator.next(); ++count) {
    if (count < options.limit)
      std::cout << "line " << count + 1 << ": " << quoted(data::bytes_of(line->x()), 100) << '\n';
  }
  std::cout << counted(count, "line") << '\n';
}

bool is_text(const InspectPath& path) {
  return !path.is_folder && std::none_of(path.start.begin(), path.start.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\x1B';
  });
}

}  // namespace

const InspectKind kInspectCsv = {"CSV file", is_csv, print_csv};
const InspectKind kInspectText = {"text", is_text, print_text};

}  // namespace strata::tools
