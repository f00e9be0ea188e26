#pragma once

#include <string>
#include <vector>

#include "data/files/csv_record.h"
#include "data/files/files_source.h"
#include "strata/data/csv.h"

namespace strata::data::detail {

/// What the ways to read a CSV file share: its records, and where they are.
class CsvFile : public FileElements {
 public:
  CsvFile(const char* call, const std::string& path, const CsvOptions& options);

  bool skip_one() final { return next_record(); }
  std::vector<int64_t> place() const final;
  void go_to(std::span<const int64_t> place) final;

 protected:
  /// @return false at the end.
  bool next_record();

  size_t num_fields() const { return fields_.size(); }

  /// Field `column` of this record; valid until the next call.
  std::string_view text(size_t column);

  bool is_missing(std::string_view text) const { return text.empty() || text == options_.na_value; }

  std::string where() const;
  std::string where(size_t column) const;

  /// Enough of a text to find it.
  static std::string_view shown(std::string_view text) { return text.substr(0, 40); }

 private:
  const char* call_;
  std::string path_;
  const CsvOptions& options_;
  BufferedReader bytes_;
  CsvRecordReader records_;
  bool header_ahead_;
  std::vector<CsvField> fields_;
  std::string scratch_;
};

}  // namespace strata::data::detail
