#include "tools/launch/task_output.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::tools {
namespace {

constexpr size_t kLastLines = 10;
constexpr size_t kLongestLine = size_t{64} << 10;  // a longer one is shown in parts

// Of the terminal; neighbours differ. Red is for errors.
constexpr std::array kColours = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};

int open_log(const std::string& folder, std::string task) {
  if (folder.empty()) return -1;
  local_file_system().make_folders(folder);
  std::ranges::replace(task, ':', '-');
  const std::string path = join_path(folder, task + ".log");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  STRATA_CHECK(fd >= 0, kPermissionDenied, "[strata launch] got --log-dir ", folder, ", but ", path,
               " cannot be written: ", std::strerror(errno));
  return fd;
}

// What a terminal would show of it in the end.
std::string_view last_state(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t redrawn = line.rfind('\r');
  return redrawn == std::string_view::npos ? line : line.substr(redrawn + 1);
}

}  // namespace

TaskOutput::TaskOutput(std::vector<std::string> tasks, TaskOutputOptions options)
    : options_(std::move(options)) {
  size_t widest = 0;
  for (const std::string& name : tasks) widest = std::max(widest, name.size());
  for (const std::string& name : tasks) {
    Task& task = tasks_.emplace_back();
    task.prefix = str_cat("[", name, "]", std::string(widest - name.size() + 1, ' '));
    if (options_.colours) {
      const int colour = kColours[(tasks_.size() - 1) % kColours.size()];
      task.prefix = str_cat("\033[", colour, "m", task.prefix, "\033[0m");
    }
    task.log = open_log(options_.log_folder, name);
  }
}

TaskOutput::~TaskOutput() {
  for (const Task& task : tasks_) {
    if (task.log >= 0) ::close(task.log);
  }
}

void TaskOutput::add(size_t index, Stream stream, std::string_view bytes) {
  Task& task = tasks_[index];
  if (task.log >= 0) write_all(task.log, bytes);
  std::string& unfinished = task.unfinished[stream == Stream::kOut ? 0 : 1];
  std::string text;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kLongestLine - unfinished.size();
    const size_t taken = std::min({end, bytes.size(), room});
    unfinished += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    const bool ended = bytes.starts_with('\n');
    if (!ended && unfinished.size() < kLongestLine) break;
    if (ended) bytes.remove_prefix(1);
    show(task, unfinished, text);
    unfinished.clear();
  }
  // All in one call, and so never in the middle of another's line.
  write_all(stream == Stream::kOut ? options_.out : options_.err, text);
}

void TaskOutput::finish(size_t index) {
  Task& task = tasks_[index];
  for (const size_t stream : {0, 1}) {
    if (task.unfinished[stream].empty()) continue;
    std::string text;
    show(task, task.unfinished[stream], text);
    task.unfinished[stream].clear();
    write_all(stream == 0 ? options_.out : options_.err, text);
  }
}

void TaskOutput::show(Task& task, std::string_view line, std::string& text) {
  line = last_state(line);
  text += str_cat(task.prefix, line, "\n");
  task.last.emplace_back(line);
  if (task.last.size() > kLastLines) task.last.pop_front();
}

std::vector<std::string> TaskOutput::last_lines(size_t task) const {
  return {tasks_[task].last.begin(), tasks_[task].last.end()};
}

void TaskOutput::start_again(size_t index) {
  Task& task = tasks_[index];
  task.last.clear();
  if (task.log >= 0) write_all(task.log, "--- started again ---\n");
}

void TaskOutput::say(std::string_view text) {
  constexpr const char* kName = "strata launch: ";
  write_all(options_.err, options_.colours ? str_cat("\033[1m", kName, "\033[0m", text, "\n")
                                           : str_cat(kName, text, "\n"));
}

void TaskOutput::write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      broken_ = broken_ || errno == EPIPE;
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace strata::tools
