#include "ps/tables/mapped_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "core/log_limiter.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/log.h"
#include "wire/host_identity.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::ps {

namespace {

/// Of a worker; it makes one for each of its large tensors.
constexpr size_t kMostSegments = 4096;

}  // namespace

bool MappedMemory::map(uint64_t segment, const std::string& introduction) {
  const MutexLock lock(mutex_);
  STRATA_CHECK(segments_.size() < kMostSegments || segments_.contains(segment), kResourceExhausted,
               "[ps] got segment ", segment, " of a worker's memory behind ", segments_.size(),
               " others; a server maps ", kMostSegments, " of each worker");
  const Json said = Json::parse(introduction);
  if (said.at("host").as_string() != wire::host_identity()) return false;
  const std::string path =
      str_cat("/proc/", said.at("process").as_int(), "/fd/", said.at("file").as_int());
  const wire::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (!file.open() || ::fstat(file.get(), &about) != 0) return false;  // it sees other processes
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  const std::string key = said.at("key").as_string();
  const auto bytes = static_cast<size_t>(about.st_size);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || key.size() != kMemoryKeyBytes ||
      bytes < kMemoryKeyBytes) {
    return false;
  }
  try {
    auto mapping = std::make_shared<wire::SharedMapping>(file, 0, about.st_size);
    if (std::memcmp(mapping->data() + bytes - key.size(), key.data(), key.size()) != 0)
      return false;
    segments_[segment] = std::move(mapping);
    return true;
  } catch (const Error& error) {
    static strata::detail::LogLimiter limiter;
    if (const auto count = limiter.admit()) {
      STRATA_LOG(kWarning) << "[ps] a worker of this host will send what it could share: "
                           << error.what() << *count;
    }
    return false;
  }
}

std::shared_ptr<std::byte> MappedMemory::at(uint64_t segment, uint64_t offset, size_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = segments_.find(segment);
  STRATA_CHECK(found != segments_.end(), kInvalidArgument, "[ps] got segment ", segment,
               " of a worker's memory, which this server has not mapped");
  const uint64_t size = static_cast<uint64_t>(found->second->bytes()) - kMemoryKeyBytes;
  STRATA_CHECK(offset <= size && bytes <= size - offset, kInvalidArgument, "[ps] got bytes ",
               offset, " to ", offset + bytes, " of segment ", segment, ", which has ", size);
  return {found->second, found->second->data() + offset};
}

}  // namespace strata::ps
