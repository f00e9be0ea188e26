#include "core/scratch.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/random_hex.h"
#include "strata/core/error.h"

namespace strata::detail {
namespace {

constexpr std::string_view kPrefixes[] = {".tmp-", ".old-", ".trash-"};
constexpr std::string_view kUnknown = "unknown";
constexpr auto kUntouched = std::chrono::hours(24);

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

bool is_old(const FileInfo& info) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return now - std::chrono::nanoseconds(info.modified_ns) > kUntouched;
}

/// What precedes `end` in `text`, which loses it.
std::optional<std::string> take_until(std::string_view& text, char end) {
  const size_t at = text.find(end);
  if (at == 0 || at == text.npos) return std::nullopt;
  std::string part(text.substr(0, at));
  text.remove_prefix(at + 1);
  return part;
}

}  // namespace

std::string this_kernel() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::erase(boot, '-');
  return boot.empty() ? std::string(kUnknown) : boot.substr(0, 16);
}

std::string make_scratch_name(ScratchKind kind, std::string_view name) {
  static std::atomic<int64_t> counter{0};
  static const std::string kernel = this_kernel();
  // Random each time: a child made by fork counts on from the same number.
  return str_cat(kPrefixes[static_cast<size_t>(kind)], kernel, '-', random_hex(6), '-', ++counter,
                 '@', host_name(), '@', name);
}

std::optional<ScratchName> parse_scratch_name(std::string_view text) {
  for (size_t kind = 0; kind < std::size(kPrefixes); ++kind) {
    if (!text.starts_with(kPrefixes[kind])) continue;
    text.remove_prefix(kPrefixes[kind].size());
    auto kernel = take_until(text, '-');
    const bool whole = kernel && take_until(text, '-') && take_until(text, '@') &&
                       take_until(text, '@') && !text.empty();
    if (!whole) return std::nullopt;
    return ScratchName{.kind = static_cast<ScratchKind>(kind),
                       .kernel = *std::move(kernel),
                       .name = std::string(text)};
  }
  return std::nullopt;
}

Scratch make_scratch(const FileSystem& files, const std::string& folder, std::string_view name,
                     const std::function<void(const std::string& path)>& make) {
  // Between making and locking another process may take it for abandoned; then a new one is made.
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    std::string path = join_path(folder, make_scratch_name(ScratchKind::kTemporary, name));
    make(path);
    PathLock lock = files.try_lock(path);
    if (lock.state == PathLock::State::kLocked || lock.state == PathLock::State::kUnsupported) {
      return {.path = std::move(path), .lock = std::move(lock)};
    }
  }
  throw Error(ErrorCode::kAborted,
              str_cat("[core] write: ", join_path(folder, name), ": another process removed ",
                      kAttempts, " temporary files of this one; expected that it leaves them"));
}

std::optional<PathLock> lock_abandoned(const FileSystem& files, const std::string& path,
                                       const ScratchName& scratch) {
  const auto info = files.info(path);
  if (!info) return std::nullopt;
  PathLock lock = files.try_lock(path);
  switch (lock.state) {
    case PathLock::State::kHeldElsewhere:
    case PathLock::State::kMissing:
      return std::nullopt;
    case PathLock::State::kUnsupported:
      if (!is_old(*info)) return std::nullopt;
      return lock;
    case PathLock::State::kLocked:
      break;
  }
  // Another kernel's locks need not be seen here.
  const bool made_here = scratch.kernel == this_kernel() && scratch.kernel != kUnknown;
  if (!made_here && !is_old(*info)) return std::nullopt;
  return lock;
}

}  // namespace strata::detail
