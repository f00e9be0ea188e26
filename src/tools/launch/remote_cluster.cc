#include "tools/launch/remote_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <string_view>

#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "tools/launch/remote_script.h"
#include "tools/launch/tf_config.h"

extern char** environ;

namespace strata::tools {
namespace {

using cluster::TaskId;

struct Place {
  TaskId task;
  const Host* host;
  int worker = 0;  // among those of its host
  int port = 0;    // 0: it does not listen
};

// Below the ports that Linux hands out by itself, so that no connection has one. Two launches at
// once draw different ones, most likely.
constexpr int kFirstDrawn = 20'000;
constexpr int kLastDrawn = 31'000;
constexpr int kLastPort = 65'535;

int draw_port() {
  std::random_device device;
  return std::uniform_int_distribution<int>(kFirstDrawn, kLastDrawn)(device);
}

std::vector<Place> place(const LaunchOptions& options) {
  std::vector<Place> places;
  const auto add = [&](const TaskId& task, const Host& host, int worker, int port) {
    places.push_back({.task = task, .host = &host, .worker = worker, .port = port});
  };
  const int first = options.remote.port != 0 ? options.remote.port : draw_port();
  std::vector<int> used(options.hosts.size());
  size_t at = 0;
  int server = 0;
  for (const TaskId& task : options.tasks()) {
    if (task.job == cluster::kEvaluator) {
      add(task, options.hosts.back(), 0, 0);
    } else if (task.job == cluster::kPs) {
      const size_t host = static_cast<size_t>(server++) % options.hosts.size();
      add(task, options.hosts[host], 0, first + used[host]++);
    } else {
      while (used[at] == options.hosts[at].slots) ++at;
      add(task, options.hosts[at], used[at], first + used[at]);
      ++used[at];
    }
    STRATA_CHECK(places.back().port <= kLastPort, kInvalidArgument, "[strata launch] got --port ",
                 first, ", from which ", options.hosts[0].login,
                 " and the others have too few; expected a lower one");
  }
  return places;
}

cluster::ClusterSpec spec_of(const std::vector<Place>& places) {
  std::map<std::string, std::vector<std::string>> jobs;
  for (const Place& each : places) {
    if (each.port == 0) continue;
    const std::string& host = each.host->address;
    const bool brackets = host.find(':') != std::string::npos;
    jobs[each.task.job].push_back(
        str_cat(brackets ? "[" : "", host, brackets ? "]" : "", ":", each.port));
  }
  return cluster::ClusterSpec(jobs);
}

// strata's own settings follow the tasks, as they do on this machine. The secret has its own way,
// and so has a file of it, which need not exist elsewhere.
std::map<std::string, std::string> own_settings() {
  std::map<std::string, std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("STRATA_") || name.starts_with("STRATA_JOB_SECRET")) continue;
    settings[name] = text.substr(std::min(name.size() + 1, text.size()));
  }
  return settings;
}

// `worker-1.key`, `worker-1.pem` and the authority's certificate, and not its key.
std::map<std::string, std::string> certificates_of(const TaskId& task, const std::string& folder) {
  std::map<std::string, std::string> files;
  const std::string own = str_cat(task.job, "-", task.index);
  for (const std::string& name : {std::string("authority.pem"), own + ".pem", own + ".key"}) {
    files[name] = read_file(join_path(folder, name));
  }
  return files;
}

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

// The shell here takes the user's words apart; what follows them are words already.
ChildSpec ssh_to(const Host& host, const std::string& ssh, std::string script,
                 std::chrono::seconds timeout) {
  ChildSpec child;
  child.program = "/bin/sh";
  child.arguments = {"-c", str_cat("exec ", ssh, " \"$@\""), "ssh"};
  // ssh takes the first value that it is given: the user's words come first.
  if (std::filesystem::path(first_word(ssh)).filename() == "ssh") {
    constexpr int kUnanswered = 3;
    const auto interval = std::max<int64_t>(1, timeout.count() / 2);
    for (
        const std::string& option :
        {std::string("BatchMode=yes"), std::string("ClearAllForwardings=yes"),
         str_cat("ConnectTimeout=", timeout.count()),
         // Longer in all than the tasks there wait for us: when it is noticed here, they have ended.
         str_cat("ServerAliveInterval=", interval), str_cat("ServerAliveCountMax=", kUnanswered)}) {
      child.arguments.insert(child.arguments.end(), {"-o", option});
    }
    child.arguments.emplace_back("-T");
  }
  child.arguments.push_back(host.login);
  child.arguments.push_back(remote_command(script.size()));
  child.input = std::move(script);
  return child;
}

}  // namespace

