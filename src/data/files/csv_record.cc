#include "data/files/csv_record.h"

#include "strata/core/error.h"

namespace strata::data::detail {

bool CsvRecordReader::next(std::vector<CsvField>& fields) {
  if (gave_up_) return false;
  std::span<const char> ahead = bytes_.peek(1);
  if (ahead.empty()) return false;
  bool at_end = false;
  size_t size = 0;
  while (!split({ahead.data(), ahead.size()}, at_end, fields, size)) {
    const size_t before = ahead.size();
    if (before > format_.max_record_bytes)
      give_up(format_.max_record_bytes, "bytes", "max_record_bytes");
    ahead = bytes_.peek(before + 1);
    at_end = ahead.size() == before;
  }
  if (size > format_.max_record_bytes)
    give_up(format_.max_record_bytes, "bytes", "max_record_bytes");
  line_ = lines_read_ + 1;
  // \r\n is one end, a lone \r one too.
  for (size_t i = 0; i < size; ++i) {
    const bool last_of_pair = ahead[i] == '\r' && i + 1 < size && ahead[i + 1] == '\n';
    lines_read_ += (ahead[i] == '\n' || ahead[i] == '\r') && !last_of_pair;
  }
  bytes_.consume(size);  // the bytes stay where they are until the next peek
  return true;
}

// @return false: the record continues behind `ahead`. Else `size` bytes are the record and its end.
bool CsvRecordReader::split(std::string_view ahead, bool at_end, std::vector<CsvField>& fields,
                            size_t& size) {
  fields.clear();
  size_t at = 0;
  for (;;) {
    CsvField field;
    if (format_.use_quotes && at < ahead.size() && ahead[at] == '"') {
      if (!split_quoted(ahead, at_end, at, field)) return false;
    } else {
      const size_t start = at;
      while (at < ahead.size() && !is_end_of_field(ahead[at])) {
        if (format_.use_quotes && ahead[at] == '"')
          field.error = "a quote inside of a field without quotes";
        ++at;
      }
      field.text = ahead.substr(start, at - start);
    }
    if (at == ahead.size() && !at_end) return false;
    if (fields.size() >= format_.max_fields) give_up(format_.max_fields, "fields", "max_fields");
    fields.push_back(field);
    if (at == ahead.size()) break;
    const char end = ahead[at++];
    if (end == format_.delim) continue;
    if (end == '\r') {
      if (at == ahead.size() && !at_end) return false;
      if (at < ahead.size() && ahead[at] == '\n') ++at;
    }
    break;
  }
  size = at;
  return true;
}

void CsvRecordReader::give_up(uint64_t limit, const char* what, const char* option) {
  gave_up_ = true;
  throw Error(ErrorCode::kResourceExhausted,
              str_cat(format_.source, ", line ", lines_read_ + 1, ": got a record of more than ",
                      limit, ' ', what, "; expected no more than the limit; raise ", option,
                      ", or look for a quote that is never closed"));
}

bool CsvRecordReader::split_quoted(std::string_view ahead, bool at_end, size_t& at,
                                   CsvField& field) const {
  const size_t start = ++at;
  for (;;) {
    const size_t quote = ahead.find('"', at);
    if (quote == std::string_view::npos) {
      if (!at_end) return false;
      if (field.error == nullptr) field.error = "the end of the file inside of quotes";
      at = ahead.size();
      field.text = ahead.substr(start);
      return true;
    }
    at = quote + 1;
    if (at == ahead.size() && !at_end) return false;
    if (at == ahead.size() || is_end_of_field(ahead[at])) {
      field.text = ahead.substr(start, quote - start);
      return true;
    }
    if (ahead[at] == '"') {
      field.doubled_quotes = true;
    } else {
      field.error = "a quote inside of quotes that is not doubled";
    }
    ++at;
  }
}

std::string_view unquoted(const CsvField& field, std::string& scratch) {
  if (!field.doubled_quotes) return field.text;
  scratch.clear();
  for (size_t i = 0; i < field.text.size(); ++i) {
    scratch += field.text[i];
    if (field.text[i] == '"') ++i;
  }
  return scratch;
}

}  // namespace strata::data::detail
