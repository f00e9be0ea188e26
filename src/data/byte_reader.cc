#include "data/byte_reader.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

class PlainReader final : public ByteReader {
 public:
  PlainReader(FilePtr file, uint64_t file_size, std::string path)
      : file_(std::move(file)), file_size_(file_size), path_(std::move(path)) {}

  size_t read(void* out, size_t size) override {
    const size_t got = std::fread(out, 1, size, file_.get());
    STRATA_CHECK(got == size || std::ferror(file_.get()) == 0, kDataLoss, "[data] read: ", path_,
                 " cannot be read: ", std::generic_category().message(errno));
    return got;
  }
  uint64_t size_bound() const override { return file_size_; }

 private:
  FilePtr file_;
  uint64_t file_size_;
  std::string path_;
};

ErrorCode code_of_open_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    default:
      return ErrorCode::kUnknown;
  }
}

}  // namespace

std::unique_ptr<ByteReader> open_byte_reader(const std::string& path) {
  FilePtr file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    const int error = errno;
    throw Error(code_of_open_error(error), str_cat("[data] open: ", path, " cannot be opened: ",
                                                   std::generic_category().message(error)));
  }
  std::error_code failure;
  const uint64_t size = std::filesystem::file_size(path, failure);
  STRATA_CHECK(!failure, kInvalidArgument, "[data] open: ", path,
               " is not a file with a size: ", failure.message(), "; expected a regular file");
  unsigned char start[2] = {};
  const size_t got = std::fread(start, 1, 2, file.get());
  std::rewind(file.get());
  if (got == 2 && start[0] == 0x1F && start[1] == 0x8B)
    return open_gzip(std::move(file), size, path);
  return std::make_unique<PlainReader>(std::move(file), size, path);
}

}  // namespace strata::data::detail
