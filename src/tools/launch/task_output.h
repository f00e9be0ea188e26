#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace strata::tools {

struct TaskOutputOptions {
  bool colours = false;         ///< of the prefixes
  std::string log_folder = {};  ///< each task's output as it is, in `worker-0.log`; empty: none
  int out = STDOUT_FILENO;
  int err = STDERR_FILENO;
};

/// What tasks print, line by line and each with its task in front: "[worker:0] epoch 1". Where a
/// line was drawn several times over ('\r', a progress bar), its last state counts.
///
/// Threads: one.
class TaskOutput {
 public:
  enum class Stream { kOut, kErr };

  /// @param tasks  Their names.
  /// @throws Error  as FileSystem::create, of `log_folder` and the files in it.
  TaskOutput(std::vector<std::string> tasks, TaskOutputOptions options);
  ~TaskOutput();
  TaskOutput(const TaskOutput&) = delete;
  TaskOutput& operator=(const TaskOutput&) = delete;

  void add(size_t task, Stream stream, std::string_view bytes);
  /// The task has ended: shows what it has not finished with a line end.
  void finish(size_t task);
  /// Its last lines of both streams, the oldest first; of the last start only.
  std::vector<std::string> last_lines(size_t task) const;
  /// The task is started again; its log continues.
  void start_again(size_t task);

  /// A line of the launcher's own, on standard error.
  void say(std::string_view text);

  /// No process reads `out` or `err` any more (`strata launch ... | head`).
  bool broken() const { return broken_; }

 private:
  struct Task {
    std::string prefix;
    std::array<std::string, 2> unfinished;  // by stream
    std::deque<std::string> last;
    int log = -1;
  };

  void show(Task& task, std::string_view line, std::string& text);
  void write_all(int fd, std::string_view text);

  const TaskOutputOptions options_;
  std::vector<Task> tasks_;
  bool broken_ = false;
};

}  // namespace strata::tools
