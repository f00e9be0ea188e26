#include "keras_files/zip_writer.h"

#include <zlib.h>

#include <algorithm>

#include "keras_files/memory_file.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

constexpr uint64_t kMax32 = 0xFFFFFFFF;
constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kUtf8Names = 0x0800;
constexpr uint16_t kDate1980 = (0 << 9) | (1 << 5) | 1;
constexpr uint32_t kOwnerReadsAndWrites = 0600U << 16;  // as Python's zipfile
constexpr uint16_t kUnix = 3;

/// Little-endian fields, one behind the other.
class Record {
 public:
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

uint16_t flags_of(const std::string& name) {
  const bool ascii = std::ranges::all_of(name, [](char c) { return (c & 0x80) == 0; });
  return ascii ? 0 : kUtf8Names;
}

}  // namespace

void for_each_part(const ReadableFile& file, const Sink& sink) {
  std::vector<std::byte> buffer(std::min<uint64_t>(uint64_t{1} << 20, file.size()));
  for (uint64_t offset = 0; offset < file.size();) {
    const size_t got = file.read(offset, buffer);
    STRATA_CHECK(got > 0, kInternal, "[keras_files] save: the file shrank while it was read");
    sink(std::span(buffer).first(got));
    offset += got;
  }
}

void ZipWriter::put(const std::string& bytes) {
  sink_(std::as_bytes(std::span(bytes)));
  written_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  add(name, MemoryFile(std::as_bytes(std::span(content))));
}

void ZipWriter::add(const std::string& name, const ReadableFile& content) {
  uLong checksum = crc32_z(0, nullptr, 0);
  for_each_part(content, [&](std::span<const std::byte> part) {
    checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(part.data()), part.size());
  });
  const Member member = {.name = name,
                         .checksum = static_cast<uint32_t>(checksum),
                         .size = content.size(),
                         .offset = written_};
  const bool large = member.size >= kMax32;
  Record extra;
  if (large) extra.u16(1).u16(16).u64(member.size).u64(member.size);
  const uint64_t size = large ? kMax32 : member.size;
  put(Record()
          .u32(0x04034b50)
          .u16(large ? kVersion64 : kVersion)
          .u16(flags_of(name))
          .u16(0)  // stored
          .u16(0)  // midnight
          .u16(kDate1980)
          .u32(member.checksum)
          .u32(size)
          .u32(size)
          .u16(name.size())
          .u16(extra.bytes().size())
          .text(name)
          .text(extra.bytes())
          .bytes());
  for_each_part(content, sink_);
  written_ += member.size;
  members_.push_back(member);
}

void ZipWriter::finish() {
  const uint64_t begin = written_;
  for (const Member& member : members_) {
    const bool large = member.size >= kMax32, far = member.offset >= kMax32;
    Record extra;
    if (large || far) {
      extra.u16(1).u16((large ? 16 : 0) + (far ? 8 : 0));
      if (large) extra.u64(member.size).u64(member.size);
      if (far) extra.u64(member.offset);
    }
    const uint64_t size = large ? kMax32 : member.size;
    const uint16_t version = large || far ? kVersion64 : kVersion;
    put(Record()
            .u32(0x02014b50)
            .u16(kUnix << 8 | version)
            .u16(version)
            .u16(flags_of(member.name))
            .u16(0)
            .u16(0)
            .u16(kDate1980)
            .u32(member.checksum)
            .u32(size)
            .u32(size)
            .u16(member.name.size())
            .u16(extra.bytes().size())
            .u16(0)  // comment
            .u16(0)  // disk
            .u16(0)  // text or binary
            .u32(kOwnerReadsAndWrites)
            .u32(far ? kMax32 : member.offset)
            .text(member.name)
            .text(extra.bytes())
            .bytes());
  }
  const uint64_t size = written_ - begin;
  const size_t count = members_.size();
  if (begin >= kMax32 || size >= kMax32 || count >= 0xFFFF) {
    const uint64_t end = written_;
    put(Record()
            .u32(0x06064b50)
            .u64(44)
            .u16(kUnix << 8 | kVersion64)
            .u16(kVersion64)
            .u32(0)
            .u32(0)
            .u64(count)
            .u64(count)
            .u64(size)
            .u64(begin)
            .u32(0x07064b50)
            .u32(0)
            .u64(end)
            .u32(1)
            .bytes());
  }
  const uint64_t shown = std::min<uint64_t>(count, 0xFFFF);
  put(Record()
          .u32(0x06054b50)
          .u16(0)
          .u16(0)
          .u16(shown)
          .u16(shown)
          .u32(std::min(size, kMax32))
          .u32(std::min(begin, kMax32))
          .u16(0)
          .bytes());
}

}  // namespace strata::keras_files
