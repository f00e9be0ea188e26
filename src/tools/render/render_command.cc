// `strata render`: a job as a file for another system.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cluster/job_secret_environment.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/data_file.h"
#include "tools/render/render.h"

namespace strata::tools {
namespace {

std::string template_of(const RenderCommand& command) {
  if (!command.template_file.empty() && !command.print_template) {
    return read_file(command.template_file);
  }
  const char* const name = command.options.target == RenderTarget::kSlurm        ? "slurm.sh"
                           : command.options.target == RenderTarget::kKubernetes ? "kubernetes.yaml"
                                                                                 : "compose.yaml";
  return read_file(data_file(str_cat("render/", name)).string());
}

// It may have a secret in it.
void write_private(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool fine = fd >= 0;
  while (fine && !text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    fine = written > 0;
    if (fine) text.remove_prefix(static_cast<size_t>(written));
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  STRATA_CHECK(fine, kPermissionDenied, "[strata render] got --output ", path,
               ", which cannot be written: ", std::strerror(error));
}

}  // namespace

int render_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::cerr << read_render_options({"--help"}).help;
    return kUsageError;
  }
  RenderCommand command = read_render_options(words);
  if (!command.help.empty()) {
    std::cout << command.help;
    return 0;
  }
  const std::string text = template_of(command);
  std::string result = text;
  if (!command.print_template) {
    RenderOptions& options = command.options;
    if (options.target == RenderTarget::kKubernetes && options.secret.empty()) {
      const auto chosen = cluster::job_secret_from_environment();
      options.job_secret = (chosen ? *chosen : wire::JobSecret::random()).reveal();
    }
    result = render(options, text);
  }
  if (command.output.empty()) {
    std::cout << result;
  } else {
    write_private(command.output, result);
  }
  return 0;
}

}  // namespace strata::tools
