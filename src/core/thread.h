#pragma once

#include <concepts>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace strata {

/// Names the calling thread, as debuggers, `top -H` and traces show it. The kernel keeps 15 bytes:
/// of a longer name the front is kept. Threads: any.
void set_thread_name(const std::string& name);

/// The calling thread's name, at most 15 bytes.
std::string thread_name();

/// A thread that has a name, and that is asked to stop and joined by the handle's destructor.
/// `body` is called as `body(std::stop_token)` or `body()`. As with std::thread, an exception that
/// leaves
/// `body` ends the process: carry it out as a Status.
class Thread {
 public:
  Thread() = default;

  template <typename Body>
  requires std::invocable < std::decay_t<Body>
  & > || std::invocable<std::decay_t<Body>&, std::stop_token> Thread(std::string name, Body&& body)
      : thread_([name = std::move(name), body = std::decay_t<Body>(std::forward<Body>(body))](
                    std::stop_token stop) mutable {
          set_thread_name(name);
          if constexpr (std::invocable<std::decay_t<Body>&, std::stop_token>) {
            body(std::move(stop));
          } else {
            body();
          }
        }) {}

  bool joinable() const noexcept { return thread_.joinable(); }
  void request_stop() noexcept { thread_.request_stop(); }
  void join() { thread_.join(); }
  /// Lets go of a thread that hangs in a call of the system and so can neither be ended nor joined.
  /// Its body must own all that it touches.
  void detach() { thread_.detach(); }
  std::thread::id id() const noexcept { return thread_.get_id(); }
  std::thread::native_handle_type native_handle() { return thread_.native_handle(); }

 private:
  std::jthread thread_;
};

}  // namespace strata
