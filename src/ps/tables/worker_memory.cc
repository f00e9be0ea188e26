#include "ps/tables/worker_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/random_hex.h"
#include "ps/tables/mapped_memory.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/log.h"
#include "wire/host_identity.h"

namespace strata::ps {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

void WorkerMemory::open(Segment& segment, size_t bytes) {
  // Whole large pages, where there is one.
  const size_t page = bytes < kLargePage ? 1 : kLargePage;
  const size_t size = (bytes + kMemoryKeyBytes + page - 1) / page * page;
  segment.key = strata::detail::random_hex(kMemoryKeyBytes / 2);
  segment.file = wire::make_memory_file("strata worker", static_cast<int64_t>(size));
  segment.mapping = wire::SharedMapping(segment.file, 0, static_cast<int64_t>(size));
  segment.mapping.reserve(segment.file);
  std::memcpy(segment.mapping.data() + size - kMemoryKeyBytes, segment.key.data(),
              segment.key.size());
}

std::shared_ptr<std::byte> WorkerMemory::take(size_t bytes) {
  Segment segment;
  try {
    open(segment, bytes);
  } catch (const Error& error) {
    STRATA_LOG(kWarning) << "[ps] servers of this host get sent what they could share: "
                         << error.what();
    return nullptr;
  }
  std::byte* const data = segment.mapping.data();
  {
    const MutexLock lock(segments_->mutex);
    segment.id = ++segments_->last_id;
    segments_->by_address.emplace(data, std::move(segment));
  }
  return {data, [segments = segments_](const std::byte* address) {
            const MutexLock lock(segments->mutex);
            const auto gone = segments->by_address.find(address);
            segments->gone.push_back(gone->second.id);
            segments->by_address.erase(gone);
          }};
}

std::optional<WorkerMemory::Place> WorkerMemory::find(std::span<const std::byte> bytes) const {
  const MutexLock lock(segments_->mutex);
  auto after = segments_->by_address.upper_bound(bytes.data());
  if (after == segments_->by_address.begin()) return std::nullopt;
  const auto& [begin, segment] = *std::prev(after);
  const auto offset = static_cast<size_t>(bytes.data() - begin);
  const size_t size = static_cast<size_t>(segment.mapping.bytes()) - kMemoryKeyBytes;
  if (offset > size || bytes.size() > size - offset) return std::nullopt;
  return Place{.segment = segment.id, .offset = offset};
}

std::string WorkerMemory::introduce(uint64_t id) const {
  const MutexLock lock(segments_->mutex);
  for (const auto& [address, segment] : segments_->by_address) {
    if (segment.id != id) continue;
    Json json = Json::object();
    json.set("host", wire::host_identity());
    json.set("process", static_cast<int64_t>(::getpid()));
    json.set("file", static_cast<int64_t>(segment.file.get()));
    json.set("key", segment.key);
    return json.dump();
  }
  throw Error(ErrorCode::kInternal, str_cat("[ps] no segment ", id));
}

std::vector<uint64_t> WorkerMemory::take_gone() {
  const MutexLock lock(segments_->mutex);
  return std::exchange(segments_->gone, {});
}

void WorkerMemory::withdraw(const std::vector<uint64_t>& ids) {
  const MutexLock lock(segments_->mutex);
  for (auto& [address, segment] : segments_->by_address) {
    if (std::ranges::find(ids, segment.id) == ids.end()) continue;
    const auto size = static_cast<size_t>(segment.mapping.bytes());
    Segment other;
    open(other, size - kMemoryKeyBytes);
    std::memcpy(other.mapping.data(), segment.mapping.data(), size - kMemoryKeyBytes);
    STRATA_CHECK(::mmap(segment.mapping.data(), size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, other.file.get(), 0) != MAP_FAILED,
                 kUnavailable, "[ps] mmap of ", size,
                 " shared bytes: ", wire::system_error_text(errno));
    segments_->gone.push_back(segment.id);
    segment.id = ++segments_->last_id;
    segment.key = other.key;
    segment.file = std::move(other.file);
  }
}

}  // namespace strata::ps
