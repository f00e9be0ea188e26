#include "wire/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "strata/core/error.h"

namespace strata::wire {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

constexpr uintptr_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

#ifndef MADV_COLLAPSE
constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif

/// Maps at a multiple of a large page, if the file can have one. @return MAP_FAILED, and errno.
void* map_aligned(const FileDescriptor& file, int64_t offset, size_t bytes) {
  const auto map = [&](void* at, int flags) {
    return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file.get(), offset);
  };
  if (bytes < kHugePage) return map(nullptr, 0);
  const size_t room = bytes + kHugePage;
  void* const reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t start = (begin + kHugePage - 1) / kHugePage * kHugePage;
  void* const data = map(reinterpret_cast<void*>(start), MAP_FIXED);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::munmap(reserved, room);
    errno = error;
    return MAP_FAILED;
  }
  const uintptr_t end = (start + bytes + kPage - 1) / kPage * kPage;
  if (start > begin) ::munmap(reserved, start - begin);
  if (begin + room > end) ::munmap(reinterpret_cast<void*>(end), begin + room - end);
  return data;
}

}  // namespace

std::string system_error_text(int error) { return std::generic_category().message(error); }

FileDescriptor make_memory_file(const std::string& name, int64_t bytes) {
  FileDescriptor file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  STRATA_CHECK(file.open(), kUnavailable, "memfd_create: ", system_error_text(errno));
  STRATA_CHECK(::ftruncate(file.get(), bytes) == 0, kUnavailable, "a memory file of ", bytes,
               " bytes: ", system_error_text(errno));
  // Who has mapped it can rely on its pages.
  STRATA_CHECK(::fcntl(file.get(), F_ADD_SEALS, kSeals) == 0, kUnavailable,
               "sealing a memory file: ", system_error_text(errno));
  return file;
}

SharedMapping::SharedMapping(const FileDescriptor& file, int64_t offset, int64_t bytes)
    : bytes_(bytes) {
  void* const data = map_aligned(file, offset, static_cast<size_t>(bytes));
  STRATA_CHECK(data != MAP_FAILED, kUnavailable, "mmap of ", bytes,
               " shared bytes: ", system_error_text(errno));
  data_ = static_cast<std::byte*>(data);
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

void SharedMapping::reserve(const FileDescriptor& file) {
  const auto size = static_cast<size_t>(bytes_);
  // Wishes; the second is granted where the first is not allowed for shared memory, too.
  ::madvise(data_, size, MADV_HUGEPAGE);
  if (size >= kHugePage) ::madvise(data_, size, MADV_COLLAPSE);
  if (::madvise(data_, size, MADV_POPULATE_WRITE) == 0) return;
  // Before Linux 5.14.
  const int error = errno == EINVAL ? ::posix_fallocate(file.get(), 0, bytes_) : errno;
  STRATA_CHECK(error == 0, kResourceExhausted, bytes_,
               " bytes of shared memory: ", system_error_text(error));
}

}  // namespace strata::wire
