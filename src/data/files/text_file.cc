#include "strata/data/text_file.h"

#include <cstring>

#include "data/files/buffered_reader.h"
#include "data/files/files_source.h"

namespace strata::data {
namespace {

class Lines final : public detail::FileElements {
 public:
  Lines(const std::string& path, const TextOptions& options)
      : path_(path),
        max_line_bytes_(options.max_line_bytes),
        bytes_(detail::open_byte_reader(path, options.compression), options.buffer_size) {}

  bool next(Example& out) override {
    std::string_view line;
    if (!next_line(line)) return false;
    out.fields.clear();
    out.fields.push_back(bytes_tensor(line));
    bytes_.consume(consumed_);
    return true;
  }

  bool skip_one() override {
    std::string_view line;
    if (!next_line(line)) return false;
    bytes_.consume(consumed_);
    return true;
  }

  std::vector<int64_t> place() const override { return {static_cast<int64_t>(bytes_.offset())}; }

  void go_to(std::span<const int64_t> place) override {
    detail::seek_saved_offset(bytes_, path_, place[0]);
    gave_up_ = false;
  }

 private:
  // Shows the next line; consumed_ bytes are it and its end.
  bool next_line(std::string_view& line) {
    if (gave_up_) return false;
    size_t searched = 0;
    std::span<const char> ahead = bytes_.peek(1);
    for (;;) {
      const void* end = ahead.size() == searched
                            ? nullptr
                            : std::memchr(ahead.data() + searched, '\n', ahead.size() - searched);
      if (end != nullptr) {
        const auto length = static_cast<size_t>(static_cast<const char*>(end) - ahead.data());
        line = without_return({ahead.data(), length});
        consumed_ = length + 1;
        check_length(line.size());
        return true;
      }
      searched = ahead.size();
      if (searched > 0) check_length(searched - 1);  // the last byte may be half of \r\n
      ahead = bytes_.peek(searched + 1);
      if (ahead.size() == searched) break;  // the end of the file
    }
    line = without_return({ahead.data(), ahead.size()});
    consumed_ = ahead.size();
    check_length(line.size());
    if (!line.empty()) return true;
    bytes_.consume(consumed_);
    return false;
  }

  void check_length(size_t bytes) {
    if (bytes <= max_line_bytes_) return;
    gave_up_ = true;  // where the line ends is not known
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("[data] text_lines: ", path_, ", offset ", bytes_.offset(),
                        ": got a line of more than ", max_line_bytes_,
                        " bytes; expected no more than the limit; raise "
                        "TextOptions::max_line_bytes, or is this no text?"));
  }

  static std::string_view without_return(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  std::string path_;
  uint64_t max_line_bytes_;
  detail::BufferedReader bytes_;
  size_t consumed_ = 0;
  bool gave_up_ = false;
};

}  // namespace

Dataset text_lines(std::vector<std::string> files, const TextOptions& options) {
  STRATA_CHECK(options.buffer_size >= 1, kInvalidArgument,
               "[data] text_lines: got buffer_size 0; expected at least 1 byte");
  return detail::files_dataset(
      {.name = "text_lines",
       .place_size = 1,
       .spec = {{.shape = {-1}, .dtype = at::kByte}},
       .open =
           [options](const std::string& path) { return std::make_unique<Lines>(path, options); }},
      std::move(files), "text_lines");
}

}  // namespace strata::data
