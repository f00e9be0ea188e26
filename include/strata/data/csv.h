#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/data/options.h"

namespace strata::data {

/// The type of a column, and the value of a field that is empty (or the NA value). A column without
/// a default is required.
struct STRATA_API CsvColumn {
  enum class Type { kInt32, kInt64, kFloat32, kFloat64, kString };

  Type type = Type::kFloat32;
  std::optional<int64_t> default_int = std::nullopt;
  std::optional<double> default_float = std::nullopt;
  std::optional<std::string> default_string = std::nullopt;

  static CsvColumn int32(std::optional<int32_t> default_value = std::nullopt);
  static CsvColumn int64(std::optional<int64_t> default_value = std::nullopt);
  static CsvColumn float32(std::optional<float> default_value = std::nullopt);
  static CsvColumn float64(std::optional<double> default_value = std::nullopt);
  static CsvColumn string(std::optional<std::string> default_value = std::nullopt);
};

struct CsvOptions {
  bool header = false;  ///< the first record of each file is skipped
  char field_delim = ',';
  std::vector<int64_t> select_cols =
      {};                       ///< columns to take, counted from 0, increasing; empty: all
  std::string na_value = {};    ///< another text for a missing value, beside the empty one
  bool use_quote_delim = true;  ///< whether "..." may contain delimiters, line ends, and ""
  Compression compression = Compression::kAuto;
  size_t buffer_size = 262144;  ///< bytes read at a time
  /// The largest size of a record; a larger one is kResourceExhausted and ends its file. A quote
  /// that is never closed makes one record of the rest of the file.
  uint64_t max_record_bytes = uint64_t{64} << 20;
  uint64_t max_fields = 1'000'000;  ///< the most fields of a record
};

/// The records of CSV `files` (RFC 4180), one file after the other. Element: one field for each
/// column, a scalar of the column's type; strings are their bytes, uint8 `[length]`. Records end
/// with `\n`, `\r\n` or `\r`; spaces around numbers are ignored.
/// @param columns  One for each selected column.
/// @throws Error kInvalidArgument: the options; from `next`: as FileSystem::open; kDataLoss: a
/// required field that is missing, no number, another number of fields, wrong quotes; names file,
/// line (from 1) and column (from 0). The next call continues with the next record.
/// kResourceExhausted: a record beyond the options' limits; the next call continues with the next
/// file. Memory: at most twice `max_record_bytes`, and 32 bytes a field. Positions: file and
/// offset, as `text_lines`.   Source: tf.data.experimental.CsvDataset.
STRATA_API Dataset csv(std::vector<std::string> files, std::vector<CsvColumn> columns,
                       const CsvOptions& options = {});

struct CsvMatrixOptions {
  int64_t label_column = -1;  ///< -1: the last
  std::vector<std::string> classes =
      {};  ///< labels as texts: the label is the index; empty: numbers
  bool header = true;
  char field_delim = ',';
  std::string na_value = {};
  std::optional<float> default_value = std::nullopt;  ///< for missing features; unset: an error
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = CsvOptions().max_record_bytes;
  uint64_t max_fields = CsvOptions().max_fields;
};

/// A table of numbers: element = x float32 `[columns - 1]`, y int64 scalar, the label. The number
/// of columns is that of the first record of the first file, which this call reads.
/// @throws Error as `csv`; kInvalidArgument: no files, an empty first file, a label column that
/// does not exist.
STRATA_API Dataset csv_matrix(std::vector<std::string> files, const CsvMatrixOptions& options = {});

}  // namespace strata::data
