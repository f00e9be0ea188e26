#include "tools/launch/remote_script.h"

#include <algorithm>

#include "strata/core/error.h"
#include "tools/shell_quote.h"

namespace strata::tools {
namespace {

// The process beside the task. $1: the task, $2: seconds, $3: a folder to remove, or nothing.
// A watchdog that was put off leaves its sleep behind for that long, in the session that is killed
// at the end: `kill 0` is the whole of it.
constexpr const char* kReader = R"sh(
end() { kill -s "$1" -- "-$task" || kill -s "$1" "$task"; }
task=$1
last() { end KILL; [ -z "$folder" ] || rm -rf -- "$folder"; kill -s KILL 0; }
folder=$3
while :; do
  (sleep "$2"; last) & watchdog=$!
  read -r line || break
  kill "$watchdog"
  [ -z "$line" ] || end "$line"
done
last
)sh";

// Beginning and end of the script; between them are the task's own lines.
constexpr const char* kBegin = R"sh(say() { printf 'strata launch: %s\n' "$1" >&2; }
command -v setsid >/dev/null || { say 'there is no command setsid (util-linux) on this host'; exit 127; }
folder=
)sh";

constexpr const char* kEnd = R"sh(case $1 in
*/*)
  [ -e "$1" ] || { say "the program $1 does not exist on this host, where it starts in $PWD"; exit 127; }
  [ -x "$1" ] && [ ! -d "$1" ] || { say "the program $1 is not executable on this host"; exit 126; } ;;
*) command -v "$1" >/dev/null || { say "the program $1 is not in PATH on this host, which is $PATH"; exit 127; } ;;
esac
exec 3<&0 </dev/null
setsid "$@" 3<&- & task=$!
exec >/dev/null 2>&1
setsid /bin/sh -c "$reader" strata-launch "$task" "$silence" "$folder" <&3 & reading=$!
exec 3<&-
wait "$task"; status=$?
kill -s KILL -- "-$task"
kill -s KILL -- "-$reading" || kill -s KILL "$reading"
[ -z "$folder" ] || rm -rf -- "$folder"
exit "$status"
)sh";

bool can_be_exported(const std::string& name) {
  constexpr std::string_view kLetters =
      "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
         name.find_first_not_of(kLetters) == std::string::npos;
}

}  // namespace

std::string remote_command(size_t script_bytes) {
  return str_cat("exec /bin/sh -c 'eval \"$(head -c ", script_bytes, ")\"'");
}

std::string remote_script(const RemoteTask& task) {
  std::string script = kBegin;
  const std::string directory = shell_quoted(task.directory);
  script += str_cat("cd -- ", directory, " 2>/dev/null || ");
  script += task.needs_directory ? str_cat("{ say ",
                                           shell_quoted("the directory " + task.directory +
                                                        " cannot be entered on this host"),
                                           "; exit 127; }\n")
                                 : "cd || exit 127\n";
  for (const auto& [name, value] : task.environment) {
    STRATA_CHECK(can_be_exported(name), kInvalidArgument, "[strata launch] got --env ", name,
                 "=..., which a shell on another host cannot set; expected a name of letters, "
                 "digits and _");
    script += str_cat("export ", name, "=", shell_quoted(value), "\n");
  }
  if (!task.files.empty()) {
    script +=
        "folder=$(umask 077; mktemp -d) || { say 'no temporary folder can be made on this host'; "
        "exit 127; }\n";
    for (const auto& [name, contents] : task.files) {
      script += str_cat("(umask 077; printf %s ", shell_quoted(contents), " >\"$folder\"/",
                        shell_quoted(name), ")\n");
    }
    script += str_cat("export ", task.files_variable, "=\"$folder\"\n");
  }
  script += str_cat("silence=", task.silence.count(), "\nreader=", shell_quoted(kReader),
                    "\nset -- ", shell_quoted(task.program));
  for (const std::string& argument : task.arguments) script += " " + shell_quoted(argument);
  return script + "\n" + kEnd;
}

}  // namespace strata::tools
