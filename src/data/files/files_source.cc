#include "data/files/files_source.h"

#include <limits>

namespace strata::data::detail {
namespace {

class FilesStream final : public ExampleStream {
 public:
  FilesStream(const FileFormat& format, const std::vector<std::string>& files)
      : format_(format), files_(files) {}

  bool next(Example& out) override {
    while (open()) {
      if (current_->next(out)) return true;
      close();
    }
    return false;
  }

  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      try {
        if (!open()) break;
        if (current_->skip_one()) {
          ++skipped;
        } else {
          close();
        }
      } catch (...) {  // an element, as for `next`
        ++skipped;
      }
    }
    return skipped;
  }

  Position position() const override {
    std::vector<int64_t> numbers = {static_cast<int64_t>(file_)};
    if (current_) {
      const std::vector<int64_t> place = current_->place();
      numbers.insert(numbers.end(), place.begin(), place.end());
    }
    numbers.resize(1 + format_.place_size);  // zeros: the beginning of the next file
    return Position(format_.name, std::move(numbers));
  }

  void restore(const Position& position) override {
    expect_position(position, format_.name, 1 + format_.place_size, 0);
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    file_ =
        static_cast<size_t>(position_number(position, 0, 0, static_cast<int64_t>(files_.size())));
    bool at_beginning = true;
    for (size_t i = 1; i <= format_.place_size; ++i)
      at_beginning &= position_number(position, i, 0, kMax) == 0;
    if (at_beginning) return;
    STRATA_CHECK(file_ < files_.size(), kInvalidArgument, "[data] restore: got a place behind the ",
                 files_.size(), " files; the text is damaged, or the list of files another");
    current_ = format_.open(files_[file_]);
    current_->go_to(std::span(position.numbers()).subspan(1));
  }

 private:
  bool open() {
    if (current_) return true;
    if (file_ >= files_.size()) return false;
    try {
      current_ = format_.open(files_[file_]);
    } catch (...) {
      ++file_;
      throw;
    }
    return true;
  }

  void close() {
    current_.reset();
    ++file_;
  }

  const FileFormat& format_;
  const std::vector<std::string>& files_;
  size_t file_ = 0;
  std::unique_ptr<FileElements> current_;
};

class FilesSource final : public Source {
 public:
  FilesSource(FileFormat format, std::vector<std::string> files)
      : format_(std::move(format)), files_(std::move(files)) {}

  std::unique_ptr<ExampleStream> examples(uint64_t) const override {
    return std::make_unique<FilesStream>(format_, files_);
  }
  int64_t cardinality() const override { return files_.empty() ? 0 : Dataset::kUnknown; }

  std::optional<ElementSpec> element_spec() const override { return format_.spec; }
  /// For distributions that give whole files to each worker.
  int64_t num_files() const override { return static_cast<int64_t>(files_.size()); }
  SourcePtr shard_files(int64_t num_shards, int64_t index) const override {
    std::vector<std::string> local;
    for (auto i = static_cast<size_t>(index); i < files_.size();
         i += static_cast<size_t>(num_shards))
      local.push_back(files_[i]);
    return std::make_shared<FilesSource>(format_, std::move(local));
  }

 private:
  FileFormat format_;
  std::vector<std::string> files_;
};

}  // namespace

void seek_saved_offset(BufferedReader& bytes, const std::string& path, int64_t offset) {
  const auto wanted = static_cast<uint64_t>(offset);
  const uint64_t got = bytes.skip(wanted);
  STRATA_CHECK(got == wanted, kInvalidArgument, "[data] restore: ", path, " has ", got,
               " bytes; expected at least ", wanted,
               ", where the position was saved; the file has changed");
}

Dataset files_dataset(FileFormat format, std::vector<std::string> files, const char* call) {
  for (size_t i = 0; i < files.size(); ++i)
    STRATA_CHECK(!files[i].empty(), kInvalidArgument, "[data] ", call,
                 ": got an empty path as file ", i, " of ", files.size(),
                 "; expected the path of a file");
  return Dataset(std::make_shared<FilesSource>(std::move(format), std::move(files)));
}

}  // namespace strata::data::detail
