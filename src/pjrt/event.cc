#include "pjrt/event.h"

#include <optional>
#include <utility>

#include "core/mutex.h"
#include "pjrt/arguments.h"

namespace strata::pjrt {
namespace {

/// Where the plugin's thread leaves the outcome. It outlives a wait that has given up.
struct EventOutcome {
  const Plugin* plugin;
  std::string what;
  Mutex mutex;
  ConditionVariable changed;
  std::optional<Status> status STRATA_GUARDED_BY(mutex);
};

void on_ready(PJRT_Error* error, void* user_argument) {
  const std::unique_ptr<std::shared_ptr<EventOutcome>> held(
      static_cast<std::shared_ptr<EventOutcome>*>(user_argument));
  EventOutcome& outcome = **held;
  Status status;
  try {
    outcome.plugin->check(error, outcome.what);
  } catch (...) {
    status = Status::from_current_exception();
  }
  const MutexLock lock(outcome.mutex);
  outcome.status = std::move(status);
  outcome.changed.notify_all();
}

/// Waits, and leaves the event as it is.
void await(const Plugin& plugin, PJRT_Event* event, std::string_view what,
           std::chrono::milliseconds timeout) {
  const auto outcome = std::make_shared<EventOutcome>();
  outcome->plugin = &plugin;
  outcome->what = what;
  auto arguments = STRATA_PJRT_ARGUMENTS(Event_OnReady);
  arguments.event = event;
  arguments.callback = on_ready;
  auto held = std::make_unique<std::shared_ptr<EventOutcome>>(outcome);
  arguments.user_arg = held.get();
  plugin.check(plugin.api().PJRT_Event_OnReady(&arguments), what);
  held.release();  // on_ready frees it
  MutexLock lock(outcome->mutex);
  const bool done = outcome->changed.wait_for(lock, timeout, [&] {
    outcome->mutex.assume_held();
    return outcome->status.has_value();
  });
  STRATA_CHECK(done, kDeadlineExceeded, "[pjrt] ", what, ": not done after ", timeout.count(),
               " ms; allow more time, or look for a replica that does not take part");
  outcome->status->throw_if_error();
}

struct EventOwner {
  const Plugin& plugin;
  PJRT_Event* event;
  ~EventOwner() {
    auto arguments = STRATA_PJRT_ARGUMENTS(Event_Destroy);
    arguments.event = event;
    plugin.api().PJRT_Event_Destroy(&arguments);
  }
};

}  // namespace

void wait_for(const Plugin& plugin, PJRT_Event* event, std::string_view what,
              std::chrono::milliseconds timeout) {
  if (event == nullptr) return;
  const EventOwner owner{plugin, event};
  await(plugin, event, what, timeout);
}

Event::Event(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
             PJRT_Event* event)
    : plugin_(std::move(plugin)),
      event_(event, [plugin = plugin_, client = std::move(client)](PJRT_Event* each) {
        const EventOwner owner{*plugin, each};
      }) {}

bool Event::is_ready() const {
  auto arguments = STRATA_PJRT_ARGUMENTS(Event_IsReady);
  arguments.event = event_.get();
  plugin_->check(plugin_->api().PJRT_Event_IsReady(&arguments), "ask for an event");
  return arguments.is_ready;
}

void Event::wait(std::string_view what, std::chrono::milliseconds timeout) const {
  await(*plugin_, event_.get(), what, timeout);
}

}  // namespace strata::pjrt
