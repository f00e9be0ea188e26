#include "checkpoint/scratch.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <vector>

#include "checkpoint/manifest.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::checkpoint {
namespace {

constexpr std::string_view kPrefixes[] = {".tmp-", ".old-", ".trash-"};
constexpr int64_t kDayInNs = int64_t{24} * 3600 * 1'000'000'000;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

/// When a process started, in the kernel's ticks since boot; -1 if there is no such process.
int64_t start_of(int64_t pid) {
  std::ifstream file(str_cat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // a name may hold blanks and parentheses
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  int64_t ticks = -1;
  (void)std::from_chars(field.data(), field.data() + field.size(), ticks);
  return ticks;
}

/// A number at the beginning of `text`, which loses it and the `end` behind it.
std::optional<int64_t> take_number(std::string_view& text, char end) {
  int64_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || at == text.data() + text.size() || *at != end) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(at - text.data()) + 1);
  return number;
}

void recover(const FileSystem& files, const std::string& folder, const std::string& entry,
             const ScratchName& scratch) {
  const std::string path = join_path(folder, entry);
  const std::string home = join_path(folder, scratch.name);
  if (scratch.kind == ScratchKind::kReplaced && !files.info(home)) {
    files.rename(path, home);
    files.sync_folder(folder);
    STRATA_LOG(kWarning) << "[checkpoint] " << home
                         << ": put back; the process that replaced it had died";
    return;
  }
  remove_folder(files, path);
  STRATA_VLOG(1) << "[checkpoint] removed " << path << ", left by a process that died";
}

}  // namespace

std::string make_scratch_name(ScratchKind kind, std::string_view name) {
  static std::atomic<int64_t> counter{0};
  static const int64_t started = start_of(::getpid());
  return str_cat(kPrefixes[static_cast<size_t>(kind)], ::getpid(), '-', started, '-', ++counter,
                 '@', host_name(), '@', name);
}

std::optional<ScratchName> parse_scratch_name(std::string_view text) {
  for (size_t kind = 0; kind < std::size(kPrefixes); ++kind) {
    if (!text.starts_with(kPrefixes[kind])) continue;
    text.remove_prefix(kPrefixes[kind].size());
    const auto pid = take_number(text, '-');
    const auto started = pid ? take_number(text, '-') : std::nullopt;
    const auto counter = started ? take_number(text, '@') : std::nullopt;
    const size_t at = text.find('@');
    if (!counter || at == text.npos) return std::nullopt;
    return ScratchName{.kind = static_cast<ScratchKind>(kind),
                       .host = std::string(text.substr(0, at)),
                       .pid = *pid,
                       .started = *started,
                       .name = std::string(text.substr(at + 1))};
  }
  return std::nullopt;
}

bool is_abandoned(const ScratchName& scratch, const FileInfo& info) {
  if (scratch.host == host_name()) return start_of(scratch.pid) != scratch.started;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t age =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - info.modified_ns;
  return age > kDayInNs;
}

void clean_up(const FileSystem& files, const std::string& folder) {
  try {
    if (!files.info(folder)) return;
    for (const std::string& entry : files.list(folder)) {
      const auto scratch = parse_scratch_name(entry);
      if (!scratch) continue;
      const auto info = files.info(join_path(folder, entry));
      if (info && is_abandoned(*scratch, *info)) recover(files, folder, entry, *scratch);
    }
  } catch (const Error& error) {
    STRATA_LOG(kWarning) << "[checkpoint] " << folder
                         << ": cannot remove what dead processes left there: " << error.what();
  }
}

void remove_folder(const FileSystem& files, const std::string& folder) {
  const auto info = files.info(folder);
  if (info && !info->is_folder) return files.remove(folder);
  const std::string manifest = join_path(folder, kManifestFile);
  if (files.info(manifest)) files.remove(manifest);
  for (const std::string& name : files.list(folder)) files.remove(join_path(folder, name));
  files.remove(folder);
}

void discard_checkpoint(const FileSystem& files, const std::string& folder) {
  const auto [parent, name] = split_path(folder);
  const std::string trash = join_path(parent, make_scratch_name(ScratchKind::kTrash, name));
  files.rename(folder, trash);
  remove_folder(files, trash);
}

}  // namespace strata::checkpoint
