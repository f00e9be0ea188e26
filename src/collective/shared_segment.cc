#include "collective/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "strata/core/error.h"

namespace strata::collective {

std::string system_error_text(int error) { return std::generic_category().message(error); }

wire::FileDescriptor make_memory_file(const std::string& name, int64_t bytes) {
  wire::FileDescriptor file(::memfd_create(name.c_str(), MFD_CLOEXEC));
  STRATA_CHECK(file.open(), kUnavailable, "memfd_create: ", system_error_text(errno));
  STRATA_CHECK(::ftruncate(file.get(), bytes) == 0, kUnavailable, "a memory file of ", bytes,
               " bytes: ", system_error_text(errno));
  return file;
}

SharedMapping::SharedMapping(const wire::FileDescriptor& file, int64_t offset, int64_t bytes)
    : bytes_(bytes) {
  void* const data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                            file.get(), offset);
  STRATA_CHECK(data != MAP_FAILED, kUnavailable, "mmap of ", bytes,
               " shared bytes: ", system_error_text(errno));
  data_ = static_cast<std::byte*>(data);
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

void SharedMapping::reserve(const wire::FileDescriptor& file) {
  const auto size = static_cast<size_t>(bytes_);
  ::madvise(data_, size, MADV_HUGEPAGE);  // a wish
  if (::madvise(data_, size, MADV_POPULATE_WRITE) == 0) return;
  // Before Linux 5.14.
  const int error = errno == EINVAL ? ::posix_fallocate(file.get(), 0, bytes_) : errno;
  STRATA_CHECK(error == 0, kResourceExhausted, bytes_,
               " bytes of shared memory: ", system_error_text(error));
}

}  // namespace strata::collective
