#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/files/buffered_reader.h"

namespace strata::data::detail {

struct CsvField {
  std::string_view text;        ///< between the quotes, if there are some
  bool doubled_quotes = false;  ///< "" in it means "
  const char* error = nullptr;
};

struct CsvFormat {
  std::string source;  ///< "[data] csv: PATH", for errors
  char delim = ',';
  bool use_quotes = true;
  uint64_t max_record_bytes = 0;
  uint64_t max_fields = 0;
};

/// Splits the bytes of a CSV file into records.
class CsvRecordReader {
 public:
  CsvRecordReader(BufferedReader& bytes, CsvFormat format)
      : bytes_(bytes), format_(std::move(format)) {}

  /// @return false at the end of the file. `fields` are valid until the next call.
  /// @throws Error kResourceExhausted: a record beyond the limits. Then the file is at its end.
  bool next(std::vector<CsvField>& fields);

  /// Of the record that `next` gave last, from 1.
  int64_t line() const { return line_; }

  /// How many lines lie behind.
  int64_t lines_read() const { return lines_read_; }
  void set_lines_read(int64_t lines) {
    lines_read_ = lines;
    gave_up_ = false;
  }

 private:
  bool split(std::string_view ahead, bool at_end, std::vector<CsvField>& fields, size_t& size);
  bool split_quoted(std::string_view ahead, bool at_end, size_t& at, CsvField& field) const;
  bool is_end_of_field(char c) const { return c == format_.delim || c == '\n' || c == '\r'; }
  [[noreturn]] void give_up(uint64_t limit, const char* what, const char* option);

  BufferedReader& bytes_;
  CsvFormat format_;
  int64_t line_ = 0;
  int64_t lines_read_ = 0;
  bool gave_up_ = false;  // where the record ends is not known
};

/// `field` as it was meant; `scratch` holds it where quotes are undone.
std::string_view unquoted(const CsvField& field, std::string& scratch);

}  // namespace strata::data::detail
