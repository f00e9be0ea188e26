#include "strata/checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <optional>

#include "checkpoint/manager_state.h"
#include "core/join.h"
#include "core/mutex.h"
#include "core/termination.h"
#include "core/wait_notice.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/interrupt.h"
#include "strata/core/log.h"

namespace strata {
namespace {

struct Found {
  FollowedCheckpoint checkpoint;
  double saved_at = 0;  // seconds since 1970
};

/// Of a file "ckpt-12.safetensors".
std::optional<int64_t> number_of_file(std::string_view entry, const FollowOptions& options) {
  const auto ends = [&](const std::string& ending) { return entry.ends_with(ending); };
  const auto ending = std::ranges::find_if(options.file_endings, ends);
  const std::string prefix = options.checkpoint_name + "-";
  if (ending == options.file_endings.end() || !entry.starts_with(prefix)) return {};
  entry.remove_prefix(prefix.size());
  entry.remove_suffix(std::min(ending->size(), entry.size()));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error != std::errc() || end != entry.data() + entry.size()) return {};
  return number;
}

class Follower {
 public:
  Follower(const std::string& folder, const FollowOptions& options)
      : folder_(folder), options_(options), files_(file_system_of(folder)) {}

  /// The newest, if it is newer than the last; nullopt: it does not exist yet.
  std::optional<FollowedCheckpoint> look() {
    std::optional<Found> newest;
    const auto is_newer = [](const Found& found, const std::optional<Found>& than) {
      if (!than) return true;
      // A file system's clock may stand still between two of them.
      return found.saved_at != than->saved_at ? found.saved_at > than->saved_at
                                              : found.checkpoint.number > than->checkpoint.number;
    };
    const auto offer = [&](Found found) {
      if (is_newer(found, last_) && is_newer(found, newest)) newest = std::move(found);
    };
    const auto listing = checkpoint::list_checkpoints(folder_, options_.checkpoint_name);
    for (const auto& each : listing.good) {
      offer({.checkpoint = {.path = each.path, .number = each.number}, .saved_at = each.saved_at});
    }
    damaged_ = listing.damaged;
    if (!options_.file_endings.empty() && files_.info(folder_)) {
      for (const std::string& entry : files_.list(folder_)) {
        const auto number = number_of_file(entry, options_);
        const std::string path = join_path(folder_, entry);
        const auto info = number ? files_.info(path) : std::nullopt;
        if (!info || info->is_folder) continue;
        offer({.checkpoint = {.path = path, .number = *number},
               .saved_at = 1e-9 * static_cast<double>(info->modified_ns)});
      }
    }
    if (!newest) return std::nullopt;
    last_ = std::move(newest);
    return last_->checkpoint;
  }

  bool is_there(const FollowedCheckpoint& checkpoint) const {
    return files_.info(checkpoint.path).has_value();
  }

  bool has_found() const { return last_.has_value(); }

  [[noreturn]] void give_up() const {
    const double seconds = std::chrono::duration<double>(options_.timeout).count();
    strata::detail::throw_error(
        ErrorCode::kDeadlineExceeded,
        str_cat("[follow_checkpoints] no checkpoint ", options_.checkpoint_name, "-<number> came ",
                "into ", folder_, " within ", seconds, " s",
                last_ ? str_cat("; the last was ", last_->checkpoint.path) : "",
                damaged_.empty() ? "" : str_cat("; passed over: ", join(damaged_, {}, "; ")),
                "; does the training job save there?"));
  }

 private:
  const std::string folder_;
  const FollowOptions& options_;
  const FileSystem& files_;
  std::optional<Found> last_;
  std::vector<std::string> damaged_;
};

void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any nobody_tells;
  MutexLock lock(mutex);
  (void)nobody_tells.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

bool follow_checkpoints(const std::string& folder,
                        const std::function<bool(const FollowedCheckpoint&)>& body,
                        const FollowOptions& options) {
  STRATA_CHECK(options.timeout.count() > 0 && options.interval.count() > 0, kInvalidArgument,
               "[follow_checkpoints] got a timeout of ", options.timeout.count(),
               " ms and an interval of ", options.interval.count(), " ms; expected more than 0");
  std::optional<strata::detail::TerminationGuard> termination;
  if (options.on_sigterm) {
    STRATA_CHECK(
        strata::detail::TerminationGuard::possible(), kFailedPrecondition,
        "[follow_checkpoints] another handler of SIGTERM is installed; pass {.on_sigterm = false}");
    termination.emplace();
  }
  using Clock = std::chrono::steady_clock;
  Follower follower(folder, options);
  Clock::time_point until = Clock::now() + options.timeout;
  STRATA_LOG(kInfo) << "[follow_checkpoints] waiting for checkpoints in " << folder;
  // For the first one: between two of them a training may take long.
  strata::detail::WaitNotice notice(
      [&] {
        return str_cat("[follow_checkpoints] waits for a checkpoint ", options.checkpoint_name,
                       "-<number> in ", folder, "; is it the folder that the training saves to?");
      },
      Clock::now(), until);
  while (true) {
    throw_if_interrupted();
    if (options.stop.stop_requested()) return false;
    if (termination && termination->requested()) {
      termination->handled();
      return false;
    }
    if (const auto checkpoint = follower.look()) {
      try {
        if (!body(*checkpoint)) return true;
      } catch (const Error& error) {
        if (follower.is_there(*checkpoint)) throw;
        STRATA_LOG(kInfo) << "[follow_checkpoints] " << checkpoint->path << " was removed ("
                          << error.what() << ")";
      }
      until = Clock::now() + options.timeout;
      continue;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) follower.give_up();
    if (!follower.has_found()) notice.look(Clock::now());
    pause(std::min(options.interval, left), options.stop);
  }
}

}  // namespace strata
