#include "data/files/csv_file.h"

namespace strata::data::detail {

CsvFile::CsvFile(const char* call, const std::string& path, const CsvOptions& options)
    : call_(call),
      path_(path),
      options_(options),
      bytes_(open_byte_reader(path, options.compression), options.buffer_size),
      records_(bytes_, {.source = str_cat("[data] ", call, ": ", path),
                        .delim = options.field_delim,
                        .use_quotes = options.use_quote_delim,
                        .max_record_bytes = options.max_record_bytes,
                        .max_fields = options.max_fields}),
      header_ahead_(options.header) {}

std::vector<int64_t> CsvFile::place() const {
  return {static_cast<int64_t>(bytes_.offset()), records_.lines_read()};
}

void CsvFile::go_to(std::span<const int64_t> place) {
  seek_saved_offset(bytes_, path_, place[0]);
  records_.set_lines_read(place[1]);
  header_ahead_ = false;
}

bool CsvFile::next_record() {
  if (header_ahead_) {
    header_ahead_ = false;
    if (!records_.next(fields_)) return false;
  }
  return records_.next(fields_);
}

std::string_view CsvFile::text(size_t column) {
  const CsvField& field = fields_[column];
  STRATA_CHECK(field.error == nullptr, kDataLoss, where(column), "got ", field.error,
               "; expected \"...\" around fields with quotes, delimiters or line ends, and \"\" "
               "for a quote");
  return unquoted(field, scratch_);
}

std::string CsvFile::where() const {
  return str_cat("[data] ", call_, ": ", path_, ", line ", records_.line(), ": ");
}

std::string CsvFile::where(size_t column) const {
  return str_cat("[data] ", call_, ": ", path_, ", line ", records_.line(), ", column ", column,
                 ": ");
}

}  // namespace strata::data::detail