RemoteCluster::RemoteCluster(const LaunchOptions& options, const std::string& tls_folder) {
  if (options.remote.ssh.find_first_of("'\"\\$`") == std::string::npos) {
    (void)find_program(first_word(options.remote.ssh));
  }
  const std::vector<Place> places = place(options);
  spec_ = spec_of(places);
  const auto timeout =
      std::max(std::chrono::ceil<std::chrono::seconds>(options.supervisor.host_timeout),
               std::chrono::seconds(1));
  const std::map<std::string, std::string> settings = own_settings();
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  for (const Place& each : places) {
    SupervisedTask& task = tasks_.emplace_back();
    task.name = each.task.short_name();
    task.host = each.host->login;
    task.serves = each.task.job == cluster::kPs || each.task.job == cluster::kEvaluator;
    task.leads = each.task == cluster::leader(spec_);
    RemoteTask remote = {
        .program = options.command.front(),
        .arguments = {options.command.begin() + 1, options.command.end()},
        .environment = options.environment,
        .directory = options.remote.directory.empty() ? here : options.remote.directory,
        .needs_directory = !options.remote.directory.empty(),
        .silence = timeout};
    remote.environment.insert(settings.begin(), settings.end());
    remote.environment["TF_CONFIG"] = tf_config(spec_, each.task);
    if (!tls_folder.empty()) {
      remote.files = certificates_of(each.task, tls_folder);
      remote.files_variable = "STRATA_TLS_DIR";
      remote.environment.erase(remote.files_variable);
    }
    if (options.gpus.per_task && !task.serves) {
      std::string gpus;
      for (int i = 0; i < *options.gpus.per_task; ++i) {
        gpus += str_cat(i > 0 ? "," : "", each.worker * *options.gpus.per_task + i);
      }
      remote.environment["CUDA_VISIBLE_DEVICES"] = gpus;
      remote.environment.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (options.gpus.shared && !task.serves) {
      remote.environment.emplace("STRATA_SHARED_GPUS", "allow");
    }
    task.child = ssh_to(*each.host, options.remote.ssh, remote_script(remote), timeout);
  }
}

std::string explain_ssh(const SupervisedTask& task, const ChildEnd& end,
                        const std::vector<std::string>& last_lines) {
  constexpr int kSshFailed = 255;
  if (task.host.empty() || end.signal != 0 || end.code != kSshFailed) return {};
  struct Known {
    const char* part;
    const char* hint;
  };
  static constexpr Known kKnown[] = {
      {"Host key verification failed",
       "the host's key is not known here, or has changed: look at it once with `ssh HOST true`"},
      {"Permission denied",
       "ssh must get in without a password: by a key, an agent, or --ssh \"ssh -i KEY\""},
      {"Could not resolve hostname", "the name is not known here: correct --hosts"},
      {"Connection refused", "no ssh server listens there: start one, or --ssh \"ssh -p PORT\""},
      {"timed out", "the host cannot be reached, or was cut off"},
      {"not responding", "the host was cut off; what ran there has ended by itself"},
      {"No route to host", "the host cannot be reached"},
      {"closed by remote host", "the connection was cut; what ran there was ended"},
      {"Connection reset", "the connection was cut; what ran there was ended"},
      {"Connection closed", "the ssh server there ended the connection: its log says why"},
      {"Broken pipe", "the connection was cut; what ran there was ended"},
  };
  for (auto line = last_lines.rbegin(); line != last_lines.rend(); ++line) {
    for (const Known& known : kKnown) {
      if (line->find(known.part) == std::string::npos) continue;
      std::string hint = known.hint;
      if (const size_t at = hint.find("HOST"); at != std::string::npos) {
        hint.replace(at, std::string_view("HOST").size(), task.host);
      }
      return hint;
    }
  }
  return str_cat("255 is also what ssh returns where it fails itself: try `ssh ", task.host,
                 " true`");
}

}  // namespace strata::tools
