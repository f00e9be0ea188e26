#include "data/files/cache_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>

#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::data::detail {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[] = "STRCACHE", kEndMagic[] = "STRCEND1";
constexpr size_t kMagicSize = 8;
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderSize = 16, kElementHeaderSize = 16, kTrailerSize = 24;
constexpr size_t kBufferSize = 1 << 18;

size_t padded(size_t size) { return (size + 7) / 8 * 8; }

/// Of `size` bytes, a multiple of 8. Four chains of multiply and rotate: as fast as memory; finds
/// accidents, not attacks.
uint64_t checksum(const void* bytes, size_t size) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t chains[4] = {1, 2, 3, 4};
  const char* at = static_cast<const char*>(bytes);
  for (size_t word = 0; word < size / 8; ++word, at += 8) {
    uint64_t value = 0;
    std::memcpy(&value, at, 8);
    uint64_t& chain = chains[word % 4];
    chain = std::rotl((chain ^ value) * kMultiplier, 29);
  }
  uint64_t sum = size;
  for (const uint64_t chain : chains) sum = std::rotl((sum ^ chain) * kMultiplier, 31);
  return sum;
}

std::string random_name() {
  std::random_device device;
  std::ostringstream name;
  name << std::hex << device() << device();
  return name.str();
}

/// Those that were not written to for a day.
void remove_old_partials(const std::string& path) {
  constexpr auto kOld = std::chrono::hours(24);
  const FileSystem& files = file_system_of(path);
  const auto [folder, own_name] = split_path(path);
  const std::string prefix = own_name + '.';
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const std::string& name : files.list(folder)) {
    if (!name.starts_with(prefix) || !name.ends_with(".partial")) continue;
    const std::string partial = join_path(folder, name);
    const auto info = files.info(partial);
    if (info && now - std::chrono::nanoseconds(info->modified_ns) > kOld) files.remove(partial);
  }
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string payload_of(const Example& element) {
  std::string out;
  put<uint64_t>(out, element.fields.size());
  for (size_t f = 0; f < element.fields.size(); ++f) {
    STRATA_CHECK(element.fields[f].defined() && element.fields[f].layout() == at::kStrided,
                 kInvalidArgument, "[data] cache: got a sparse or undefined tensor in field ", f,
                 "; expected dense ones; call to_dense() in map() first");
    const at::Tensor field =
        element.fields[f].detach().resolve_conj().resolve_neg().cpu().contiguous();
    put<uint32_t>(out, static_cast<uint32_t>(field.scalar_type()));
    put<uint32_t>(out, static_cast<uint32_t>(field.dim()));
    for (const int64_t size : field.sizes()) put<int64_t>(out, size);
    out.append(static_cast<const char*>(field.const_data_ptr()), field.nbytes());
    out.resize(padded(out.size()));
  }
  return out;
}

/// Walks a payload whose checksum was right, and yet trusts nothing.
class PayloadReader {
 public:
  PayloadReader(const std::byte* at, size_t size) : at_(at), left_(size) {}

  template <class T>
  bool get(T& value) {
    return take(sizeof value, &value);
  }
  bool take(size_t size, void* out) {
    if (size > left_) return false;
    if (size > 0) std::memcpy(out, at_, size);
    at_ += size;
    left_ -= size;
    return true;
  }
  size_t left() const { return left_; }

 private:
  const std::byte* at_;
  size_t left_;
};

bool parse_field(PayloadReader& reader, at::Tensor& out) {
  uint32_t dtype = 0, dims = 0;
  if (!reader.get(dtype) || !reader.get(dims) || dims > 64 ||
      dtype >= static_cast<uint32_t>(at::ScalarType::Undefined))
    return false;
  std::vector<int64_t> sizes(dims);
  uint64_t bytes = c10::elementSize(static_cast<at::ScalarType>(dtype));
  for (int64_t& size : sizes) {
    if (!reader.get(size) || size < 0) return false;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return false;
  }
  if (bytes > reader.left()) return false;
  out = at::empty(sizes, at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)));
  uint64_t padding = 0;
  return reader.take(bytes, out.mutable_data_ptr()) && reader.take(padded(bytes) - bytes, &padding);
}

}  // namespace

// ---- writing ----

CacheFileWriter::CacheFileWriter(std::string path)
    : path_(std::move(path)), partial_path_(str_cat(path_, '.', random_name(), ".partial")) {
  remove_old_partials(path_);
  file_ = file_system_of(path_).create(partial_path_);
  buffer_.append(kMagic, kMagicSize);
  put(buffer_, kVersion);
  put<uint32_t>(buffer_, 0);
}

CacheFileWriter::~CacheFileWriter() {
  if (partial_path_.empty()) return;
  try {
    file_ = nullptr;
    file_system_of(path_).remove(partial_path_);
  } catch (const std::exception& error) {
    STRATA_VLOG(3) << "[data] cache: " << error.what();
  }
}

