#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/buffered_reader.h"

namespace strata::data::detail {

struct CsvField {
  std::string_view text;        ///< between the quotes, if there are some
  bool doubled_quotes = false;  ///< "" in it stands for "
  const char* error = nullptr;
};

/// Splits the bytes of a CSV file into records.
class CsvRecordReader {
 public:
  CsvRecordReader(BufferedReader& bytes, char delim, bool use_quotes)
      : bytes_(bytes), delim_(delim), use_quotes_(use_quotes) {}

  /// @return false at the end of the file. `fields` are valid until the next call.
  bool next(std::vector<CsvField>& fields);

  /// Of the record that `next` gave last, from 1.
  int64_t line() const { return line_; }

  /// How many lines lie behind.
  int64_t lines_read() const { return lines_read_; }
  void set_lines_read(int64_t lines) { lines_read_ = lines; }

 private:
  bool split(std::string_view ahead, bool at_end, std::vector<CsvField>& fields,
             size_t& size) const;
  bool split_quoted(std::string_view ahead, bool at_end, size_t& at, CsvField& field) const;
  bool is_end_of_field(char c) const { return c == delim_ || c == '\n' || c == '\r'; }

  BufferedReader& bytes_;
  char delim_;
  bool use_quotes_;
  int64_t line_ = 0;
  int64_t lines_read_ = 0;
};

/// `field` as it was meant; `scratch` holds it where quotes are undone.
std::string_view unquoted(const CsvField& field, std::string& scratch);

}  // namespace strata::data::detail
