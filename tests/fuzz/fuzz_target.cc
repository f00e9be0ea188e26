#include "fuzz/fuzz_target.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "strata/core/file_system.h"
#include "strata/core/log.h"

namespace strata::fuzz {
namespace {

// A warning for every damaged input would be most of the work.
const bool quiet = [] {
  set_log_sink([](const LogRecord&) {});
  return true;
}();

std::string_view file_bytes;

class OneFile final : public ReadableFile {
 public:
  explicit OneFile(std::string_view bytes) : bytes_(bytes) {}
  size_t read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return 0;
    const size_t size = std::min<size_t>(out.size(), bytes_.size() - offset);
    if (size > 0) std::memcpy(out.data(), bytes_.data() + offset, size);
    return size;
  }
  uint64_t size() const override { return bytes_.size(); }

 private:
  const std::string_view bytes_;
};

/// Every path is the one file.
class OneFileSystem final : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const std::string&) const override {
    return std::make_unique<OneFile>(file_bytes);
  }
  std::optional<FileInfo> info(const std::string&) const override {
    return FileInfo{.size = file_bytes.size()};
  }
  std::vector<std::string> list(const std::string&) const override { return {}; }
  std::unique_ptr<WritableFile> create(const std::string& path) const override { refuse(path); }
  void make_folders(const std::string& path) const override { refuse(path); }
  void rename(const std::string& path, const std::string&) const override { refuse(path); }
  void remove(const std::string& path) const override { refuse(path); }
  void sync_folder(const std::string& path) const override { refuse(path); }

 private:
  [[noreturn]] static void refuse(const std::string& path) {
    throw Error(ErrorCode::kPermissionDenied, str_cat("[fuzz] ", path, ": is only for reading"));
  }
};

}  // namespace

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "[fuzz] does not hold: %s\n", what);
  std::abort();
}

uint8_t Input::byte() {
  if (rest_.empty()) return 0;
  const auto value = static_cast<uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return value;
}

uint64_t Input::number() {
  uint64_t value = 0;
  for (size_t bytes = below(9); bytes > 0; --bytes) value = value << 8 | byte();
  return value;
}

std::string_view Input::text(size_t most) {
  const size_t size = std::min({most, size_t{byte()}, rest_.size()});
  const std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return text;
}

std::string_view Input::rest() {
  const std::string_view rest = rest_;
  rest_ = {};
  return rest;
}

std::string with_short_numbers(std::string_view text, int most_digits) {
  std::string kept;
  int digits = 0;
  for (const char c : text) {
    digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits <= most_digits) kept += c;
  }
  return kept;
}

std::string with_few_hosts(std::string_view list) {
  std::string kept;
  int brackets = 0;
  for (const char c : with_short_numbers(list, 1)) {
    if (c != '[' || ++brackets <= 2) kept += c;
  }
  return kept;
}

bool one_in_64(const uint8_t* data, size_t size) {
  return std::accumulate(data, data + size, 0U) % 64 == 0;
}

std::string file_of(std::string_view bytes) {
  static const bool registered = [] {
    register_file_system("fuzz", std::make_unique<OneFileSystem>());
    return true;
  }();
  (void)registered;
  file_bytes = bytes;
  return "fuzz://input";
}

}  // namespace strata::fuzz
