#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/file_system.h"
#include "strata/data/example.h"

// A file of elements that can be read by number. Little endian:
//
//     "STRCACHE" | version: u32 | 0: u32
//     elements:   payload size: u64 | checksum of the payload: u64 | payload, padded to 8 bytes
//     payload:    fields: u64, then each: dtype: u32 | dimensions: u32 | sizes: i64 ... | values,
//                 padded to 8 bytes
//     index:      offset of each element: u64 ... | elements: u64 | checksum of the index: u64 |
//                 "STRCEND1"
namespace strata::data::detail {

/// Writes `path`.<random>.partial, which `finish` renames to `path`: several may write at once, and
/// the last one's file stays. What a killed process left is removed after a day, by the next
/// writer.
class CacheFileWriter {
 public:
  explicit CacheFileWriter(std::string path);
  ~CacheFileWriter();

  /// @throws Error kInvalidArgument: a sparse field; and as WritableFile::append.
  void add(const Example& element);
  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }

  /// Behind it the file is complete, on the medium, and has its name.
  void finish();

 private:
  void append(const void* bytes, size_t size);
  void flush();

  std::string path_;
  std::string partial_path_;  // empty once it has its name
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  uint64_t written_ = 0;
  std::vector<uint64_t> offsets_;
};

/// Threads: any, at once.
class CacheFile {
 public:
  /// Nullptr if there is no such file. @throws Error kDataLoss: it is not complete, or damaged.
  static std::unique_ptr<CacheFile> open(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }

  /// Bytes read ahead by one who reads elements in order.
  struct Window {
    std::vector<std::byte> bytes;
    uint64_t begin = 0;
  };

  /// @throws Error kDataLoss: names file and offset.
  Example read(int64_t index, Window& window) const;

 private:
  CacheFile(std::string path, std::unique_ptr<ReadableFile> file);
  void read_index();
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<uint64_t> offsets_;  // of elements, and of the index
};

}  // namespace strata::data::detail