void CacheFileWriter::add(const Example& element) {
  const std::string payload = payload_of(element);
  offsets_.push_back(written_ + buffer_.size());
  put<uint64_t>(buffer_, payload.size());
  put(buffer_, checksum(payload.data(), payload.size()));
  buffer_ += payload;
  if (buffer_.size() >= kBufferSize) flush();
}

void CacheFileWriter::flush() {
  file_->append(std::as_bytes(std::span(buffer_)));
  written_ += buffer_.size();
  buffer_.clear();
}

void CacheFileWriter::finish() {
  const uint64_t index_size = offsets_.size() * sizeof(uint64_t);
  buffer_.append(reinterpret_cast<const char*>(offsets_.data()), index_size);
  put<uint64_t>(buffer_, offsets_.size());
  put(buffer_, checksum(offsets_.data(), index_size));
  buffer_.append(kEndMagic, kMagicSize);
  flush();
  file_->sync();
  file_->close();
  const FileSystem& files = file_system_of(path_);
  files.rename(partial_path_, path_);
  partial_path_.clear();
  files.sync_folder(split_path(path_).first);
}

// ---- reading ----

std::unique_ptr<CacheFile> CacheFile::open(const std::string& path) {
  const FileSystem& files = file_system_of(path);
  if (!files.info(path)) return nullptr;
  std::unique_ptr<CacheFile> cache(new CacheFile(path, files.open(path)));
  cache->read_index();
  return cache;
}

CacheFile::CacheFile(std::string path, std::unique_ptr<ReadableFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

void CacheFile::fail(uint64_t offset, const std::string& what) const {
  throw Error(
      ErrorCode::kDataLoss,
      str_cat("[data] cache: ", path_, ": ", what, " at byte ", offset, " of ", file_->size(),
              "; expected a complete cache file; remove it to have it made "
              "anew"));
}

void CacheFile::read_index() {
  const uint64_t size = file_->size();
  if (size < kHeaderSize + kTrailerSize) fail(0, "got too few bytes");
  std::byte header[kHeaderSize], trailer[kTrailerSize];
  if (file_->read(0, header) != kHeaderSize || std::memcmp(header, kMagic, kMagicSize) != 0)
    fail(0, "got no cache file of strata's");
  uint32_t version = 0;
  std::memcpy(&version, header + kMagicSize, sizeof version);
  if (version != kVersion) fail(kMagicSize, str_cat("got version ", version, ", not ", kVersion));
  const uint64_t trailer_at = size - kTrailerSize;
  if (file_->read(trailer_at, trailer) != kTrailerSize ||
      std::memcmp(trailer + 16, kEndMagic, kMagicSize) != 0)
    fail(trailer_at, "got no end mark");
  uint64_t count = 0, sum = 0;
  std::memcpy(&count, trailer, sizeof count);
  std::memcpy(&sum, trailer + 8, sizeof sum);
  if (count > (trailer_at - kHeaderSize) / sizeof(uint64_t))
    fail(trailer_at, "got a damaged number of elements");
  offsets_.resize(count);
  const uint64_t index_at = trailer_at - count * sizeof(uint64_t);
  const auto bytes = std::as_writable_bytes(std::span(offsets_));
  if (file_->read(index_at, bytes) != bytes.size() || checksum(bytes.data(), bytes.size()) != sum)
    fail(index_at, "got a damaged index");
  offsets_.push_back(index_at);
  for (size_t i = 0; i < count; ++i) {
    if (offsets_[i] < kHeaderSize || offsets_[i] + kElementHeaderSize > offsets_[i + 1])
      fail(index_at + i * sizeof(uint64_t), "got a damaged index");
  }
}

Example CacheFile::read(int64_t index, Window& window) const {
  const uint64_t begin = offsets_[static_cast<size_t>(index)];
  const uint64_t end = offsets_[static_cast<size_t>(index) + 1];
  if (begin < window.begin || end > window.begin + window.bytes.size()) {
    const uint64_t wanted =
        std::min<uint64_t>(std::max<uint64_t>(end - begin, kBufferSize), offsets_.back() - begin);
    window.bytes.resize(wanted);
    window.begin = begin;
    window.bytes.resize(file_->read(begin, window.bytes));
    if (end > begin + window.bytes.size()) fail(begin + window.bytes.size(), "got the end");
  }
  const std::byte* const at = window.bytes.data() + (begin - window.begin);
  uint64_t size = 0, sum = 0;
  std::memcpy(&size, at, sizeof size);
  std::memcpy(&sum, at + 8, sizeof sum);
  if (size != end - begin - kElementHeaderSize || size % 8 != 0)
    fail(begin, str_cat("got a damaged size of element ", index));
  const std::byte* const payload = at + kElementHeaderSize;
  if (checksum(payload, size) != sum) fail(begin, str_cat("got a damaged element ", index));
  PayloadReader reader(payload, size);
  uint64_t fields = 0;
  bool good = reader.get(fields) && fields <= size;
  Example element;
  for (uint64_t f = 0; good && f < fields; ++f)
    good = parse_field(reader, element.fields.emplace_back());
  if (!good || reader.left() != 0) fail(begin, str_cat("got a damaged element ", index));
  return element;
}

}  // namespace strata::data::detail
