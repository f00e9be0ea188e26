#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/file_system.h"
#include "strata/core/read_limits.h"

namespace strata::keras_files {

/// A zip archive being read. Every error names the source and the member.
class ZipReader {
 public:
  /// `file` must outlive it.
  /// @throws Error kDataLoss: no zip archive, or a member twice. kResourceExhausted: more members,
  ///               or more bytes once they are all unpacked, than `limits` allows.
  ZipReader(const ReadableFile& file, std::string source, const ReadLimits& limits = {});
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// In the archive's order.
  const std::vector<std::string>& members() const;
  bool contains(const std::string& member) const;
  /// The member, unpacked, its checksum compared. @throws Error kDataLoss, kResourceExhausted.
  std::string read(const std::string& member) const;

 private:
  struct Impl;
  void check_members() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::keras_files
