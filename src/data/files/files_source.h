#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/files/buffered_reader.h"
#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {

/// The elements of one open file, in order.
class FileElements {
 public:
  virtual ~FileElements() = default;

  /// @return false at the end. Behind an error, the next call continues behind what was wrong, or
  /// is at the end.
  virtual bool next(Example& out) = 0;

  /// Passes over one element without making it.
  virtual bool skip_one() = 0;

  /// Where it is; as many numbers as the format says.
  virtual std::vector<int64_t> place() const = 0;

  /// Called on a fresh one, with what `place` gave for the same file.
  /// @throws Error kInvalidArgument: the file is shorter than that.
  virtual void go_to(std::span<const int64_t> place) = 0;
};

/// Moves to `offset`, where a position of a file was saved.
/// @throws Error kInvalidArgument: the file ends before it.
void seek_saved_offset(BufferedReader& bytes, const std::string& path, int64_t offset);

struct FileFormat {
  const char* name;   ///< of its positions
  size_t place_size;  ///< numbers of FileElements::place
  ElementSpec spec;
  std::function<std::unique_ptr<FileElements>(const std::string& path)> open;
};

/// The elements of `files`, one file after the other; each is opened when it is needed.
/// Positions: name[file, place...]. A file that cannot be opened is an error and then passed over.
Dataset files_dataset(FileFormat format, std::vector<std::string> files, const char* call);

}  // namespace strata::data::detail
