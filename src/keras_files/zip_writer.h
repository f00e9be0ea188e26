#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/file_system.h"

namespace strata::keras_files {

/// Takes bytes one behind the other.
using Sink = std::function<void(std::span<const std::byte>)>;

/// All of `file`, a megabyte at a time.
void for_each_part(const ReadableFile& file, const Sink& sink);

/// Writes a zip archive of stored members, dated 1980-01-01, as Keras's is: equal input, equal
/// bytes. Sizes from 4 GiB on are written as zip64. Nothing but the list of members is kept.
///
/// Why strata has its own writer, although libzip reads strata's archives (zip_reader.h): a
/// `WritableFile` only appends, since stores of objects can do no more, and libzip needs an output
/// that seeks. It writes the header of each member before the data, without the checksum, and then
/// returns and writes the header again (libzip 1.7.3, add_data in zip_close.c: "we don't support
/// non-seekable output"; zip_file_set_mtime and ZIP_CM_STORE do not change that). With libzip an
/// archive would have to be made in memory or in a local file first, at a second copy of the
/// weights.
class ZipWriter {
 public:
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  void add(const std::string& name, const ReadableFile& content);
  void add(const std::string& name, std::string_view content);
  /// The list of members. Nothing may follow.
  void finish();

 private:
  struct Member {
    std::string name;
    uint32_t checksum;
    uint64_t size;
    uint64_t offset;
  };

  void put(const std::string& bytes);

  Sink sink_;
  uint64_t written_ = 0;
  std::vector<Member> members_;
};

}  // namespace strata::keras_files
